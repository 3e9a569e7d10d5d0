// What can be done to a key: shown only to those who may.
import { html, useState } from "./kit.js";
import { ask } from "./api.js";
import { Confirm } from "./parts.js";
import { who } from "./session.js";

/** Names that a path can hold as they are. */
const PLAIN = /^[\w.~-]+$/;

const ACTIONS = {
  disable: {
    verb: "Disable", body: {}, plan: (name, entry) => [
      `Refuse ${name} from the next request on.`,
      entry.active ? `${entry.active} under way end as usual.` : "None of its requests is under way.",
      "It stays disabled until somebody enables it again.",
      ...(who.value.key === name ? ["You are signed in with this key: this page will ask for another one."] : []),
    ], said: (name) => `${name} is disabled.`,
  },
  enable: { verb: "Enable", body: {}, plan: (name) => [`Accept ${name} again.`], said: (name) => `${name} is accepted again.` },
  reset: {
    verb: "Reset", body: {}, plan: (name) => [`Undo every change of ${name} that was made while Stoker ran, disabling included.`, "What was used in each window goes on counting."],
    said: (name) => `${name} is as it was made.`,
  },
};

/** `done()` is called when something has changed. */
export function KeyActions({ entry, done }) {
  const [kind, setKind] = useState(null);
  const { name } = entry;
  if (!PLAIN.test(name)) return html`<p class="dim small">The name of this key has signs that only the command line takes: <code>stoker keys disable NAME</code></p>`;
  const offered = [entry.state === "disabled" ? "enable" : "disable", ...(entry.override ? ["reset"] : [])];
  const action = ACTIONS[kind];
  return html`
    <div class="buttons">${offered.map((one) => html`<button key=${one} class="quiet" onClick=${() => setKind(one)}>${ACTIONS[one].verb}</button>`)}</div>
    ${action && html`<${Doing} key=${kind} kind=${kind} action=${action} entry=${entry} done=${done} close=${() => setKind(null)} />`}`;
}

function Doing({ kind, action, entry, done, close }) {
  const { name } = entry;
  const [steps] = useState(() => action.plan(name, entry));
  const path = `admin/keys/${name}/${kind}`;
  const act = async () => {
    await ask(path, { method: "POST", body: action.body });
    done();
    return action.said(name);
  };
  return html`<${Confirm} title=${`${action.verb} ${name}?`} steps=${steps} verb=${action.verb} act=${act} close=${close} request=${`POST /${path} {}`} />`;
}
