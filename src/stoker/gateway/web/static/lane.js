// One slot's recent time as a picture: a row for each serve that was loaded or asked for, with its requests as ticks.
import { html, useRef, useState } from "./kit.js";
import { clock, counted, number, seconds } from "./format.js";
import { segments } from "./history.js";
import { decisions, now } from "./live.js";
import { endOf, isFailed, outcomeOf } from "./outcomes.js";
import { Places, State, STATES, Twin } from "./parts.js";
import { address } from "./place.js";
import { GONE } from "./plan.js";
import { hasLog, isBroken, problemOf } from "./problems.js";
import { mayAct } from "./session.js";
import { waitingFor } from "./waiting.js";

const MOST_TICKS = 400;
/** Pixels between the pointer and the tick that it means. */
const NEAR = 5;
/** Of a tooltip at most, in pixels: it is moved to stay on the page. */
const TIP = 240;

export function Lane({ slot, members, minutes }) {
  const span = minutes * 60;
  const from = now.value - span;
  const rows = members
    .map((serve) => ({ serve, bars: (segments.value.get(serve.name) ?? []).filter((one) => one.to > from), ticks: ticksOf(serve, from) }))
    .filter(({ serve, bars, ticks }) => bars.length || ticks.length || serve.queued || isBroken(serve) || !GONE.includes(serve.state));
  const rest = members.length - rows.length;
  return html`
    <ul class="lane">
      ${rows.map(({ serve, bars, ticks }) => html`<li key=${serve.name}>
        <p class="who"><a href=${`#/serves/${encodeURIComponent(serve.name)}`}>${serve.name}</a> <${State} of=${serve.state} /></p>
        <${Track} bars=${bars} ticks=${ticks} from=${from} span=${span} />
        <p class="use">${GONE.includes(serve.state) ? "" : html`<${Places} serve=${serve} />`}</p>
        ${serve.queued > 0 && html`<p class="wait"><strong>${number(serve.queued)} ${serve.queued === 1 ? "waits" : "wait"}</strong>${": "}${waitingFor(serve, slot)}</p>`}
        ${isBroken(serve) && html`<${Broken} serve=${serve} />`}
      </li>`)}
      ${rows.length > 0 && html`<li class="axis" aria-hidden="true"><span /><span class="marks"><span>${minutes} min ago</span><span>now</span></span></li>`}
    </ul>
    ${rest > 0 && html`<p class="dim small">${rows.length ? html`<a href="#/serves">${number(rest)} more not loaded</a>` : `Nothing is loaded. The first request for ${rest > 1 ? `one of ${counted(rest, "serve")}` : members[0].name} loads it.`}</p>`}
    ${rows.length > 0 && html`<${Twin} label=${`What ${slot.name} did in the last ${minutes} minutes`} heads=${["Serve", "State", "From", "For", "Requests"]}
      rows=${rows.flatMap(({ serve, bars, ticks }) => bars.map((one) => [serve.name, STATES[one.state].word, clock(one.from),
        seconds(one.to - one.from), ticks.filter((tick) => tick.at >= one.from && tick.at <= one.to).length]))} />`}`;
}

function Broken({ serve }) {
  const { text } = problemOf(serve);
  return html`<p class="wait broken"><span class="words">${text}</span> ${mayAct.value && hasLog(serve) && html`<a href=${address("serves", [serve.name], { show: "log" })}>Its log</a>`}</p>`;
}

/** Bars and ticks; the pointer is told what it is on, and a click opens the request. The table beside has it for everybody else. */
function Track({ bars, ticks, from, span }) {
  const [tip, show] = useState(null);
  const box = useRef(null);
  const at = (time) => `${Math.max(0, Math.min(100, ((time - from) / span) * 100)).toFixed(2)}%`;
  const wide = (one) => `${Math.max(0.3, ((Math.min(one.to, now.value) - Math.max(one.from, from)) / span) * 100).toFixed(2)}%`;
  const point = (event) => {
    const { left, width } = box.current.getBoundingClientRect();
    const place = event.clientX - left;
    const pixels = (time) => ((time - from) / span) * width;
    const near = ticks.filter((one) => Math.abs(pixels(one.at) - place) <= NEAR).sort((one, other) => Math.abs(pixels(one.at) - place) - Math.abs(pixels(other.at) - place));
    const moment = from + (place / width) * span;
    const bar = bars.find((one) => one.from <= moment && moment <= one.to);
    show(near.length || bar ? { near, bar, left: Math.max(0, Math.min(place - TIP / 2, width - TIP)) } : null);
  };
  const open = (event) => { if (tip?.near.length && event.pointerType !== "touch") location.hash = address("requests", [tip.near[0].id]); };
  return html`<div class="over" ref=${box} aria-hidden="true" onPointerMove=${point} onPointerDown=${point} onPointerLeave=${() => show(null)} onClick=${open}>
    <div class=${`track${tip?.near.length ? " hit" : ""}`}>
      ${bars.map((one) => html`<span key=${one.from} class=${`bar ${one.state}`} style=${{ left: at(one.from), width: wide(one) }} />`)}
      <svg width="100%" height="100%">${ticks.map((one) => html`<line key=${one.id} class=${one.isBad ? "bad" : ""} x1=${at(one.at)} x2=${at(one.at)} y1=${one.isBad ? 0 : 15} y2="24" />`)}</svg>
    </div>
    ${tip && html`<p class="tip" style=${{ left: `${tip.left}px` }}>${tip.near.length > 0 && html`<${TickWords} near=${tip.near} />`}${tip.bar && html`<span class="dim">${barWords(tip.bar)}</span>`}</p>`}
  </div>`;
}

function TickWords({ near }) {
  const [{ one }] = near;
  return html`<span><b>${one.model || one.endpoint}</b> ${outcomeOf(one).word}${one.reason ? ` (${one.reason.replaceAll("_", " ")})` : ""}</span>
    <span>${clock(one.at)}, ${seconds(endOf(one) - one.at)}${near.length > 1 ? `; ${number(near.length - 1)} more close by` : ""}</span>`;
}

function barWords({ state, from, to }) {
  const isGoing = now.value - to < 3;
  return `${STATES[state].word} since ${clock(from)}, for ${seconds(Math.max(0, to - from))}${isGoing ? " so far" : ""}`;
}

/** What the signs of all lanes mean. */
export function Legend() {
  return html`<p class="legend lanes dim small"><span><i class="bar starting" aria-hidden="true" /> loading</span><span><i class="bar" aria-hidden="true" /> ready</span>
    <span><i class="bar draining" aria-hidden="true" /> draining or stopping</span><span><i class="came" aria-hidden="true" /> a request, when it arrived</span><span><i class="came bad" aria-hidden="true" /> a failed request</span></p>`;
}

function ticksOf(serve, from) {
  const found = [];
  for (const one of decisions.value) {
    if (one.at < from || found.length >= MOST_TICKS) break;
    if (one.serve === serve.name) found.push({ id: one.id, at: one.at, isBad: isFailed(one), one });
  }
  return found;
}
