// Small parts that several pages use.
import { html, useEffect, useRef, useState } from "./kit.js";
import { clock, counted, seconds } from "./format.js";
import { now } from "./live.js";

export const STATES = {
  ready: { sign: "●", word: "ready" },
  starting: { sign: "◐", word: "loading" },
  draining: { sign: "◑", word: "draining" },
  stopping: { sign: "◑", word: "stopping" },
  held: { sign: "◒", word: "drained by an operator" },
  stopped: { sign: "○", word: "not loaded" },
  backoff: { sign: "✕", word: "failed, waits before the next try" },
  paused: { sign: "◌", word: "its slot is paused" },
  parked: { sign: "✕", word: "parked" },
  cannot_load: { sign: "✕", word: "cannot load" },
};

export function State({ of }) {
  const { sign, word } = STATES[of] ?? { sign: "?", word: of };
  return html`<span class=${`state ${of}`}><span aria-hidden="true">${sign}</span> ${word}</span>`;
}

/** `at`: Unix seconds. Ticks by itself. */
export function Ago({ at }) {
  if (at == null) return html`<span class="dim">never</span>`;
  return html`<time datetime=${new Date(at * 1000).toISOString()} title=${clock(at)}>${
    now.value - at < 1 ? "just now" : `${seconds(Math.floor(now.value - at))} ago`}</time>`;
}

export function Problem({ error }) {
  return html`<p class="note bad" role="alert"><strong>${headline(error)}</strong> ${error.message}</p>`;
}

function headline(error) {
  if (error.status === 0) return "No answer:";
  if (error.status === 401) return "This key is not accepted:";
  if (error.status === 403) return "Not allowed:";
  return "It did not work:";
}

/** Places in use, as a row of marks. */
export function Places({ serve }) {
  const most = Math.min(serve.max_active, 16);
  const used = Math.min(serve.in_flight, most);
  const words = `${serve.in_flight} of ${counted(serve.max_active, "place")} in use`;
  return html`<span class="places"><span aria-hidden="true">${Array.from({ length: most }, (_, index) => html`<i class=${index < used ? "on" : ""} />`)}</span>
    <span class="count">${serve.in_flight}<span class="dim">/${serve.max_active}</span><span class="hidden"> ${words.slice(words.indexOf("place"))}</span></span></span>`;
}

export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(Boolean).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** What an action would do, then a button that does it. `act()` resolves to a sentence for people. */
export function Confirm({ title, steps, request, verb, dismiss = "Cancel", act, close, children }) {
  const [state, setState] = useState({ kind: "asking" });
  const dialog = useRef(null);
  const isThere = useRef(true);
  useEffect(() => {
    dialog.current.showModal();
    return () => { isThere.current = false; };
  }, []);
  const go = async () => {
    setState({ kind: "doing", since: Date.now() / 1000 });
    try {
      const said = await act();
      if (isThere.current) setState({ kind: "done", said });
    } catch (error) {
      if (isThere.current) setState({ kind: "failed", error });
    }
  };
  const isOver = state.kind === "done" || state.kind === "failed";
  return html`
    <dialog ref=${dialog} onClose=${close} aria-labelledby="confirm-title">
      <h2 id="confirm-title">${title}</h2>
      ${state.kind === "asking" && children}
      <ol class="steps">${steps.map((step) => html`<li>${step}</li>`)}</ol>
      <p class="dim small">The request: <code>${request}</code></p>
      ${state.kind === "doing" && html`<p role="status" class="note">Under way, ${seconds(Math.max(0, Math.round(now.value - state.since)))} so far. It goes on if you close this.</p>`}
      ${state.kind === "done" && html`<p role="status" class="note good">${state.said}</p>`}
      ${state.kind === "failed" && html`<${Problem} error=${state.error} />`}
      <div class="buttons">
        ${!isOver && html`<button onClick=${go} disabled=${state.kind === "doing"}>${verb}</button>`}
        <button class="quiet" onClick=${() => dialog.current.close()}>${state.kind === "asking" ? dismiss : "Close"}</button>
      </div>
    </dialog>`;
}

/** A list that is a picture has its table next to it, for everybody. */
export function Twin({ label, heads, rows, summary = "As a table" }) {
  return html`
    <details class="twin"><summary>${summary}<span class="hidden">: ${label}</span></summary>
      <div class="scroll" tabindex="0" role="region" aria-label=${label}>
        <table><caption class="hidden">${label}</caption>
          <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
          <tbody>${rows.map((row) => html`<tr>${row.map((cell, index) => index ? html`<td>${cell}</td>` : html`<th scope="row">${cell}</th>`)}</tr>`)}</tbody>
        </table>
      </div>
    </details>`;
}
