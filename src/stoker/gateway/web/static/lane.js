// One slot's recent time as a picture: a row for each serve that was loaded or asked for, with its requests as ticks.
import { html } from "./kit.js";
import { clock, counted, number, seconds } from "./format.js";
import { segments } from "./history.js";
import { decisions, now } from "./live.js";
import { isFailed } from "./outcomes.js";
import { Places, State, STATES, Twin } from "./parts.js";
import { GONE } from "./plan.js";
import { waitingFor } from "./waiting.js";

const MOST_TICKS = 400;

export function Lane({ slot, members, minutes }) {
  const span = minutes * 60;
  const from = now.value - span;
  const rows = members
    .map((serve) => ({ serve, bars: (segments.value.get(serve.name) ?? []).filter((one) => one.to > from), ticks: ticksOf(serve, from) }))
    .filter(({ serve, bars, ticks }) => bars.length || ticks.length || serve.queued || !GONE.includes(serve.state));
  const rest = members.length - rows.length;
  const at = (time) => `${Math.max(0, Math.min(100, ((time - from) / span) * 100)).toFixed(2)}%`;
  const wide = (one) => `${Math.max(0.3, ((Math.min(one.to, now.value) - Math.max(one.from, from)) / span) * 100).toFixed(2)}%`;
  return html`
    <ul class="lane">
      ${rows.map(({ serve, bars, ticks }) => html`<li key=${serve.name}>
        <p class="who"><a href=${`#/serves/${encodeURIComponent(serve.name)}`}>${serve.name}</a> <${State} of=${serve.state} /></p>
        <div class="track" aria-hidden="true">
          ${bars.map((one) => html`<span key=${one.from} class=${`bar ${one.state}`} style=${{ left: at(one.from), width: wide(one) }} title=${`${STATES[one.state].word} since ${clock(one.from)}`} />`)}
          <svg width="100%" height="100%">${ticks.map((one) => html`<line key=${one.id} class=${one.isBad ? "bad" : ""} x1=${at(one.at)} x2=${at(one.at)} y1=${one.isBad ? 0 : 15} y2="24" />`)}</svg>
        </div>
        <p class="use">${GONE.includes(serve.state) ? "" : html`<${Places} serve=${serve} />`}</p>
        ${serve.queued > 0 && html`<p class="wait"><strong>${number(serve.queued)} ${serve.queued === 1 ? "waits" : "wait"}</strong>${": "}${waitingFor(serve, slot)}</p>`}
      </li>`)}
      ${rows.length > 0 && html`<li class="axis" aria-hidden="true"><span /><span class="marks"><span>${minutes} min ago</span><span>now</span></span></li>`}
    </ul>
    ${rest > 0 && html`<p class="dim small">${rows.length ? html`<a href="#/serves">${number(rest)} more not loaded</a>` : `Nothing is loaded. The first request for one of ${counted(rest, "serve")} loads it.`}</p>`}
    ${rows.length > 0 && html`<${Twin} label=${`What ${slot.name} did in the last ${minutes} minutes`} heads=${["Serve", "State", "From", "For", "Requests"]}
      rows=${rows.flatMap(({ serve, bars, ticks }) => bars.map((one) => [serve.name, STATES[one.state].word, clock(one.from),
        seconds(one.to - one.from), ticks.filter((tick) => tick.at >= one.from && tick.at <= one.to).length]))} />`}`;
}

function ticksOf(serve, from) {
  const found = [];
  for (const one of decisions.value) {
    if (one.at < from || found.length >= MOST_TICKS) break;
    if (one.serve === serve.name) found.push({ id: one.id, at: one.at, isBad: isFailed(one) });
  }
  return found;
}
