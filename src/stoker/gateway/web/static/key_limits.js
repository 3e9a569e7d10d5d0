// What a key has used of each limit in its current window.
import { html } from "./kit.js";
import { number, seconds } from "./format.js";
import { now } from "./live.js";
import { money } from "./usage.js";

const NAMES = {
  requests_per_minute: "requests a minute", tokens_per_minute: "tokens a minute", input_tokens_per_minute: "prompt tokens a minute",
  output_tokens_per_minute: "answer tokens a minute", tokens_per_day: "tokens a day", tokens_per_month: "tokens a month",
  cost_per_day: "cost a day", cost_per_month: "cost a month",
};

/** What is used now: nothing in a window that began since Stoker was asked. */
function usedOf(limit) {
  return Date.parse(limit.resets_at) / 1000 <= now.value ? 0 : limit.used;
}

function nameOf(limit) {
  return `${NAMES[limit.limit] ?? limit.limit}${limit.owner.startsWith("application") ? ", all keys of the application" : ""}`;
}

function Bar({ limit, label }) {
  return html`<meter min="0" max=${limit.of} high=${limit.of * 0.8} optimum="0" value=${Math.min(usedOf(limit), limit.of)} aria-label=${label} />`;
}

/** The limit of which the largest share is used. */
export function Tightest({ limits }) {
  if (!limits.length) return html`<span class="dim">no limit</span>`;
  const share = (one) => usedOf(one) / one.of;
  const found = limits.reduce((best, one) => (share(one) > share(best) ? one : best));
  return html`<${Bar} limit=${found} label=${nameOf(found)} /> <span class="small">${Math.round(share(found) * 100)} %<span class="dim"> of ${nameOf(found)}</span></span>`;
}

export function Limits({ limits }) {
  if (!limits.length) return html`<p class="dim">It may use any amount. <code>stoker keys set NAME --tokens-per-day 100000</code> limits it.</p>`;
  return html`<ul class="limits">${limits.map((one) => html`<${Limit} key=${`${one.owner} ${one.limit}`} limit=${one} />`)}</ul>`;
}

function Limit({ limit }) {
  const used = usedOf(limit);
  const figure = limit.limit.startsWith("cost") ? (value) => (value ? money(value) : "0") : (value) => number(Math.round(value));
  const left = Date.parse(limit.resets_at) / 1000 - now.value;
  return html`<li><p>${nameOf(limit)}</p><${Bar} limit=${limit} label=${nameOf(limit)} />
    <p class="small"><b>${figure(used)}</b> of ${figure(limit.of)} <span class="dim">· ${left > 0 && used > 0 ? `starts again in ${seconds(Math.ceil(left))}` : "nothing used now"}</span></p></li>`;
}
