// What can be done to a serve: shown only to those who may.
import { html, useEffect, useState } from "./kit.js";
import { ask } from "./api.js";
import { seconds } from "./format.js";
import { Confirm } from "./parts.js";
import { drainPlan, GONE, loadPlan, undrainPlan, unloadPlan } from "./plan.js";
import { mayAct } from "./session.js";

const ACTIONS = {
  load: { verb: "Load", path: "admin/switch", said: (answer, name) => `${name} is ready after ${seconds(answer.seconds)}.` },
  unload: { verb: "Unload", path: "admin/unload", plan: unloadPlan, said: (answer, name) => `${name} is unloaded after ${seconds(answer.seconds)}.` },
  drain: { verb: "Drain", path: "admin/drain", plan: drainPlan, said: (answer, name) => `${name} takes no new requests.` },
  undrain: { verb: "Admit again", path: "admin/undrain", plan: undrainPlan, said: (answer, name) => `${name} takes requests again.` },
};

/** `isRow`: in the row of a table, where only load and unload have room. */
export function Actions({ serve, status, isRow = false }) {
  const [kind, setKind] = useState(null);
  if (!mayAct.value) return null;
  const all = GONE.includes(serve.state) ? ["load"] : serve.state === "held" ? ["undrain", "unload"] : ["unload", "drain"];
  const offered = isRow ? all.filter((one) => one !== "drain" && one !== "undrain") : all;
  const action = ACTIONS[kind];
  return html`
    <div class="buttons">${offered.map((one) => html`<button key=${one} class=${isRow ? "quiet small" : one === "load" ? "" : "quiet"} onClick=${() => setKind(one)}>${ACTIONS[one].verb}${isRow && html`<span class="hidden"> ${serve.name}</span>`}</button>`)}</div>
    ${action && html`<${Doing} key=${kind} action=${action} name=${serve.name} status=${status} close=${() => setKind(null)} />`}`;
}

/** Another serve for a slot; the steps follow what is chosen. */
export function Switch({ slot, members, status }) {
  const [isOpen, open] = useState(false);
  const others = members.filter((one) => !slot.resident.includes(one.name));
  if (!mayAct.value || !(others.length || isOpen)) return null;
  return html`<button class="quiet tiny" aria-label=${`Switch ${slot.name}`} onClick=${() => open(true)}>Switch</button>
    ${isOpen && html`<${Switching} slot=${slot} others=${others} status=${status} close=${() => open(false)} />`}`;
}

function Switching({ slot, others, status, close }) {
  const [name, choose] = useState(others[0].name);
  const steps = useSteps(ACTIONS.load, status, name);
  const body = { serve: name };
  const act = async () => {
    return ACTIONS.load.said(await ask(ACTIONS.load.path, { method: "POST", body }), name);
  };
  return html`<${Confirm} title=${`Switch ${slot.name}?`} steps=${steps} verb="Switch" act=${act} close=${close} request=${`POST /${ACTIONS.load.path} ${JSON.stringify(body)}`}>
    <div class="field"><label for="switch-to">To</label>
      <select id="switch-to" value=${name} onChange=${(event) => choose(event.target.value)}>${others.map((one) => html`<option key=${one.name} value=${one.name} selected=${one.name === name}>${one.name}</option>`)}</select></div>
  <//>`;
}

/** The steps of an action as they are when it is chosen. Who would be stopped, only the scheduler can say. */
function useSteps(action, status, name) {
  const [steps, setSteps] = useState(["Ask Stoker what it would do."]);
  useEffect(() => {
    let isThere = true;
    const show = (found) => { if (isThere) setSteps(found); };
    if (action !== ACTIONS.load) show(action.plan(status, name));
    else {
      ask("admin/preview", { method: "POST", body: { serve: name } }).then(
        (preview) => show(loadPlan(status, name, preview)),
        (error) => show([error.message]),
      );
    }
    return () => { isThere = false; };
  }, [name]);
  return steps;
}

function Doing({ action, name, status, close }) {
  const steps = useSteps(action, status, name);
  const body = { serve: name };
  const act = async () => {
    const answer = await ask(action.path, { method: "POST", body });
    return action.said(answer, name);
  };
  return html`<${Confirm} title=${`${action.verb} ${name}?`} steps=${steps} verb=${action.verb} act=${act} close=${close}
    request=${`POST /${action.path} ${JSON.stringify(body)}`} />`;
}
