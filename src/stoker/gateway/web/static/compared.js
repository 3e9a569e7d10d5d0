// Two results of one kind side by side.
import { html } from "./kit.js";
import { useAnswer } from "./answer.js";
import { clock } from "./format.js";
import { Outcome } from "./gates.js";
import { Problem } from "./parts.js";
import { compareLink, figure, figureName, resultLink, titleOf } from "./result_words.js";
import { Curves } from "./result.js";

export function Compared({ before, after }) {
  const [answer, error] = useAnswer(`admin/results/compare?a=${encodeURIComponent(before ?? "")}&b=${encodeURIComponent(after ?? "")}`);
  const [first] = useAnswer(`admin/results/${encodeURIComponent(before)}`);
  const [second] = useAnswer(`admin/results/${encodeURIComponent(after)}`);
  if (error) return html`<p class="crumb"><a href="#/results">Results</a></p><h1>No comparison</h1><${Problem} error=${error} />`;
  if (!answer || !first || !second) return html`<p class="dim">Waiting for the results …</p>`;
  const matters = answer.rows.filter((row) => row.matters);
  const rest = answer.rows.filter((row) => !row.matters);
  return html`
    <p class="crumb"><a href="#/results">Results</a></p>
    <div class="head"><h1>Compare</h1><a class="button quiet" href=${compareLink(after, before)}>Swap</a></div>
    <div class="sides"><${Side} name="Before" run=${first} /><${Side} name="After" run=${second} /></div>
    <${Different} found=${answer.different} />
    ${first.kind === "benchmark" && html`<${Curves} runs=${[first, second]} />`}
    <${Rows} label="The numbers that matter" rows=${matters} />
    <p class="dim small">Spreads are over repeats, or of a rate its 95 % interval. Where they are apart, the change is more than chance.</p>
    ${rest.length > 0 && html`<details class="twin"><summary>${rest.length} more numbers</summary><${Rows} label="More numbers" rows=${rest} /></details>`}`;
}

function Side({ name, run }) {
  return html`<div><p class="dim small">${name}</p><p><a href=${resultLink(run.id)}>${titleOf({ kind: run.kind, serve: run.subject.serve })}</a> <${Outcome} of=${run.outcome} /></p>
    <p class="dim small">${clock(run.at)} · ${run.subject.model}</p></div>`;
}

function Different({ found }) {
  if (found.identity.length) {
    return html`<div class="note warn"><p><strong>Two different models</strong>: a difference is not a regression.</p><${Parts} found=${[...found.identity, ...found.execution]} /></div>`;
  }
  const unknown = found.unknown.map((line) => line.split(": ")[0]).join(", ");
  if (!found.execution.length && !unknown) return html`<p class="note good">The same model with the same settings.</p>`;
  return html`<div class="note">${found.execution.length ? html`<p><strong>Other settings:</strong></p><${Parts} found=${found.execution} />` : html`<p>The same settings, as far as they are known.</p>`}
    ${unknown && html`<p class="dim small">Not known of both: ${unknown}.</p>`}</div>`;
}

function Parts({ found }) {
  return html`<ul class="small parts">${found.map((line) => html`<li>${shortened(line)}</li>`)}</ul>`;
}

/** "name: before → after", of long values only the words between those that both have. */
function shortened(line) {
  const [, name, before, after] = line.match(/^(.*?): (.*) -> (.*)$/s) ?? [];
  if (name == null) return line;
  const [old, recent] = [before.split(" "), after.split(" ")];
  let [start, end] = [0, 0];
  while (start < Math.min(old.length, recent.length) - 1 && old[start] === recent[start]) start += 1;
  while (end < Math.min(old.length, recent.length) - start - 1 && old.at(-1 - end) === recent.at(-1 - end)) end += 1;
  const cut = (words) => [start && "…", ...words.slice(start, words.length - end), end && "…"].filter(Boolean).join(" ");
  return `${name}: ${cut(old)} → ${cut(recent)}`;
}

function Rows({ label, rows }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="wide compared"><caption class="hidden">${label}</caption>
    <thead><tr><th scope="col">Figure</th><th scope="col" class="num">Before</th><th scope="col" class="num">After</th><th scope="col" class="num">Change</th><th scope="col">Spreads</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}>
      <th scope="row">${figureName(row.name)} <span class="dim">${row.unit}</span></th>
      <td class="num">${figure(row.before)}<${Spread} of=${row.spread_before} /></td><td class="num">${figure(row.after)}<${Spread} of=${row.spread_after} /></td>
      <td class="num">${change(row)}</td>
      <td>${row.is_apart ? html`<b>apart</b>` : html`<span class="dim">${row.spread_before && row.spread_after ? "overlap" : "–"}</span>`}</td></tr>`)}</tbody></table></div>`;
}

function Spread({ of }) {
  return of ? html`<br /><span class="dim small">${figure(of[0])} to ${figure(of[1])}</span>` : null;
}

/** "+12 %"; from a multiple on that percents do not tell, "3.1×". */
function change({ difference, share, ratio }) {
  if (difference == null) return "–";
  if (difference === 0 || Math.abs(share) < 0.0005) return html`<span class="dim">none</span>`;
  if (share == null) return `${difference > 0 ? "+" : "−"}${figure(Math.abs(difference))}`;
  if (ratio >= 3) return `${figure(ratio)}×`;
  return `${share > 0 ? "+" : "−"}${Math.abs(share * 100).toFixed(Math.abs(share) < 0.1 ? 1 : 0)} %`;
}
