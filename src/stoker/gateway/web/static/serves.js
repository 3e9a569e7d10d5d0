// All serves, and one of them in full.
import { html, useEffect, useState } from "./kit.js";
import { bytes, counted, number, rate, seconds } from "./format.js";
import { serves, status } from "./live.js";
import { Ago, Facts, Places, State } from "./parts.js";
import { address, place } from "./place.js";
import { hasLog, problemOf } from "./problems.js";
import { Actions } from "./actions.js";
import { CHAT } from "./model_list.js";
import { Measure } from "./measure.js";
import { ServeLog } from "./serve_log.js";
import { ServeSettings } from "./serve_settings.js";
import { mayAct, mayCall } from "./session.js";
import { Span, Trends } from "./trends.js";

export function Serves({ rest }) {
  if (!rest) return html`<${Table} />`;
  const serve = serves.value.find((one) => one.name === rest);
  if (serve && mayAct.value && place.value.query.show === "settings") return html`<${ServeSettings} name=${serve.replica_of ?? serve.name} />`;
  return serve ? html`<${One} key=${rest} serve=${serve} />` : html`<h1>No serve “${rest}”</h1>
    <p>It is not in the configuration that runs. <a href="#/serves">All serves</a></p>`;
}

function Table() {
  const [text, setText] = useState("");
  const found = serves.value.filter((one) => [one.name, one.model, ...one.aliases].some((word) => word.toLowerCase().includes(text.toLowerCase())));
  return html`
    <div class="head"><h1>Serves</h1>
      ${mayAct.value && html`<a class="button quiet" href="#/add">Add a model</a>`}
      ${serves.value.length > 8 && html`<input type="search" aria-label="Find a serve" placeholder="Find" value=${text} onInput=${(event) => setText(event.target.value)} />`}
    </div>
    <div class="scroll" tabindex="0" role="region" aria-label="Serves">
      <table class="serves">
        <thead><tr><th scope="col">Serve</th><th scope="col">State</th>${mayAct.value && html`<th scope="col"><span class="hidden">Load or unload</span></th>`}
          <th scope="col">Engine</th><th scope="col" class="num">Context</th><th scope="col">Slot</th><th scope="col">In flight</th>
          <th scope="col" class="num">Waiting</th><th scope="col" class="num">Memory</th><th scope="col" class="num">Tokens/s</th><th scope="col">Proved</th></tr></thead>
        <tbody>${found.map((one) => html`<${Row} key=${one.name} one=${one} />`)}</tbody>
      </table>
    </div>
    ${found.length === 0 && html`<p class="dim">${serves.value.length ? `No name contains “${text}”.` : "No serve is configured: add a [[serve]] to stoker.toml, then `stoker reload`."}</p>`}`;
}

function Row({ one }) {
  const problem = problemOf(one);
  const context = one.context ?? one.facts.n_ctx;
  return html`<tr class=${problem ? "has-problem" : ""}>
      <th scope="row"><a href=${`#/serves/${encodeURIComponent(one.name)}`}>${one.name}</a>${one.aliases.length > 0 && html`<span class="also dim small">${one.aliases.join(", ")}</span>`}</th>
      <td><${State} of=${one.state} /></td>${mayAct.value && html`<td><${Actions} serve=${one} status=${status.value} isRow /></td>`}
      <td>${engineOf(one)}</td><td class="num">${context == null ? html`<span class="dim">–</span>` : number(context)}</td>
      <td>${one.slot ?? "–"}</td><td><${Places} serve=${one} /></td>
      <td class="num">${one.queued || html`<span class="dim">0</span>`}</td><td class="num">${bytes(one.measured ?? one.memory)}</td>
      <td class="num">${rate(one.totals.tokens_per_second)}</td>
      <td>${one.watchdog.verified_at == null ? html`<span class="dim">–</span>` : html`<${Ago} at=${one.watchdog.verified_at} />`}</td></tr>
    ${problem && html`<tr class="problem"><td colspan=${mayAct.value ? 11 : 10}><div><p><strong>${problem.title}</strong> ${problem.text}</p>${mayAct.value && hasLog(one) && html`<a href=${address("serves", [one.name], { show: "log" })}>Its log</a>`}</div></td></tr>`}`;
}

function engineOf({ engine, driver }) {
  return `${engine}${driver === "process" ? "" : `, ${driver}`}`;
}

function One({ serve }) {
  const problem = problemOf(serve);
  const { show } = place.value.query;
  useEffect(() => { if (show === "log") toTheLog(); }, [show]);
  const rows = [
    ["Model", serve.model || html`<span class="dim">not named</span>`],
    serve.aliases.length && ["Also answers to", serve.aliases.join(", ")],
    ["Engine", engineOf(serve)],
    ["Slot", serve.slot ?? "none"],
    ["Places", html`<${Places} serve=${serve} />`],
    ["Waiting", number(serve.queued)],
    ["Memory", memoryOf(serve)],
    ["Context", contextOf(serve)],
    ["In memory", serve.temperature ?? "on its way"],
    serve.uptime != null && ["Loaded for", seconds(serve.uptime)],
    ["A load takes", serve.swap_seconds_assumed ? "not measured yet" : seconds(serve.swap_seconds)],
    ["Dialects", serve.dialects.join(", ")],
    serve.fallback && ["Fallback", serve.fallback],
    serve.status !== "production" && ["Status", serve.status],
    serve.facts.devices && ["Computes on", serve.facts.devices === "cpu" ? "the processor" : serve.facts.devices],
    serve.pid != null && ["Process", `${serve.pid}${serve.port ? `, port ${serve.port}` : ""}`],
    ["So far", `${counted(serve.totals.requests, "request")}, ${counted(serve.totals.output_tokens, "token")}${serve.totals.tokens_per_second ? `, ${rate(serve.totals.tokens_per_second)} tokens/s` : ""}`],
  ];
  return html`
    <p class="crumb"><a href="#/serves">Serves</a></p>
    <div class="head"><h1>${serve.name}</h1><${State} of=${serve.state} /></div>
    <${Actions} serve=${serve} status=${status.value} />
    <${Ways} serve=${serve} />
    ${problem && html`<p class="note bad"><strong>${problem.title}</strong> ${problem.text} ${problem.next}${mayAct.value && hasLog(serve) && html` <a href=${address("serves", [serve.name], { show: "log" })} onClick=${toTheLog}>Its log</a>`}</p>`}
    ${serve.backoff != null && html`<p class="note warn">The next try is possible in ${seconds(serve.backoff)}.</p>`}
    ${serve.context_problem && html`<p class="note warn">${serve.context_problem}</p>`}
    <div class="columns"><section><h2>Now</h2><${Facts} rows=${rows} /></section>
      <div><${Start} serve=${serve} /><${Proof} serve=${serve} /></div></div>
    <section class="part" aria-labelledby="trends"><div class="head"><h2 id="trends">Latency and speed</h2><${Span} /></div><${Trends} serve=${serve.name} /></section>
    ${serve.dialects.some((one) => CHAT.includes(one)) && html`<${Measure} serve=${serve} />`}
    ${mayAct.value && html`<${ServeLog} name=${serve.name} />`}`;
}

function Ways({ serve }) {
  const name = serve.replica_of ?? serve.name;
  const isForChats = mayCall.value && serve.dialects.some((one) => CHAT.includes(one));
  const ways = [
    isForChats && html`<a href=${address("playground", [name])}>Try it in the playground</a>`,
    isForChats && html`<a href=${address("launch", [name])}>Start a coding agent with it</a>`,
    mayAct.value && html`<a href=${address("serves", [serve.name], { show: "settings" })}>Change its settings</a>`,
  ].filter(Boolean);
  return ways.length > 0 && html`<p class="small">${ways.map((one, index) => html`${index > 0 && " · "}${one}`)}</p>`;
}

function toTheLog() {
  document.getElementById("log")?.scrollIntoView();
  document.getElementById("log")?.focus();
}

function memoryOf(serve) {
  if (serve.measured != null) return `${bytes(serve.measured)}, ${serve.measured_by ?? "measured"}`;
  return serve.memory == null ? "unknown until it runs" : `${bytes(serve.memory)}, as configured`;
}

function contextOf(serve) {
  const size = serve.context ?? serve.facts.n_ctx;
  return size == null ? "unknown until it runs" : `${number(size)} tokens${serve.auto_context ? ", chosen by Stoker" : ""}`;
}

const PHASES = [["spawn_s", "process started"], ["health_s", "healthy"], ["ready_s", "proved, takes requests"]];

function Start({ serve }) {
  const marks = PHASES.map(([field, word]) => [word, serve.facts[field]]).filter(([, value]) => value != null);
  if (!marks.length) return null;
  const whole = marks.at(-1)[1] || 1;
  return html`<section><h2>Last start</h2><table class="phases"><caption class="hidden">Seconds from the start</caption>
    <tbody>${marks.map(([word, value]) => html`<tr><th scope="row">${word}</th><td class="num">${seconds(value)}</td>
      <td class="meter" aria-hidden="true"><i style=${{ width: `${Math.max(1, (value / whole) * 100)}%` }} /></td></tr>`)}</tbody></table></section>`;
}

const ASSERTIONS = {
  answers: "Answers", exact_id: "Exact id", devices: "Devices", dependencies: "Dependencies", profile: "Settings",
  context: "Context", progress: "Progress",
};

function Proof({ serve }) {
  const { health, verified_at: at, findings, restarts } = serve.watchdog;
  if (!findings.length) {
    const isLoaded = ["ready", "draining", "held"].includes(serve.state);
    return html`<section><h2>Proof</h2><p class="dim">${isLoaded ? html`It was not looked at yet. The watchdog looks within its <code>interval</code>, 10 s unless configured.` : "It is looked at while it is loaded."}</p></section>`;
  }
  return html`<section><h2>Proof</h2>
    <p><strong>${health}</strong>, ${at == null ? "never proved" : html`proved <${Ago} at=${at} />`}${restarts ? ` · restarted ${counted(restarts, "time")} by the watchdog` : ""}</p>
    <ul class="checks">${findings.map((one) => html`<li class=${one.ok === false ? "bad" : ""}><span class="sign" aria-hidden="true">${one.ok === false ? "✕" : one.ok ? "✓" : "–"}</span>
      <span><b>${ASSERTIONS[one.assertion] ?? one.assertion}</b><span class="hidden"> ${one.ok === false ? "failed" : one.ok ? "holds" : "unknown"}</span> <span class="dim">${one.detail}</span></span></li>`)}</ul></section>`;
}
