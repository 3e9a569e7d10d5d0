// What the last requests and answers said, while Stoker keeps it: the list, and one of them in full.
import { html, signal, useEffect, useState } from "./kit.js";
import { ask } from "./api.js";
import { Code } from "./code_block.js";
import { bytes, clock, counted, number } from "./format.js";
import { decisions, status } from "./live.js";
import { Problem } from "./parts.js";
import { address } from "./place.js";
import { mayAct } from "./session.js";

const EVERY = 3000;
/** The newest of those that are kept; null: not known. */
const captures = signal(null);
const trouble = signal(null);

function keepsContent() {
  return status.value?.capture != null;
}

/** The ids of the requests whose content can be looked at; asks again when requests have ended. */
export function useKept() {
  const isOn = mayAct.value && keepsContent();
  useEffect(() => {
    if (!isOn) {
      captures.value = trouble.value = null;
      return undefined;
    }
    let seen;
    const look = () => {
      const newest = decisions.peek()[0]?.id ?? null;
      if (newest === seen) return;
      seen = newest;
      ask("admin/captures").then((found) => { captures.value = found; trouble.value = null; }, (error) => { trouble.value = error; seen = undefined; });
    };
    look();
    const timer = setInterval(look, EVERY);
    return () => clearInterval(timer);
  }, [isOn]);
  return new Set((captures.value?.captures ?? []).map((one) => one.request));
}

export function contentOf(id) {
  return address("content", [id]);
}

/** Stands on every page. */
export function Kept() {
  if (!keepsContent()) return null;
  return html`<p class="note warn" role="status"><strong>What requests and answers say is kept in memory</strong> for administrators, and never on disk.${" "}
    ${mayAct.value && html`<a href=${address("content")}>Look at it</a>, or remove`}${!mayAct.value && "To end that, remove"}${" "}
    <code>[capture] memory</code> and <code>stoker reload</code>.</p>`;
}

export function Content({ rest }) {
  useKept();
  return rest ? html`<${One} key=${rest} id=${rest} />` : html`<${List} />`;
}

function List() {
  if (!keepsContent()) return html`<h1>Content</h1><p>Nothing is kept. <code>[capture] memory = "16MiB"</code> and <code>stoker reload</code> begin it.</p>`;
  const { memory, used, requests } = status.value.capture;
  const rows = captures.value?.captures ?? [];
  return html`
    <div class="head"><h1>Content</h1><p class="dim small" role="status">${counted(requests, "request")} · ${bytes(used)} of ${bytes(memory)}</p></div>
    ${trouble.value && html`<${Problem} error=${trouble.value} />`}
    ${captures.value && !rows.length && html`<p class="dim">No request yet.</p>`}
    ${rows.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Requests that are kept"><table class="wide">
      <thead><tr><th>Arrived</th><th>Model</th><th>Path</th><th>Key</th><th class="num">Status</th><th class="num">Kept</th></tr></thead>
      <tbody>${rows.map((one) => html`<tr key=${one.request}><td class="dim">${clock(one.at)}</td>
        <td><a href=${contentOf(one.request)}>${one.model || "no model named"}</a>${one.serve && one.serve !== one.model && html` <span class="dim">→ ${one.serve}</span>`}</td>
        <td><code>${one.endpoint}</code></td><td>${one.key || "–"}</td><td class="num">${one.status || "in flight"}</td><td class="num">${bytes(one.bytes)}</td></tr>`)}</tbody></table></div>`}
    ${requests > rows.length && rows.length > 0 && html`<p class="dim small">The newest ${number(rows.length)} are listed.</p>`}`;
}

function One({ id }) {
  const [found, setFound] = useState(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const aborter = new AbortController();
    ask(`admin/captures/${encodeURIComponent(id)}`, { signal: aborter.signal })
      .then(setFound, (error) => { if (error.name !== "AbortError") setFound({ error }); });
    return () => aborter.abort();
  }, [id, turn]);
  const back = html`<p class="crumb"><a href=${address("content")}>Content</a></p>`;
  if (!found) return html`${back}<h1>Content</h1><p class="dim">Looking it up …</p>`;
  if (found.error?.status === 404) return html`${back}<h1>Not kept</h1><p>${found.error.message}.</p>`;
  if (found.error) return html`${back}<h1>Content</h1><${Problem} error=${found.error} />`;
  return html`${back}
    <div class="head"><h1>${found.model || found.endpoint}</h1>
      <button class="quiet" onClick=${() => setTurn(turn + 1)}>Read again</button></div>
    <p class="dim under"><code>${id}</code> · ${clock(found.at)}${found.key && html` · key ${found.key}`} · <a href=${address("requests", [id])}>Where its time went, and why</a></p>
    <${Message} title="What the client sent" one=${found.client.request} />
    ${found.calls.map((call, index) => html`
      <${Message} key=${`to-${index}`} title=${`What ${call.serve} was sent`} one=${call.request} />
      <${Message} key=${`of-${index}`} title=${`What ${call.serve} answered`} one=${call.answer} />`)}
    ${!found.calls.length && html`<p class="dim">No serve was called${found.more_calls ? " of which anything is kept" : ""}.</p>`}
    ${found.calls.length > 0 && found.more_calls > 0 && html`<p class="dim">${counted(found.more_calls, "more call")} had no room.</p>`}
    <${Message} title="What the client got" one=${found.client.answer} />`;
}

function Message({ title, one }) {
  return html`<section class="message"><h2>${title}</h2>
    ${one.line ? html`<p class="small"><code>${one.line}</code> <span class="dim">· ${bytes(one.size)}</span></p>` : html`<p class="dim">Nothing yet.</p>`}
    ${one.headers.length > 0 && html`<details><summary>${counted(one.headers.length, "header")}</summary>
      <dl class="headers small">${one.headers.map(([name, value], index) => html`<div key=${index}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></details>`}
    ${one.body && html`<${Code} text=${one.body} label=${title} />`}
    ${one.note && html`<p class="note warn">Its body: ${one.note}.</p>`}</section>`;
}
