// What aliases mean, how long a promotion is still watched, and which serves meet which gate.
import { html, useState } from "./kit.js";
import { ask } from "./api.js";
import { list, seconds } from "./format.js";
import { now, status } from "./live.js";
import { Ago, Confirm } from "./parts.js";
import { OUTCOMES, resultLink, seenOf } from "./result_words.js";
import { mayAct } from "./session.js";

export function Outcome({ of, met = false }) {
  const { sign, word, met: condition, tone } = OUTCOMES[of] ?? { sign: "?", word: of, met: of, tone: "open" };
  return html`<span class=${`outcome ${tone}`}><span aria-hidden="true">${sign}</span> ${met ? condition : word}</span>`;
}

/** Aliases that a promotion can move. */
export function Promotions() {
  const aliases = status.value.aliases.filter((one) => !one.serves);
  if (!aliases.length) return null;
  return html`<section class="part" aria-labelledby="promotions"><h2 id="promotions">Aliases</h2>
    <ul class="aliases">${aliases.map((one) => html`<${AliasRow} key=${one.alias} alias=${one} />`)}</ul></section>`;
}

function AliasRow({ alias }) {
  const [asks, setAsks] = useState(false);
  const isMoved = alias.promoted_at != null;
  return html`<li>
    <p class="means"><b>${alias.alias}</b> <span class="dim" aria-label="means">→</span> <a href=${`#/serves/${encodeURIComponent(alias.serve)}`}>${alias.serve}</a></p>
    <div class="why">${isMoved ? html`<${Promoted} alias=${alias} />` : html`<p class="dim">as configured${alias.gate ? `, moves only to serves that meet the gate ${alias.gate}` : ""}</p>`}</div>
    ${isMoved && mayAct.value && html`<button class="quiet" onClick=${() => setAsks(true)}>Take back</button>`}
    ${asks && html`<${TakeBack} alias=${alias} close=${() => setAsks(false)} />`}</li>`;
}

function Promoted({ alias }) {
  const left = alias.watched_for;
  const total = left == null ? null : Math.max(left, now.value - alias.promoted_at + left);
  return html`
    <p>promoted <${Ago} at=${alias.promoted_at} />${alias.evidence && html`, <a href=${resultLink(alias.evidence)}>with this evidence</a>`}${alias.reason && html`: ${alias.reason}`}</p>
    ${total != null && html`<p class="watch"><progress max="1" value=${1 - left / total} aria-label=${`Watch of ${alias.alias}`} />
      <span>watched for <b>${seconds(Math.round(left))}</b> more: if ${alias.serve} fails, ${alias.alias} goes back by itself</span></p>`}`;
}

function TakeBack({ alias, close }) {
  const body = { alias: alias.alias };
  const steps = [
    `Every new request for ${alias.alias} goes to ${alias.configured}, as configured.`,
    `Requests under way end on ${alias.serve}.`,
    ...(alias.watched_for == null ? [] : ["The watch of this promotion ends."]),
  ];
  const act = async () => {
    const answer = await ask("admin/reset", { method: "POST", body });
    return `${answer.alias} means ${answer.serve} again.`;
  };
  return html`<${Confirm} title=${`Take the promotion of ${alias.alias} back?`} steps=${steps} verb="Take back" act=${act} close=${close}
    request=${`POST /admin/reset ${JSON.stringify(body)}`} />`;
}

/** `gates`: as GET /admin/results/gates has them. */
export function Gates({ gates }) {
  if (!gates.length) return null;
  return html`<section class="part" aria-labelledby="gates"><h2 id="gates">Gates</h2>
    ${gates.map((gate) => html`<${GateCard} key=${gate.gate} gate=${gate} />`)}</section>`;
}

function GateCard({ gate }) {
  const aliases = status.value.aliases.filter((one) => one.gate === gate.gate).map((one) => one.alias);
  const label = `Gate ${gate.gate}`;
  return html`
    <div class="slot">
      <div class="slot-head"><h3>${gate.gate}</h3><span class="dim">${aliases.length ? `guards ${list(aliases)}` : "guards no alias"}${gate.max_age == null ? "" : `, counts measurements of the last ${seconds(gate.max_age)}`}</span></div>
      ${gate.runs.length ? html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="gate">
        <thead><tr><th scope="col">Condition</th>${gate.runs.map((run) => html`<th scope="col" key=${run.id}>
          <a href=${resultLink(run.id)}>${run.serve}</a> <${Outcome} of=${run.outcome} /><br /><span class="dim"><${Ago} at=${run.at} />${run.has_changed ? ", before the gate changed" : ""}</span></th>`)}</tr></thead>
        <tbody>${gate.conditions.map((condition) => html`<tr key=${condition}><th scope="row"><code>${condition}</code></th>
          ${gate.runs.map((run) => html`<td key=${run.id}><${Judged} condition=${condition} finding=${run.findings.find((one) => one.name === condition)} /></td>`)}</tr>`)}</tbody>
      </table></div>`
    : html`<ul class="conditions">${gate.conditions.map((condition) => html`<li><code>${condition}</code></li>`)}</ul>
      <p class="dim">No serve was judged by it yet: <code>stoker gate SERVE --gate ${gate.gate}</code></p>`}
    </div>`;
}

function Judged({ condition, finding }) {
  if (!finding) return html`<${Outcome} of="undecided" met /> <span class="dim small">the gate did not have it then</span>`;
  return html`<${Outcome} of=${finding.outcome} met /> <span class="dim small">${seenOf(condition, finding.seen)}</span>`;
}

/** One judgement in full. */
export function Conditions({ findings }) {
  return html`<ul class="checks">${findings.map((one) => html`<li class=${OUTCOMES[one.outcome]?.tone ?? "open"}><span class="sign" aria-hidden="true">${OUTCOMES[one.outcome]?.sign ?? "?"}</span>
    <span><b><code>${one.name}</code></b> <span class="hidden">${OUTCOMES[one.outcome]?.met}: </span><span class="dim">${seenOf(one.name, one.seen)}</span>
      ${one.fix && html`<br /><span class="small">${one.fix}</span>`}</span></li>`)}</ul>`;
}
