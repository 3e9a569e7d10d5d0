// What was measured: all results, one of them, or two side by side.
import { html, signal, useState } from "./kit.js";
import { useAnswer } from "./answer.js";
import { clock, counted, seconds } from "./format.js";
import { Compared } from "./compared.js";
import { Gates, Outcome, Promotions } from "./gates.js";
import { resultsHeard, serves } from "./live.js";
import { Ago, Problem } from "./parts.js";
import { compareLink, isComparable, KIND_NAMES, partsOf, resultLink, titleOf } from "./result_words.js";
import { One } from "./result.js";

const FIRST = 25;
const MOST = 1000;
/** Entries that are picked for a comparison, the one that was picked first at the front; at most two. */
const picked = signal([]);

export function Results({ rest }) {
  const [place, before, after] = rest.split("/");
  if (place === "compare") return html`<${Compared} key=${rest} before=${before} after=${after} />`;
  return rest && rest !== "gates" ? html`<${One} key=${rest} id=${rest} />` : html`<${All} />`;
}

function All() {
  const [kind, setKind] = useState("");
  const [serve, setServe] = useState("");
  const [most, setMost] = useState(FIRST);
  const filters = `${kind && `&kind=${kind}`}${serve && `&serve=${encodeURIComponent(serve)}`}`;
  const [answer, error] = useAnswer(`admin/results?limit=${most}${filters}`, resultsHeard.value);
  const [gates] = useAnswer("admin/results/gates", resultsHeard.value);
  const names = [...new Set([...serves.value.map((one) => one.name), ...(answer?.results ?? []).map((one) => one.serve)])].sort();
  return html`
    <h1>Results</h1>
    <${Promotions} />
    ${gates && html`<${Gates} gates=${gates.gates} />`}
    <section class="part" aria-labelledby="measured">
      <div class="head"><h2 id="measured">Measured</h2>
        <${Choice} label="Kind" value=${kind} set=${setKind} all="All kinds" options=${KIND_NAMES} />
        <${Choice} label="Serve" value=${serve} set=${setServe} all="All serves" options=${names.map((name) => [name, name])} /></div>
      ${error && html`<${Problem} error=${error} />`}
      ${answer && html`<${List} found=${answer.results} isFiltered=${filters !== ""} />`}
      ${answer?.unreadable > 0 && html`<p class="note warn">${counted(answer.unreadable, "file")} of results cannot be read: <code>stoker results list</code> names them.</p>`}
      ${answer?.results.length === most && most < MOST && html`<p><button class="quiet" onClick=${() => setMost(Math.min(MOST, most * 4))}>Show more</button></p>`}
    </section>
    <${Picked} />`;
}

function Choice({ label, value, set, all, options }) {
  return html`<label class="pick"><span class="hidden">${label}</span><select value=${value} onChange=${(event) => set(event.target.value)}>
    <option value="">${all}</option>${options.map(([name, word]) => html`<option key=${name} value=${name}>${word}</option>`)}</select></label>`;
}

function List({ found, isFiltered }) {
  if (!found.length && isFiltered) return html`<p class="dim">Nothing of this kind was measured.</p>`;
  if (!found.length) {
    return html`<div class="slot"><p>Nothing was measured yet.</p><p class="dim">How fast a serve is: <code>stoker eval benchmark SERVE</code></p>
      <p class="dim">Whether it answers as it should: <code>stoker eval preflight SERVE</code></p></div>`;
  }
  return html`<div class="scroll" tabindex="0" role="region" aria-label="All results"><table class="wide results">
    <thead><tr><th scope="col">Compare</th><th scope="col">Result</th><th scope="col">Verdict</th><th scope="col">Checked</th><th scope="col" class="num">Took</th><th scope="col">When</th></tr></thead>
    <tbody>${found.map((one) => html`<tr key=${one.id}>
      <td>${isComparable(one.kind) && html`<${Pick} entry=${one} />`}</td><th scope="row"><a href=${resultLink(one.id)}>${titleOf(one)}</a>${one.is_baseline && html` <span class="dim">baseline</span>`}</th>
      <td><${Outcome} of=${one.outcome} /></td>
      <td>${one.findings ? partsOf(one) : html`<span class="dim">–</span>`}${one.failed > 0 && html`, <span class="bad-text">${one.failed} failed</span>`}</td>
      <td class="num">${seconds(one.seconds)}</td><td><${Ago} at=${one.at} /></td></tr>`)}</tbody></table></div>`;
}

function Pick({ entry }) {
  const isPicked = picked.value.some((one) => one.id === entry.id);
  const change = () => {
    const others = picked.value.filter((one) => one.id !== entry.id && (isPicked || one.kind === entry.kind));
    picked.value = isPicked ? others : [...others.slice(-1), entry];
  };
  return html`<label class="tick"><input type="checkbox" checked=${isPicked} onChange=${change} /><span class="hidden">Compare ${titleOf(entry)}, ${entry.id}</span></label>`;
}

function Picked() {
  const two = picked.value.toSorted((a, b) => a.at - b.at);
  if (!two.length) return null;
  const [before, after] = two;
  return html`<div class="picked" role="status">
    <p>${titleOf(before)}, ${clock(before.at)} ${after ? html`<span class="dim">and</span> ${titleOf(after)}, ${clock(after.at)}` : html`<span class="dim">· pick another of this kind to compare</span>`}</p>
    <div class="buttons">${after && html`<a class="button" href=${compareLink(before.id, after.id)}>Compare</a>`}
      <button class="quiet" onClick=${() => { picked.value = []; }}>Clear</button></div></div>`;
}
