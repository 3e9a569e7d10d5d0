// What each tier is trusted with at each class of tasks, the evidence for it, and where a prompt would go.
import { computed, html, useState } from "./kit.js";
import { useAnswer } from "./answer.js";
import { Evidence } from "./evidence.js";
import { number, seconds } from "./format.js";
import { status } from "./live.js";
import { Problem } from "./parts.js";
import { address, show } from "./place.js";
import { mayAct } from "./session.js";
import { TryPrompt } from "./try_prompt.js";
import { ageOf, STATES, wordOf } from "./verdicts.js";

/** Changes when the evidence may have changed: a measurement, a load, a grade. Not with each request. */
const changes = computed(() => {
  const routing = status.value?.routing;
  return routing && JSON.stringify([routing.rows, routing.measured_at, routing.stale, routing.contradictions, routing.shadow?.graded, routing.tiers.map((one) => [one.loaded, one.known])]);
});

export function Routing({ rest }) {
  return status.value.routing ? html`<${Configured} rest=${rest} />` : html`<${Nothing} />`;
}

function Nothing() {
  return html`<h1>Routing</h1>
    <p>No tiers are configured, so every request names its model itself.</p>
    <p class="dim">To let Stoker choose by measured quality, list serves as <code>[[tier]]</code> in stoker.toml, from the cheapest to the strongest:</p>
    <pre class="example">${'[[tier]]\nname = "small"\nserve = "qwen3-8b"'}</pre>
    <p class="dim">Then <code>stoker reload</code>, and measure them: <code>stoker eval bootstrap</code>. Clients ask for the model <code>auto</code>.</p>`;
}

function Configured({ rest }) {
  const [answer, error] = useAnswer("admin/routing", changes.value);
  const measured = answer?.cells.filter((one) => one.measured || one.live).length ?? 0;
  return html`
    <div class="head"><h1>Routing</h1>${answer && html`<p class="dim small">${number(measured)} of ${number(answer.cells.length)} pairs of tier and class are measured</p>`}</div>
    ${error && html`<${Problem} error=${error} />`}
    ${answer && html`<${Routed} report=${answer.report} />
      ${measured === 0 && html`<p class="note">Nothing is measured yet. Answers of local tiers are checked, and classes of high risk go to no local tier. <code>stoker eval bootstrap</code> measures them.</p>`}
      <${Matrix} answer=${answer} chosen=${rest} />`}
    ${mayAct.value && answer && html`<${TryPrompt} classes=${answer.classes} />`}`;
}

function Routed({ report }) {
  const { total, routed, recorded, silent_failures: wrong } = report;
  if (!routed) return html`<p class="dim">None of the ${number(recorded)} recorded requests was routed. Clients ask for the model <code>auto</code>, or <code>auto:CLASS</code>.</p>`;
  const share = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
  const money = (value) => (value == null ? "–" : Number(value.toPrecision(3)).toString());
  const figures = [
    ["Routed", number(routed), `of ${number(recorded)}`],
    ["First tier answered", total.accept_rate == null ? (total.unmeasured ? "unmeasured" : "–") : share(total.accept_rate), total.first ? `of ${number(total.first - total.unmeasured)}${total.unmeasured ? `, ${number(total.unmeasured)} unmeasured` : ""}` : ""],
    ["Cost", money(total.cost), ""],
    ["Saved", money(total.saved), total.always_cloud == null ? (total.unmeasured ? "nothing measured" : "no cloud tier") : `of ${money(total.always_cloud)}`],
    ["Graded wrong", wrong?.rate == null ? "–" : share(wrong.rate), wrong?.graded ? `of ${number(wrong.graded)}` : "none graded"],
  ];
  return html`<dl class="figures routed">${figures.map(([name, value, of]) => html`<div><dt>${name}</dt><dd>${value}</dd><dd class="of">${of || "\u00a0"}</dd></div>`)}</dl>`;
}

function Matrix({ answer, chosen }) {
  const { tiers } = status.value.routing;
  const cells = new Map(answer.cells.map((one) => [`${one.tier}/${one.class}`, one]));
  const rows = answer.classes.map(({ name }) => tiers.map(({ tier }) => cells.get(`${tier}/${name}`)));
  const [at, setAt] = useState(() => placeOf(rows, chosen));
  const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  const pressed = (event) => {
    const move = moves[event.key];
    const button = event.target.closest("[data-cell]");
    if (!move || !button) return;
    event.preventDefault();
    const [row, column] = button.dataset.cell.split(",").map(Number);
    const to = [Math.max(0, Math.min(rows.length - 1, row + move[0])), Math.max(0, Math.min(tiers.length - 1, column + move[1]))];
    setAt(to);
    event.currentTarget.querySelector(`[data-cell="${to}"]`)?.focus();
  };
  return html`<div class="scroll matrix" tabindex="0" role="region" aria-label="Tiers and classes">
    <table onKeyDown=${pressed}><caption class="hidden">What each tier is trusted with, by class</caption>
      <thead><tr><th scope="col">Class</th>${tiers.map((one) => html`<th scope="col" key=${one.tier}><${TierHead} one=${one} /></th>`)}</tr></thead>
      <tbody>${answer.classes.map((one, row) => html`<${Row} key=${one.name} one=${one} cells=${rows[row]} row=${row} at=${at} setAt=${setAt} chosen=${chosen} />`)}</tbody>
    </table></div>
    <${Legend} />`;
}

/** Row and column of the cell that the address names; else of the first one. */
function placeOf(rows, chosen) {
  const row = rows.findIndex((cells) => cells.some((cell) => cell && `${cell.tier}/${cell.class}` === chosen));
  return row < 0 ? [0, 0] : [row, rows[row].findIndex((cell) => cell && `${cell.tier}/${cell.class}` === chosen)];
}

const CIRCUITS = {
  open: ["✕", "left alone: it failed too often"], "half-open": ["◐", "one request tries it again"],
  "rate-limited": ["◔", "it asked for a pause"],
};

function TierHead({ one }) {
  const circuit = CIRCUITS[one.circuit];
  return html`<span class="tier">${one.tier}</span>
    <span class="small">${one.serve === one.tier ? "" : html`<a href=${address("serves", [one.serve])}>${one.serve}</a> · `}${one.cloud ? "cloud" : one.loaded ? "loaded" : "not loaded"}</span>
    ${circuit && html`<span class="small bad-text"><span aria-hidden="true">${circuit[0]}</span> ${circuit[1]}${one.retry_in ? `, ${seconds(Math.ceil(one.retry_in))} left` : ""}</span>`}`;
}

function Row({ one, cells, row, at, setAt, chosen }) {
  const opened = cells.find((cell) => cell && `${cell.tier}/${cell.class}` === chosen);
  return html`<tr class=${opened ? "opened" : ""}>
      <th scope="row">${one.name}${one.high_risk && html`<span class="small risk">high risk</span>`}${one.specialist && html`<span class="small dim">prefers ${one.specialist}</span>`}</th>
      ${cells.map((cell, column) => html`<td key=${column}>${cell && html`<${Cell} cell=${cell} isOpen=${cell === opened} id=${`${row},${column}`}
        tab=${at[0] === row && at[1] === column ? 0 : -1} use=${() => setAt([row, column])} />`}</td>`)}</tr>
    ${opened && html`<tr class="evidence" id="evidence"><td colspan=${cells.length + 1}><${Evidence} cell=${opened} /></td></tr>`}`;
}

function Cell({ cell, isOpen, id, tab, use }) {
  const { sign, kind } = STATES[cell.state] ?? { sign: "?", kind: "none" };
  const found = cell.measured ?? cell.live;
  const toggle = () => {
    use();
    show("routing", isOpen ? [] : [cell.tier, cell.class]);
  };
  return html`<button class=${`cell ${kind}`} data-cell=${id} tabindex=${tab} aria-expanded=${isOpen ? "true" : "false"} aria-controls=${isOpen ? "evidence" : null}
    data-focus=${isOpen ? "" : null} onClick=${toggle}>
    <span class="verdict"><span aria-hidden="true" class="sign">${sign}</span> ${wordOf(cell)}</span>
    <span class="small">${found ? html`at least ${found.low.toFixed(2)} · n ${found.n}<span class="age"> · ${ageOf(found.at)}</span>` : effectOf(cell)}</span></button>`;
}

function effectOf({ state, verdict }) {
  if (state === "not-its-class" || state === "no-cloud") return "not used";
  return { allow: "used", "allow-with-verify": "used, checked", deny: "not used" }[verdict];
}

function Legend() {
  return html`<dl class="legend small">${Object.values(STATES).filter((one) => one.means).map((one) => html`<div class=${one.kind}><dt><span aria-hidden="true" class="sign">${one.sign}</span> ${one.word}</dt><dd class="dim">${one.means}</dd></div>`)}</dl>`;
}
