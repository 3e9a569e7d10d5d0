// Every request that is in flight or recorded, the newest first, and one of them in full.
import { computed, html, useEffect, useMemo } from "./kit.js";
import { Cancel, CancelDialog } from "./cancel.js";
import { contentOf, useKept } from "./content.js";
import { clock, number, seconds } from "./format.js";
import { decisions, fill, inFlight, KEPT, now, serves, status } from "./live.js";
import { classOf, filtered, GROUPS, LAST, lasted, OUTCOMES, outcomeOf, SLOW } from "./outcomes.js";
import { address, place, setQuery } from "./place.js";
import { Request } from "./request.js";
import { scaleFor } from "./scale.js";
import { mayAct } from "./session.js";
import { VirtualTable } from "./virtual.js";

const HEIGHTS = [40, 60];
/** Rows that the scale of the bars is made for. */
const SCALED = 500;
const kept = { top: 0, id: null };
let isFilled = false;

const active = computed(() => Object.entries(inFlight.value.requests).map(([id, one]) => ({ ...one, id })).reverse());
/** In flight, then ended. */
const all = computed(() => {
  const open = active.value;
  if (!open.length) return decisions.value;
  const ids = new Set(decisions.value.slice(0, 100).map((one) => one.id));
  return [...open.filter((one) => !ids.has(one.id)), ...decisions.value];
});

export function Requests({ rest }) {
  return html`${rest ? html`<${Request} key=${rest} id=${rest} />` : html`<${List} />`}<${CancelDialog} />`;
}

/** Ask for all records that Stoker keeps: once, when they are needed. */
function fillAll() {
  if (isFilled || decisions.peek().length >= KEPT) return;
  isFilled = true;
  fill(KEPT).then(() => { isFilled = decisions.peek().length > 0; });
}

function List() {
  const filter = place.value.query;
  const rows = useMemo(() => filtered(all.value, filter, now.value), [all.value, filter, (filter.slow || filter.last) && now.value]);
  const scale = useMemo(() => scaleFor(rows.slice(0, SCALED).map((one) => lasted(one, now.value))), [rows]);
  const isFiltered = Object.keys(filter).length > 0;
  useEffect(() => { if (isFiltered) fillAll(); }, [isFiltered]);
  const content = useKept();
  const shows = useMemo(() => ({ keys: all.value.some((one) => one.key), classes: all.value.some(classOf) }), [all.value]);
  return html`
    <div class="head"><h1>Requests</h1><p class="dim small" role="status">${counted(rows.length, isFiltered)}</p></div>
    <${Filters} filter=${filter} shows=${shows} />
    ${all.value.length === 0 ? html`<${Nothing} />` : rows.length === 0 ? html`<p class="dim">No request is like that. <button class="quiet" onClick=${() => setQuery({})}>Show all</button></p>`
      : html`<div class=${`requests${shows.keys ? " has-keys" : ""}${shows.classes ? " has-classes" : ""}`}>
        <${VirtualTable} label="Requests" head=${html`<${Head} shows=${shows} scale=${scale} />`} rows=${rows} heights=${HEIGHTS} kept=${kept} onEnd=${fillAll}
          cells=${(one, place) => html`<${Cells} one=${one} place=${place} shows=${shows} scale=${scale} hasContent=${content.has(one.id)} />`} />
      </div>
      <${Legend} scale=${scale} />`}`;
}

function counted(shown, isFiltered) {
  const { count } = inFlight.value;
  const open = `${number(count)} in flight`;
  if (isFiltered) return `${number(shown)} of ${number(all.value.length)} shown · ${open}`;
  return `${open} · the newest ${number(decisions.value.length)} of ${number(Math.max(status.value.decisions.kept, decisions.value.length))} kept`;
}

function Nothing() {
  return html`<p>No request yet. Send one to <code>${status.value.frontdoor.base_url}</code>; <code>stoker client curl</code> prints how.</p>`;
}

function Filters({ filter, shows }) {
  const set = (field) => (event) => {
    kept.top = 0;
    setQuery({ ...filter, [field]: event.target.value });
  };
  const known = (pick) => [...new Set(all.value.map(pick))].filter(Boolean).sort();
  const keys = useMemo(() => known((one) => one.key), [all.value]);
  const classes = useMemo(() => known(classOf), [all.value]);
  const outcomes = { ...GROUPS, ...Object.fromEntries(Object.entries(OUTCOMES).filter(([, one]) => !one.isOpen)) };
  const names = serves.value.map((one) => one.name);
  return html`
    <div class="filters" role="search" aria-label="Filter the requests">
      <input type="search" aria-label="Find in id, model, serve, key or reason" placeholder="Find" value=${filter.q ?? ""} onInput=${set("q")} />
      <div class="choices">
      <${Choice} label="Serve" any="Any serve" value=${filter.serve} options=${names.map((name) => [name, name])} set=${set("serve")} />
      ${shows.keys && html`<${Choice} label="Key" any="Any key" value=${filter.key} options=${keys.map((name) => [name, name])} set=${set("key")} />`}
      ${shows.classes && html`<${Choice} label="Class" any="Any class" value=${filter.class} options=${classes.map((name) => [name, name])} set=${set("class")} />`}
      ${filter.session && html`<${Choice} label="Session" any="Any session" value=${filter.session} options=${[]} set=${set("session")} />`}
      <${Choice} label="Outcome" any="Any outcome" value=${filter.outcome} options=${Object.entries(outcomes).map(([value, { word }]) => [value, upper(word)])} set=${set("outcome")} />
      <${Choice} label="Time" any="Any time" value=${filter.slow} options=${Object.entries(SLOW).map(([value, { word }]) => [value, word])} set=${set("slow")} />
      <${Choice} label="Ended" any="Ended at any time" value=${filter.last} options=${ENDED} set=${set("last")} />
      ${Object.keys(filter).length > 0 && html`<button class="quiet" onClick=${() => setQuery({})}>Show all</button>`}
      </div>
    </div>`;
}

const ENDED = Object.entries(LAST).map(([value, word]) => [value, `Last ${word}`]);

function Choice({ label, any, value = "", options, set }) {
  const known = options.some(([one]) => one === value) ? options : [...(value ? [[value, value]] : []), ...options];
  return html`<select aria-label=${label} class=${value ? "set" : ""} value=${value} onChange=${set}>
    <option value="">${any}</option>${known.map(([one, word]) => html`<option value=${one} selected=${one === value}>${word}</option>`)}</select>`;
}

function upper(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function Head({ shows, scale }) {
  const cell = (name, words) => html`<span role="columnheader" class=${name}>${words}</span>`;
  return html`${cell("at", "Arrived")}${cell("model", "Model")}${shows.keys && cell("key", "Key")}${shows.classes && cell("class", "Class")}
    ${cell("how", "Outcome")}${cell("took", "Took")}${cell("course", html`<span class="hidden">Where the time went</span><span class="ends" aria-hidden="true"><span>0</span><span>${seconds(scale)}</span></span>`)}
    ${cell("num queued", "Waited")}${cell("num first", "First token")}${cell("num tokens", "Tokens")}`;
}

function Cells({ one, place: attributes, shows, scale, hasContent }) {
  const { sign, word, isBad, isOpen } = outcomeOf(one);
  const cell = (name, words) => html`<span role="cell" class=${name}>${words}</span>`;
  const to = address("requests", [one.id], place.value.query);
  const asked = one.model || "no model named";
  const open = (event) => {
    if (!event.target.closest("a, button, dialog") && !getSelection().toString()) location.hash = to;
  };
  const other = one.serve && one.serve !== one.model;
  return html`<${Clickable} open=${open}>
    ${cell("at dim", html`<time title=${clock(one.at)}>${short(one.at)}</time>`)}
    ${cell("model", html`<a href=${to} ...${attributes}>${asked}</a>${other && html` <span class="dim"><span aria-hidden="true">→</span><span class="hidden"> answered by </span> ${one.serve}</span>`}${hasContent && html` <a class="small content" href=${contentOf(one.id)}>content</a>`}`)}
    ${shows.keys && cell("key", one.key)}${shows.classes && cell("class", classOf(one))}
    ${cell(`how${isBad ? " bad" : isOpen ? " open" : ""}`, html`<span aria-hidden="true" class="sign">${sign}</span> ${word}${one.reason && html` <span class="dim reason">${one.reason.replaceAll("_", " ")}</span>`}`)}
    ${cell("num took", seconds(lasted(one, now.value)))}
    ${cell("course", html`<${Course} one=${one} scale=${scale} />`)}
    ${cell("num queued", waited(one))}
    ${cell("num first", one.ttft == null || one.outcome === "refused" ? "–" : seconds(one.ttft))}
    ${isOpen && mayAct.value ? cell("num act", html`<${Cancel} id=${one.id} one=${one} isSmall />`) : cell("num tokens", one.output_tokens == null ? "–" : html`${number(one.input_tokens)}<span class="dim"> in, </span>${number(one.output_tokens)}<span class="dim"> out</span>`)}
  </${Clickable}>`;
}

/** The time of day; of another day, month and day with it. */
function short(at) {
  const full = clock(at);
  return full.length > 8 ? full.slice(5, -3) : full;
}

function Clickable({ open, children }) {
  return html`<div role="presentation" class="cells" onClick=${open}>${children}</div>`;
}

function waited(one) {
  if (one.state === "waiting") return html`<strong>${seconds(Math.max(0, now.value - one.at))}</strong>`;
  return one.queued ? seconds(one.queued) : html`<span class="dim">–</span>`;
}

/** Waiting, prompt and answer on the scale of all rows, in seconds; what is longer than the scale is cut off, and marked. */
function Course({ one, scale }) {
  const whole = lasted(one, now.value);
  if (!whole) return null;
  const isLonger = whole > scale * 1.001;
  const end = isLonger ? scale : whole;
  const queued = Math.min(one.state === "waiting" ? whole : one.queued ?? 0, whole);
  const first = Math.max(queued, Math.min(one.stream === false || one.ttft == null ? whole : one.ttft, whole));
  const part = (kind, from, to) => Math.min(to, end) > from && html`<i class=${kind} style=${{ width: `${(((Math.min(to, end) - from) / scale) * 100).toFixed(1)}%` }} />`;
  return html`<span class=${`shares${isLonger ? " longer" : ""}`} aria-hidden="true">${part("wait", 0, queued)}${part("prompt", queued, first)}${part("answer", first, whole)}</span>`;
}

function Legend({ scale }) {
  return html`<p class="legend dim small" aria-hidden="true"><span><i class="wait" /> waited</span><span><i class="prompt" /> until the first token</span><span><i class="answer" /> the answer</span>
    <span>One scale for all, from 0 to ${seconds(scale)}</span><span><i class="answer longer" /> longer than that</span></p>`;
}
