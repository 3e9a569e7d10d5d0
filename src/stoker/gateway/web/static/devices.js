// What the accelerators of the machine do: a card for each.
import { html } from "./kit.js";
import { bytes, list } from "./format.js";

const ALARMING = ["heat", "hardware"];
/** Degrees below its limit from which on a device is called hot. */
const NEAR = 5;

/** `found`: as `devices` of /status; undefined: this Stoker does not watch devices. */
export function Devices({ found }) {
  if (!found?.length) return null;
  return html`<section class="part" aria-labelledby="devices"><h2 id="devices">Devices</h2>
    <ul class="devices">${found.map((one) => html`<${Device} key=${one.name} device=${one} />`)}</ul></section>`;
}

function Device({ device }) {
  const { name, title, use, memory_used, memory, temperature, temperature_limit, watts, watts_limit, core_mhz } = device;
  const isHot = temperature != null && temperature_limit != null && temperature >= temperature_limit - NEAR;
  return html`<li class=${`device${isHot || alarming(device).length ? " bad" : ""}`}>
    <p class="device-head"><strong>${name}</strong> <span class="dim">${title}</span></p>
    <dl>
      <${Row} name="Use" value=${use == null ? null : `${Math.round(use * 100)} %`} part=${use} of=${1} />
      <${Row} name="Memory" value=${memory_used == null ? null : bytes(memory_used)} limit=${memory == null ? null : bytes(memory)} part=${memory_used} of=${memory} />
      <${Row} name="Power" value=${watts == null ? null : `${watts} W`} limit=${watts_limit == null ? null : `${watts_limit} W`} part=${watts} of=${watts_limit} />
      <${Row} name="Temperature" value=${temperature == null ? null : `${temperature} °C`} limit=${temperature_limit == null ? null : `${temperature_limit} °C`} part=${temperature} of=${temperature_limit} isBad=${isHot} />
    </dl>
    <p class="small">${state(device, isHot)}${core_mhz != null && html`<span class="dim"> · ${core_mhz} MHz</span>`}</p></li>`;
}

/** A figure, and what part of its limit it is; unknown is a word, not an empty bar. */
function Row({ name, value, limit, part, of, isBad }) {
  return html`<div class=${isBad ? "bad" : ""}><dt>${name}</dt>
    <dd>${value ?? html`<span class="dim">unknown</span>`}${limit && html`<span class="dim"> of ${limit}</span>`}
      ${value != null && of != null && html`<span class="gauge" aria-hidden="true"><i style=${{ width: `${Math.min(1, part / of) * 100}%` }} /></span>`}</dd></div>`;
}

function alarming(device) {
  return (device.throttled ?? []).filter((one) => ALARMING.includes(one));
}

function state(device, isHot) {
  if (device.suspended) return html`<span class="dim">switched off until somebody uses it</span>`;
  if (alarming(device).length) return html`<strong class="bad-text">slowed down by ${list(alarming(device))}</strong>`;
  if (isHot) return html`<strong class="bad-text">hot</strong>`;
  if (device.throttled == null) return html`<span class="dim">throttling unknown</span>`;
  return device.throttled.length ? html`<span class="dim">at its power limit</span>` : html`<span class="dim">not throttled</span>`;
}
