// A request that is no chat: a model, fields, a button, and the answer with what it took.
import { refusal, Refused, send } from "./api.js";
import { headOf } from "./chat_reply.js";
import { seconds } from "./format.js";
import { html, useEffect, useRef, useState } from "./kit.js";
import { ModelChoice, namesFor, usual } from "./model_list.js";
import { Problem } from "./parts.js";
import { Pending } from "./pending.js";
import { Program } from "./program_dialog.js";

/**
 * `request(model)`: as `program` takes it, and `file` if a field of its body is one; null: something is missing.
 * `read(reply)`: resolves to what `Answer` shows as `value`.
 */
export function OneRequest({ dialect, wanted, verb, request, read, Answer, children }) {
  const names = namesFor(dialect);
  const first = names.some((one) => one.id === wanted) ? wanted : usual(names);
  const [chosen, choose] = useState(first);
  const [state, setState] = useState({ kind: "idle" });
  const [isShown, show] = useState(false);
  const aborter = useRef(null);
  useEffect(() => () => aborter.current?.abort(), []);
  const model = names.some((one) => one.id === chosen) ? chosen : first;
  const asked = request(model);
  const go = async (event) => {
    event.preventDefault();
    if (state.kind === "busy") return aborter.current.abort();
    const mine = new AbortController();
    aborter.current = mine;
    const began = Date.now() / 1000;
    setState({ kind: "busy", began, model });
    try {
      const reply = await send(asked.path, { method: "POST", body: asked.form ? formOf(asked) : asked.body, signal: mine.signal });
      if (!reply.ok) throw await refusal(reply);
      const value = await read(reply, asked);
      return setState({ kind: "done", value, head: headOf(reply), took: Date.now() / 1000 - began });
    } catch (error) {
      if (error.name === "AbortError") return setState({ kind: "idle" });
      return setState({ kind: "failed", error: error instanceof Refused ? error : new Refused(0, "", `Stoker does not answer, or the answer cannot be read (${error.message}).`) });
    }
  };
  return html`
    <form class="one" onSubmit=${go}>
      <${ModelChoice} id="model" label="Model" dialect=${dialect} value=${model} choose=${choose} />
      ${children}
      <div class="buttons">
        ${state.kind === "busy" ? html`<button key="stop">Stop</button>` : html`<button key="go" disabled=${!asked}>${verb}</button>`}
        <button type="button" class="quiet" disabled=${!asked} onClick=${() => show(true)}>As code</button>
      </div>
    </form>
    <section class="result" aria-label="Answer" aria-live="polite">
      ${state.kind === "busy" && html`<${Pending} model=${state.model} began=${state.began} ready="The model is at work" />`}
      ${state.kind === "failed" && html`<${Problem} error=${state.error} />`}
      ${state.kind === "done" && html`<${Answer} value=${state.value} /><${Took} head=${state.head} took=${state.took} />`}
    </section>
    ${isShown && asked && html`<${Program} requests=${[{ name: model, ...asked }]} close=${() => show(false)} />`}`;
}

function formOf({ body, form, file }) {
  const made = new FormData();
  for (const [name, value] of Object.entries(body)) {
    if (name === form) made.append(name, file, value);
    else made.append(name, value);
  }
  return made;
}

function Took({ head, took }) {
  return html`<dl class="answer-took"><div><dt>Serve</dt><dd>${head.serve}</dd></div><div><dt>Took</dt><dd>${seconds(took)}</dd></div>
    ${head.id && html`<div><dt class="hidden">Details</dt><dd><a href=${`#/requests/${encodeURIComponent(head.id)}`}>Explain this answer</a></dd></div>`}</dl>`;
}
