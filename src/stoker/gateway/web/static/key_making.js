// Making a key. Its value is in one answer of Stoker, and shown until the dialog is closed; the page keeps it nowhere;
// who opened the dialog may put it into what it shows.
import { html, signal, useEffect, useRef, useState } from "./kit.js";
import { ask } from "./api.js";
import { Code } from "./code_block.js";
import { Problem } from "./parts.js";
import { signIn } from "./session.js";

const PATH = "admin/keys";
const DAY = 86_400;
const ENDS = [["", "never"], [7 * DAY, "in 7 days"], [30 * DAY, "in 30 days"], [90 * DAY, "in 90 days"], [365 * DAY, "in a year"]];
const SCOPES = [
  ["inference", "inference: use models"], ["observe", "observe: also look at this page"], ["admin", "admin: also act on it"],
];

/** `{ apps, isFirst, done(key) }` while the form or the value is shown. It outlives the page that opened it. */
const making = signal(null);

/** `apps`: names of applications; `done(key)` is called when there is a new key. */
export function MakeKey({ apps, isFirst = false, done }) {
  return html`<button onClick=${() => { making.value = { apps, isFirst, done }; }}>${isFirst ? "Make the first key" : "Make a key"}</button>`;
}

export function KeyMaking() {
  return making.value && html`<${Dialog} ...${making.value} />`;
}

function Dialog({ apps, isFirst, done }) {
  const [given, setGiven] = useState({ name: "", scope: isFirst ? "admin" : "inference" });
  const [state, setState] = useState({ kind: "asking" });
  const dialog = useRef(null);
  useEffect(() => { dialog.current.showModal(); }, []);
  const set = (field) => (event) => setGiven({ ...given, [field]: event.target.value });
  const body = bodyOf(given);
  const make = async (event) => {
    event.preventDefault();
    setState({ kind: "doing" });
    try {
      const { key } = await ask(PATH, { method: "POST", body });
      setState({ kind: "done", key });
      if (isFirst && given.scope !== "inference") await signIn(key); // else the page could no longer look
      done(key);
    } catch (error) {
      setState((before) => (before.key ? { ...before, error } : { kind: "failed", error }));
    }
  };
  return html`
    <dialog ref=${dialog} class="making" onClose=${() => { making.value = null; }} aria-labelledby="making-title">
      ${state.kind === "done" ? html`<${Made} name=${body.name} state=${state} close=${() => dialog.current.close()} />` : html`
        <h2 id="making-title">${isFirst ? "Make the first key?" : "Make a key?"}</h2>
        <form onSubmit=${make}>
          <div class="fields">
            <${Field} id="key-name" label="Name"><input id="key-name" required maxlength="64" pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" title="Letters, digits, '.', '_' and '-'" autocomplete="off" value=${given.name} onInput=${set("name")} /><//>
            <${Field} id="key-scope" label="Scope"><select id="key-scope" value=${given.scope} onChange=${set("scope")}>${SCOPES.map(([value, word]) => html`<option key=${value} value=${value} selected=${value === given.scope}>${word}</option>`)}</select><//>
            <${Field} id="key-ends" label="Expires"><select id="key-ends" onChange=${set("expires")}>${ENDS.map(([value, word]) => html`<option key=${value} value=${value}>${word}</option>`)}</select><//>
            ${apps.length > 0 && html`<${Field} id="key-app" label="Application"><select id="key-app" onChange=${set("app")}><option value="">none</option>${apps.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select><//>`}
            <${Field} id="key-rpm" label="Requests a minute"><input id="key-rpm" type="number" min="1" step="1" placeholder="no limit" value=${given.requests ?? ""} onInput=${set("requests")} /><//>
            <${Field} id="key-tpd" label="Tokens a day"><input id="key-tpd" type="number" min="1" step="1" placeholder="no limit" value=${given.tokens ?? ""} onInput=${set("tokens")} /><//>
            <${Field} id="key-models" label="Models"><input id="key-models" autocomplete="off" placeholder="all, or names: a, b" value=${given.models ?? ""} onInput=${set("models")} /><//>
          </div>
          <ol class="steps">${stepsOf(given, isFirst).map((step) => html`<li key=${step}>${step}</li>`)}</ol>
          ${isFirst && html`<label class="sure"><input type="checkbox" required /> <span>Every client will send a key from now on.</span></label>`}
          <p class="dim small">The request: <code>POST /${PATH} ${JSON.stringify(body)}</code></p>
          ${state.kind === "failed" && html`<${Problem} error=${state.error} />`}
          <div class="buttons"><button disabled=${state.kind === "doing"}>Make the key</button>
            <button type="button" class="quiet" onClick=${() => dialog.current.close()}>Cancel</button></div>
        </form>`}
    </dialog>`;
}

function Field({ id, label, children }) {
  return html`<div class="field"><label for=${id}>${label}</label>${children}</div>`;
}

function Made({ name, state, close }) {
  return html`<h2 id="making-title">The key ${name} works now</h2>
    <p>Keep it: only a hash is stored, so it is not shown again.</p>
    <${Code} text=${state.key} label=${`Key ${name}`} />
    ${state.error && html`<p class="note warn" role="alert">The page could not sign in with it: ${state.error.message}</p>`}
    <div class="buttons"><button onClick=${close}>I have it</button></div>`;
}

/** What is sent. Pure. */
export function bodyOf({ name, scope, expires, app, requests, tokens, models = "" }) {
  const names = models.split(",").map((one) => one.trim()).filter(Boolean);
  const settings = {
    ...(scope !== "inference" && { scope }), ...(names.length && { models: names }),
    ...(requests && { requests_per_minute: Number(requests) }), ...(tokens && { tokens_per_day: Number(tokens) }),
  };
  return { name: name.trim(), ...(app && { app }), settings, ...(expires && { expires_in: Number(expires) }) };
}

function stepsOf({ name, scope }, isFirst) {
  const steps = [`Make a key${name.trim() ? ` named ${name.trim()}` : ""} and show its value once; only a hash is kept.`];
  if (!isFirst) return steps;
  const signsIn = scope === "inference"
    ? "This key may not look at this page: only `stoker keys` on this machine makes one that may."
    : `This page signs in with it${scope === "observe" ? ", and can then only look; `stoker keys` on this machine makes one that may act" : ""}.`;
  return [...steps, signsIn, "From then on every request needs a key, also those of clients that are in use now: they get 401 without one."];
}
