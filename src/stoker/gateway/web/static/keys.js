// Who may use Stoker, how much, and who used what. The value of a key is never here.
import { html, signal, useRef, useState } from "./kit.js";
import { useAnswer } from "./answer.js";
import { clock, counted } from "./format.js";
import { KeyActions } from "./key_actions.js";
import { MakeKey } from "./key_making.js";
import { Limits, Tightest } from "./key_limits.js";
import { decisions, now } from "./live.js";
import { Facts, Problem } from "./parts.js";
import { address } from "./place.js";
import { mayAct, who } from "./session.js";
import { Export, Totals, UsageCells, UsageTable } from "./usage.js";

const SPANS = [[86_400, "24 h"], [604_800, "7 days"], [2_592_000, "30 days"]];
/** Seconds between two looks while requests end; at rest ten times as long. */
const EVERY = 5;
/** Users that are no keys: how usage names them, what the page says, and of whom the requests are. */
const NO_KEYS = {
  "(stoker)": ["Stoker itself", "judges and classifiers"],
  "": ["Without a key", "while Stoker asked for none"],
  local: ["On this machine", "commands, by the control socket"],
};

/** What a user is called who is no key; undefined: it is a key, or was one. */
function noKey(name, known) {
  return Object.hasOwn(NO_KEYS, name) && !known?.some((one) => one.name === name) ? NO_KEYS[name] : undefined;
}

const span = signal(604_800);
const acted = signal(0);

function renew() {
  acted.value += 1;
}

export function Keys({ rest }) {
  const again = useFresh() + acted.value;
  const [found, problem] = useAnswer(mayAct.value && who.value.asks_for_keys ? "admin/keys" : null, again);
  if (problem) return html`<h1>Keys and usage</h1><${Problem} error=${problem} />`;
  return rest ? html`<${One} key=${rest} name=${rest} found=${found} again=${again} />` : html`<${All} found=${found} again=${again} />`;
}

/** A number that grows when there may be something new. */
function useFresh() {
  const newest = decisions.value[0]?.id;
  const seen = useRef({ newest, at: now.value, count: 0 });
  const passed = now.value - seen.current.at;
  if (passed >= EVERY * 10 || (passed >= EVERY && newest !== seen.current.newest)) seen.current = { newest, at: now.value, count: seen.current.count + 1 };
  return seen.current.count;
}

function usePath(by, name) {
  return `v1/usage?by=${by}&since=${span.value}${name ? `&key=${encodeURIComponent(name)}` : ""}`;
}

/** The requests behind the tile of failures. */
function failedOf(key) {
  return address("requests", [], { outcome: "failed", last: span.value, key });
}

function Span() {
  return html`<div class="choice" role="group" aria-label="Time shown">${SPANS.map(([length, word]) => html`
    <button key=${length} aria-pressed=${span.value === length} onClick=${() => { span.value = length; }}>${word}</button>`)}</div>`;
}

function All({ found, again }) {
  const [byKey, problem] = useAnswer(usePath("key"), again);
  return html`
    <div class="head"><h1>Keys and usage</h1><${Span} /></div>
    ${problem && html`<${Problem} error=${problem} />`}
    ${byKey && html`<${Totals} total=${byKey.total} failed=${failedOf()} />`}
    <section class="part" aria-labelledby="keys"><h2 id="keys">Keys</h2><${KeyList} found=${found} used=${byKey?.data ?? []} /></section>
    <${Used} again=${again} />`;
}

/** Usage by model and by day; of one key, if there is a `name`. */
function Used({ again, name }) {
  const [byModel] = useAnswer(usePath("model", name), again);
  const [byDay] = useAnswer(usePath("day", name), again);
  return html`
    <section class="part" aria-labelledby="models"><h2 id="models">By model</h2>
      ${byModel && html`<${UsageTable} label="Usage by model" head="Model" rows=${byModel.data} first=${(row) => row.model || html`<span class="dim">none: refused before, or tools alone</span>`} />`}</section>
    <section class="part" aria-labelledby="days"><h2 id="days">By day</h2>
      ${byDay && html`<${UsageTable} label="Usage by day" head="Day (UTC)" rows=${byDay.data.toReversed()} first=${(row) => row.day} />`}</section>
    <section class="part" aria-labelledby="export"><h2 id="export">Export</h2><${Export} since=${span.value} name=${name} /></section>`;
}

function KeyList({ found, used }) {
  const [text, setText] = useState("");
  if (!who.value.asks_for_keys) {
    return html`<p>This Stoker asks for no key: whoever reaches it may do everything. Make a key, and from then on every request needs one.
      The same on the command line: <code>stoker keys create me --scope admin</code></p>
      ${mayAct.value && html`<div class="buttons"><${MakeKey} apps=${[]} isFirst done=${renew} /></div>`}`;
  }
  if (mayAct.value && !found) return html`<p class="dim">Waiting for the keys …</p>`;
  const known = found?.keys ?? [];
  const rows = [...known, ...used.map((one) => one.key).filter((name) => !known.some((one) => one.name === name)).map((name) => ({ name }))];
  const shown = rows.filter((one) => `${one.name} ${one.app ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  const hasCost = used.some((row) => row.cost > 0);
  return html`
    ${rows.length > 8 && html`<input type="search" aria-label="Find a key" placeholder="Find" value=${text} onInput=${(event) => setText(event.target.value)} />`}
    <div class="scroll" tabindex="0" role="region" aria-label="All keys"><table class="wide used">
      <thead><tr><th scope="col">Key</th>${found && html`<th scope="col">Scope</th><th scope="col">State</th><th scope="col">Most used limit</th>`}
        <th scope="col" class="num">Requests</th><th scope="col" class="num">Prompt tokens</th><th scope="col" class="num">Answer tokens</th>${hasCost && html`<th scope="col" class="num">Cost</th>`}<th scope="col" class="num">Accelerator time</th></tr></thead>
      <tbody>${shown.map((one) => html`<tr key=${one.name}><th scope="row"><${Name} entry=${one} known=${known} /></th>
        ${found && html`<td data-head="Scope">${one.scope ?? "–"}</td><td data-head="State">${one.state ? html`<${State} entry=${one} />` : html`<span class="dim">–</span>`}</td><td data-head="Most used limit"><${Tightest} limits=${one.limits ?? []} /></td>`}
        <${UsageCells} row=${used.find((row) => row.key === one.name)} hasCost=${hasCost} /></tr>`)}</tbody></table></div>
    ${shown.length === 0 && html`<p class="dim">${text ? `No key contains “${text}”.` : "No key was used in this time."}</p>`}
    ${!found && html`<p class="dim small">What each key may use is shown to a key of scope admin.</p>`}
    ${found ? html`<div class="buttons"><${MakeKey} apps=${found.apps.map((one) => one.name)} done=${renew} /></div>` : html`<p class="dim small">A new key: <code>stoker keys create NAME --tokens-per-day 100000 --expires 90d</code> prints it once.</p>`}`;
}

function Name({ entry, known }) {
  const other = noKey(entry.name, known);
  if (other) return html`${other[0]} <span class="dim small">${other[1]}</span>`;
  return html`<a href=${`#/keys/${encodeURIComponent(entry.name)}`}>${entry.name}</a>${entry.app && html` <span class="dim small">${entry.app}</span>`}${known.length > 0 && !entry.state && html` <span class="dim small">deleted</span>`}`;
}

const SIGNS = { valid: ["✓", "good"], disabled: ["✕", "bad"], expired: ["✕", "bad"] };

function State({ entry }) {
  const [sign, tone] = SIGNS[entry.state] ?? ["?", "open"];
  return html`<span class=${`outcome ${tone}`}><span aria-hidden="true">${sign}</span> ${entry.state}</span>${entry.state === "valid" && entry.expires_at != null && html`<br /><span class="dim small">until ${new Date(entry.expires_at * 1000).toLocaleDateString("en-CA")}</span>`}`;
}

function One({ name, found, again }) {
  const [mine, problem] = useAnswer(usePath("key", name), again);
  const entry = found?.keys.find((one) => one.name === name);
  const other = noKey(name, found?.keys);
  return html`
    <p class="crumb"><a href="#/keys">Keys and usage</a></p>
    <div class="head"><h1>${other?.[0] ?? name}</h1>${entry && html`<span class="state"><${State} entry=${entry} /></span>`}</div>
    ${found && !entry && !other && html`<p class="note">There is no key of this name now; what it used stays.</p>`}
    ${problem && html`<${Problem} error=${problem} />`}
    ${entry && html`<${KeyActions} entry=${entry} done=${renew} />
      ${entry.override && html`<p class="note warn"><strong>Changed while Stoker ran</strong>, ${clock(entry.override.at)}${entry.override.reason && `: ${entry.override.reason}`}</p>`}
      <div class="columns"><section><h2>Key</h2><${About} entry=${entry} /></section><section><h2>Limits</h2><${Limits} limits=${entry.limits} /></section></div>`}
    <div class="head later"><h2>Usage</h2><${Span} /></div>
    ${mine && html`<${Totals} total=${mine.total} failed=${failedOf(name)} />`}
    <${Used} again=${again} name=${name} />`;
}

const SETTINGS = {
  models: "Models", tools: "Tools", classes: "Classes", cloud: "May use clouds", priority: "Priority", weight: "Weight", max_active: "Requests at once", context: "Context", max_output: "Longest answer",
  default_model: "Default model", system_prompt: "System prompt", thinking: "Thinking", verify: "Checks of answers", ollama_api: "Ollama's API",
};

function About({ entry }) {
  const settings = { ...entry.settings, ...entry.override?.settings };
  const value = (found) => (Array.isArray(found) ? found.join(", ") || "none" : found === true ? "yes" : found === false ? "no" : String(found));
  const rows = [
    ["Scope", entry.scope],
    entry.app && ["Application", entry.app],
    ["From", entry.source === "configuration" ? "the configuration file" : `stoker keys create, ${clock(entry.created_at)}`],
    entry.begins && ["Value", html`<code>${entry.begins}…</code>`],
    ["Expires", entry.expires_at == null ? "never" : clock(entry.expires_at)],
    entry.previous_until != null && ["Its old value", `valid until ${clock(entry.previous_until)}`],
    ["Running now", counted(entry.active, "request")],
    ...Object.entries(SETTINGS).map(([name, word]) => settings[name] != null && [word, value(settings[name])]),
  ];
  return html`<${Facts} rows=${rows} />`;
}
