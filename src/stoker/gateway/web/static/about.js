// What runs here, what is wrong with it, and what it is made of.
import { ask } from "./api.js";
import { Copy } from "./code_block.js";
import { clock, seconds, upper } from "./format.js";
import { html, signal, useEffect, useState } from "./kit.js";
import { now, status } from "./live.js";
import { Ago, Facts, Problem } from "./parts.js";
import { Reload } from "./reload.js";
import { mayAct, who } from "./session.js";

/** What GET /admin/doctor answered last, and when; it is kept, because it takes seconds. */
const examined = signal(null);
const trouble = signal(null);
const isBusy = signal(false);

async function examine() {
  if (isBusy.value) return;
  isBusy.value = true;
  try {
    examined.value = { ...await ask("admin/doctor"), at: Date.now() / 1000 };
    trouble.value = null;
  } catch (error) {
    trouble.value = error;
  }
  isBusy.value = false;
}

export function About() {
  useEffect(() => { if (mayAct.value && !examined.value) examine(); }, []);
  const { version, started_at: started, pid, frontdoor } = status.value;
  const found = examined.value;
  const place = (value) => (value ? html`<code>${value}</code>` : "none");
  const rows = [
    ["Version", version], found && ["Python", `${found.python} on ${found.platform}`],
    ["Running for", `${seconds(Math.max(0, Math.floor(now.value - started)))}, since ${clock(started)}`],
    ["Process", pid], ["Clients", html`<code>${frontdoor.base_url}</code>`],
    ["Keys", who.value.asks_for_keys ? `asked for; yours is “${who.value.key}”, with scope ${who.value.scope}` : "not asked for"],
    found && ["Configuration", found.configuration ? place(found.configuration) : "none: the demo runs without one"], found && ["State", place(found.state)],
    found && ["Logs", place(found.logs)], found && ["Vault", place(found.vault)],
  ];
  return html`
    <div class="head"><h1>About</h1>${mayAct.value && html`<${Reload} done=${examine} />`}</div>
    <div class="columns">
      <section><h2>This Stoker</h2><${Facts} rows=${rows} /></section>
      <div>${mayAct.value && html`<${Health} found=${found} />`}<${Documents} /><${Licences} /></div>
    </div>`;
}

function Health({ found }) {
  const wrong = found ? [
    ...found.problems.map((text) => ({ health: "fail", part: "configuration", detail: text })),
    ...found.warnings.map((text) => ({ health: "warn", part: "configuration", detail: text })),
    ...found.findings.filter((one) => one.health !== "ok" && !isToldAlready(one, found)),
  ] : [];
  const fine = found?.findings.filter((one) => one.health === "ok") ?? [];
  return html`<section aria-busy=${isBusy.value}>
    <div class="with-button"><h2>Problems</h2>
      <button class="quiet tiny" disabled=${isBusy.value} onClick=${examine}>Check again</button>
      <span class="dim small" role="status">${isBusy.value ? "Checking …" : found ? html`checked <${Ago} at=${found.at} />` : ""}</span></div>
    ${trouble.value && html`<${Problem} error=${trouble.value} />`}
    ${found && !wrong.length && html`<p class="note good">None: the configuration and this machine are as they should be.</p>`}
    ${wrong.map((one, index) => html`<div key=${index} class=${`note finding ${one.health === "fail" ? "bad" : "warn"}`}>
      <p><strong>${one.health === "fail" ? "Problem" : "Warning"}, ${one.part}:</strong> ${one.detail}</p>
      ${one.fix && html`<p>${upper(one.fix).replace(/\.$/, "")}.</p>`}
      ${one.next && html`<p class="command"><code>${one.next}</code> <${Copy} text=${one.next} what=${`the command ${one.next}`} /></p>`}</div>`)}
    ${fine.length > 0 && html`<details class="twin"><summary>${fine.length} parts are fine</summary>
      <ul class="checks">${fine.map((one) => html`<li key=${one.part}><span class="sign" aria-hidden="true">✓</span><span><b>${one.part}</b> <span class="dim">${one.detail}</span></span></li>`)}</ul></details>`}
  </section>`;
}

/** The doctor sums up what the configuration's check says line by line. */
function isToldAlready(finding, { problems, warnings }) {
  return finding.part === "configuration" && (problems.length > 0 || warnings.length > 0);
}

const DOCUMENTS = [
  ["Get started", "get-started"], ["Web page", "guides/web-page"], ["Configuration", "reference/configuration"], ["Commands", "reference/cli"],
  ["HTTP", "reference/http"], ["Glossary", "glossary"], ["All pages", ""],
];

function Documents() {
  return html`<section><h2>Documentation</h2><p class="links">${DOCUMENTS.map(([name, page]) => html`<a key=${name} href=${`#/docs/${page}`}>${name}</a> `)}</p>
    <p class="dim small">On the command line: <code>stoker docs WORDS</code> searches, <code>stoker COMMAND --help</code> explains a command.</p></section>`;
}

function Licences() {
  const [found, setFound] = useState([]);
  const load = (event) => { if (event.target.open && !found.length) import("./vendor/licences.js").then((module) => setFound(module.LICENCES)); };
  return html`<section><h2>Licences</h2>
    <p>Stoker's own licence is in the file <code>LICENSE</code>. This page is made with libraries of others:</p>
    <details class="twin" onToggle=${load}><summary>Libraries and their licences</summary>
      ${found.map((one) => html`<div key=${one.name} class="licence"><h3>${one.name} ${one.version}, ${one.licence}</h3><pre tabindex="0" role="group" aria-label=${`Licence of ${one.name}`}>${one.text}</pre></div>`)}</details></section>`;
}
