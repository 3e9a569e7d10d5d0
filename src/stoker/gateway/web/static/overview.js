// What is loaded, what waits, and for what.
import { Switch } from "./actions.js";
import { computed, html } from "./kit.js";
import { Devices } from "./devices.js";
import { bytes, clock, list, rate, seconds } from "./format.js";
import { known } from "./history.js";
import { Lane, Legend } from "./lane.js";
import { decisions, now, serves, status } from "./live.js";
import { totalMemory } from "./memory.js";
import { endOf, isFailed } from "./outcomes.js";
import { address } from "./place.js";
import { slotsOf } from "./plan.js";
import { minutes, Span, Trends } from "./trends.js";
import { usually } from "./waiting.js";

/** Seconds in which failures count on the first tile. */
const LATELY = 300;

const recent = computed(() => {
  const from = now.value - LATELY;
  const found = [];
  for (const one of decisions.value) {
    if (one.at < from - 600) break;
    const ended = endOf(one);
    if (ended >= from) found.push({ ...one, ended });
  }
  return found;
});

export function Overview() {
  const slots = status.value.slots;
  const loose = serves.value.filter((one) => one.slot == null);
  return html`
    <div class="head"><h1>Overview</h1><${Span} /></div>
    <${Figures} />
    <${Legend} />
    ${slots.map((slot) => html`<${Slot} key=${slot.name} slot=${slot} />`)}
    ${loose.length > 0 && html`<${Loose} found=${loose} />`}
    <${Since} />
    <${Devices} found=${status.value.devices} />
    <section class="part" aria-labelledby="trends"><h2 id="trends">Latency and speed</h2><${Trends} /></section>
    <${Happened} />`;
}

/** Why the beginning of the lanes may be empty. */
function Since() {
  const { since, hasAll } = known.value;
  if (since == null || since <= now.value - minutes.value * 60) return null;
  return html`<p class="dim small">What slots did is known since ${clock(since)}${hasAll ? ", when Stoker started" : ": the page gets the last 50 swaps"}.</p>`;
}

function Figures() {
  const inFlight = status.value.frontdoor.in_flight;
  const waiting = serves.value.reduce((sum, one) => sum + one.queued, 0);
  const loaded = serves.value.filter((one) => ["ready", "draining", "held"].includes(one.state)).length;
  const minute = recent.value.filter((one) => one.ended >= now.value - 60);
  const tokens = minute.reduce((sum, one) => sum + (one.output_tokens ?? 0), 0) / 60;
  const failed = recent.value.filter(isFailed).length;
  const memory = totalMemory(status.value);
  const to = (query) => address("requests", [], query);
  const figures = [
    ["In flight", inFlight, "", to({ outcome: "in_flight" })], ["Waiting", waiting, "", to({ outcome: "waiting" })],
    ["Loaded", html`${loaded}<span class="dim"> of ${serves.value.length}</span>`, "", "#/serves"],
    ["Memory", memory.used, [memory.isPart && "at least", memory.of && `of ${memory.of}`].filter(Boolean).join(", "), "#/serves"],
    ["Tokens/s", rate(tokens), "in a minute"],
    ["Failed", failed, "in 5 minutes", to({ outcome: "failed", last: LATELY })],
  ];
  return html`<dl class="figures six">${figures.map(([name, value, when, link]) => html`
    <div class=${name === "Failed" && failed ? "bad" : ""}><dt>${name}${when && html`<span class="dim"> ${when}</span>`}</dt>
      <dd>${link ? html`<a href=${link}>${value}<span class="hidden"> ${name.toLowerCase()}: show ${name === "Loaded" || name === "Memory" ? "the serves" : "these requests"}</span></a>` : value}</dd></div>`)}</dl>`;
}

function Slot({ slot }) {
  const members = serves.value.filter((one) => slotsOf(one).includes(slot.name));
  return html`
    <section class="slot" aria-label=${`Slot ${slot.name}`}>
      <div class="slot-head"><h2>${slot.name}</h2>
        ${slot.box && html`<${OfBox} slot=${slot} />`}
        ${slot.devices.length > 0 && html`<span class="dim">${slot.devices.join(", ")}</span>`}
        <${Memory} slot=${slot} />
        <${Switch} slot=${slot} members=${members} status=${status.value} /></div>
      ${slot.paused && html`<div class="swap"><p><strong>Paused</strong><span class="dim"> · ${slot.paused}${slot.paused_by.includes("operator") ? html`; <code>stoker resume ${slot.name}</code> ends that` : "; models come back when that is over"}</span></p></div>`}
      ${slot.swap && html`<${Swap} swap=${slot.swap} />`}
      <${Lane} slot=${slot} members=${members} minutes=${minutes.value} />
    </section>`;
}

/** Whose slot it is, how that machine was seen last, and what others have loaded there. */
function OfBox({ slot }) {
  const box = (status.value.boxes ?? []).find((one) => one.name === slot.box);
  const there = box?.slots[slot.name.split(":")[1]] ?? [];
  const others = there.filter((name) => !slot.resident.includes(name));
  const words = [`slot of another Stoker, at ${box?.url ?? slot.box}`, box && (box.state === "unknown" ? "not asked yet" : box.state)];
  if (others.length) words.push(`also loaded there: ${others.join(", ")}`);
  return html`<span class=${box && ["unreachable", "refuses"].includes(box.state) ? "bad" : "dim"} title=${box?.problem ?? ""}>${words.filter(Boolean).join(" · ")}</span>`;
}

function Memory({ slot }) {
  if (slot.memory_used == null && slot.memory == null) return null;
  const used = slot.memory_used == null ? "unknown" : bytes(slot.memory_used);
  if (slot.memory == null) return html`<span class="memory dim">${used} in use</span>`;
  return html`<span class="memory"><meter min="0" max=${slot.memory} value=${slot.memory_used ?? 0} aria-label=${`Memory of ${slot.name}`} /> ${used}<span class="dim"> of ${bytes(slot.memory)}</span></span>`;
}

/** What a swap does now. */
function headline({ phase, target, stopping }) {
  switch (phase) {
    case "draining": return `Making room${target ? ` for ${target}` : ""}`;
    case "checking": return `Checking ${target}`;
    case "restoring": return `Bringing ${target} back`;
    case "stopping": return `Stopping ${stopping.join(", ")}`;
    default: return `Loading ${target}`;
  }
}

export function Swap({ swap }) {
  const isLoading = ["starting", "restoring"].includes(swap.phase);
  const expected = usually(swap, serves.value.find((one) => one.name === swap.target));
  const words = [serves.value.find((one) => one.name === swap.target)?.step].filter(Boolean);
  const busy = serves.value.filter((one) => swap.stopping.includes(one.name) && one.in_flight).map((one) => one.name);
  if (swap.phase === "draining" && busy.length) {
    words.push(`${list(busy)} ${busy.length === 1 ? "ends its" : "end their"} requests, at most ${seconds(swap.drain_wait)} more`);
  }
  if (isLoading) words.push(`${seconds(swap.elapsed)}${expected ? ` of usually ${seconds(expected)}` : ""}`);
  return html`<div class="swap">
    <p><strong>${headline(swap)}</strong>${words.length > 0 && html`<span class="dim"> · ${words.join(" · ")}</span>`}</p>
    ${isLoading && expected > 0 && html`<progress max="1" value=${Math.min(1, swap.elapsed / expected)} aria-label=${headline(swap)} />`}</div>`;
}

function Loose({ found }) {
  const none = { name: "those without a slot", resident: [], swap: null };
  return html`<section class="slot" aria-label="Serves without a slot"><div class="slot-head"><h2>Without a slot</h2></div>
    <${Lane} slot=${none} members=${found} minutes=${minutes.value} /></section>`;
}

function Happened() {
  const events = status.value.events.slice(0, 12);
  if (!events.length) return null;
  return html`<section class="happened"><h2>What happened</h2><ol>${events.map((one) => html`
    <li class=${one.kind === "failed" ? "bad" : ""} key=${`${one.at} ${one.serve}`}><time class="dim" datetime=${new Date(one.at * 1000).toISOString()}>${clock(one.at)}</time>
      <span>${one.serve && html`<a href=${`#/serves/${encodeURIComponent(one.serve)}`}>${one.serve}</a>`} ${one.kind}</span> <span class="what">${one.text}</span></li>`)}</ol></section>`;
}
