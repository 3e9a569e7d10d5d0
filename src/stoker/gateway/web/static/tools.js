// The tools that Stoker runs for models: whether they work, what they did, and who may use them.
import { html } from "./kit.js";
import { useAnswer } from "./answer.js";
import { Copy } from "./code_block.js";
import { bytes, counted, number, seconds, upper } from "./format.js";
import { status } from "./live.js";
import { Ago, Facts, Problem } from "./parts.js";
import { address } from "./place.js";
import { mayAct, who } from "./session.js";
import { TryTool } from "./try_tool.js";
import { money } from "./usage.js";

const STATES = {
  ready: { sign: "●", word: "ready", tone: "good" },
  unused: { sign: "○", word: "never used", tone: "open" },
  failed: { sign: "✕", word: "the last call failed", tone: "bad" },
  unreachable: { sign: "✕", word: "cannot be reached", tone: "bad" },
};
const DOES = { web_search: "searches the web", web_fetch: "fetches web pages", mcp: "has the tools of an MCP server" };
/** Tools of an MCP server that are shown at once. */
const SHOWN = 12;

export function hasTools() {
  return status.value?.tools?.length > 0;
}

export function Tools() {
  const tools = status.value.tools ?? [];
  const asksWho = mayAct.value && who.value.asks_for_keys && tools.length > 0;
  const [found, problem] = useAnswer(asksWho ? "admin/tools" : null, tools.length);
  if (!tools.length) {
    return html`<h1>Tools</h1><p>No tool is configured. <a href="#/docs/guides/web-tools">Give local agents the web</a> says how.</p>`;
  }
  return html`
    <div class="head"><h1>Tools</h1><p class="dim small">What Stoker runs for models. Counted since it started, <${Ago} at=${status.value.started_at} />.</p></div>
    ${problem && html`<${Problem} error=${problem} />`}
    ${tools.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} keys=${found?.tools.find((one) => one.name === tool.name)?.keys} />`)}`;
}

/** `keys`: the names of those that may use it; undefined: not known. */
function Tool({ tool, keys }) {
  const { sign, word, tone } = STATES[tool.state] ?? { sign: "?", word: tool.state, tone: "open" };
  const { calls, failed, last_failure: failure } = tool;
  const figures = [
    ["Calls", html`${number(calls)}${tool.active > 0 && html` <span class="dim">${number(tool.active)} running</span>`}`], ["Failed", number(failed), failed > 0],
    ["Mean time", calls ? seconds(tool.seconds / calls) : "–"], ["Text for models", calls ? bytes(tool.bytes) : "–"],
    ...(tool.cost > 0 ? [["Cost", money(tool.cost)]] : []),
  ];
  const rows = [
    !tool.problem && failure && ["Last failure", html`${upper(failure.why)} <span class="dim">(<${Ago} at=${failure.at} />)</span>`],
    ["Used by", html`<${UsedBy} tool=${tool} keys=${keys} />`],
    tool.answers === "mcp" && ["Its tools", html`<${Listed} tool=${tool} />`],
  ];
  return html`<section class="slot tool" aria-label=${tool.name}>
    <div class="slot-head"><h2>${tool.name}</h2><p class=${`outcome ${tone}`}><span aria-hidden="true">${sign}</span> ${word}</p>
      <p class="dim small">${DOES[tool.answers] ?? tool.answers}${tool.kind === "command" ? ", by a program of yours" : tool.answers === "web_search" ? `, by ${tool.kind}` : ""}</p></div>
    ${tool.problem && html`<${Failing} tool=${tool} at=${tool.state === "failed" ? failure?.at : null} />`}
    ${tool.changed?.length > 0 && html`<div class="note finding warn"><p><strong>Described otherwise than when first seen:</strong> ${tool.changed.join(", ")}.
      Read what the server says now; <code>stoker doctor</code> says how to accept it.</p><${Next} command=${tool.next} /></div>`}
    <dl class="figures">${figures.map(([name, value, isBad]) => html`<div class=${isBad ? "bad" : ""}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <${Facts} rows=${rows} />
    ${mayAct.value && html`<${TryTool} tool=${tool} />`}
  </section>`;
}

function Failing({ tool, at }) {
  return html`<div class="note finding bad"><p>${upper(tool.problem)}${at != null && html` <span class="dim small"><${Ago} at=${at} /></span>`}</p><${Next} command=${tool.next} /></div>`;
}

function Next({ command }) {
  return html`<p class="command"><code>${command}</code> <${Copy} text=${command} what=${`the command ${command}`} /></p>`;
}

function UsedBy({ tool, keys }) {
  if (!who.value.asks_for_keys) return "everybody: this Stoker asks for no key";
  if (!keys) return html`keys ${tool.acts ? "" : "that have no list of tools, and those "}that name it in <code>tools</code>`;
  if (!keys.length) return html`no key: none names it in <code>tools</code>`;
  return html`${keys.map((name, place) => html`${place > 0 && ", "}<a key=${name} href=${address("keys", [name])}>${name}</a>`)}`;
}

function Listed({ tool }) {
  if (!tool.tools) return html`<span class="dim">not listed yet: the server is asked when a request first names it</span>`;
  if (!tool.tools.length) return html`none that <code>allow</code> allows`;
  const items = (tools) => html`<ul class="listed">${tools.map(({ name, read_only: reads }) => html`<li key=${name}><code>${name}</code>
    ${!reads && html` <span class="dim small">may change things</span>`}${tool.changed.includes(name) && html` <span class="small bad-text">described otherwise</span>`}</li>`)}</ul>`;
  const rest = tool.tools.slice(SHOWN);
  return html`${items(tool.tools.slice(0, SHOWN))}${rest.length > 0 && html`<details class="twin"><summary>${counted(rest.length, "more tool")}</summary>${items(rest)}</details>`}`;
}
