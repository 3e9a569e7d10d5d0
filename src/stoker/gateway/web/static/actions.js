// What can be done to a serve: shown only to those who may.
import { html, useState } from "./kit.js";
import { ask } from "./api.js";
import { seconds } from "./format.js";
import { Confirm } from "./parts.js";
import { drainPlan, loadPlan, undrainPlan, unloadPlan } from "./plan.js";
import { mayAct } from "./session.js";

const ACTIONS = {
  load: { verb: "Load", path: "admin/switch", plan: loadPlan, said: (answer, name) => `${name} is ready after ${seconds(answer.seconds)}.` },
  unload: { verb: "Unload", path: "admin/unload", plan: unloadPlan, said: (answer, name) => `${name} is unloaded after ${seconds(answer.seconds)}.` },
  drain: { verb: "Drain", path: "admin/drain", plan: drainPlan, said: (answer, name) => `${name} takes no new requests.` },
  undrain: { verb: "Admit again", path: "admin/undrain", plan: undrainPlan, said: (answer, name) => `${name} takes requests again.` },
};
const GONE = ["stopped", "backoff", "parked"];

export function Actions({ serve, status }) {
  const [kind, setKind] = useState(null);
  if (!mayAct.value) return null;
  const offered = GONE.includes(serve.state) ? ["load"] : serve.state === "held" ? ["undrain", "unload"] : ["unload", "drain"];
  const action = ACTIONS[kind];
  return html`
    <div class="buttons">${offered.map((one) => html`<button key=${one} class=${one === "load" ? "" : "quiet"} onClick=${() => setKind(one)}>${ACTIONS[one].verb}</button>`)}</div>
    ${action && html`<${Doing} key=${kind} action=${action} name=${serve.name} status=${status} close=${() => setKind(null)} />`}`;
}

function Doing({ action, name, status, close }) {
  const [steps] = useState(() => action.plan(status, name));
  const body = { serve: name };
  const act = async () => {
    const answer = await ask(action.path, { method: "POST", body });
    return action.said(answer, name);
  };
  return html`<${Confirm} title=${`${action.verb} ${name}?`} steps=${steps} verb=${action.verb} act=${act} close=${close}
    request=${`POST /${action.path} ${JSON.stringify(body)}`} />`;
}
