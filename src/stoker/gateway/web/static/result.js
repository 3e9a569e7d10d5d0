// One result in full.
import { html } from "./kit.js";
import { useAnswer } from "./answer.js";
import { clock, counted, seconds } from "./format.js";
import { Conditions, Outcome } from "./gates.js";
import { Facts, Problem, Twin } from "./parts.js";
import { Plot } from "./plot.js";
import { compareLink, curve, figure, figureName, isComparable, measured, OUTCOMES, resultLink, titleOf } from "./result_words.js";

export function One({ id }) {
  const [run, error] = useAnswer(`admin/results/${encodeURIComponent(id)}`);
  if (error) return html`<p class="crumb"><a href="#/results">Results</a></p><h1>No such result</h1><${Problem} error=${error} />`;
  if (!run) return html`<p class="dim">Waiting for the result …</p>`;
  const entry = { kind: run.kind, serve: run.subject.serve };
  return html`
    <p class="crumb"><a href="#/results">Results</a></p>
    <div class="head"><h1>${titleOf(entry)}</h1><span class="state"><${Outcome} of=${run.outcome} /></span></div>
    <p class="dim">${clock(run.at)}, took ${seconds(run.seconds)} · <code>${run.id}</code></p>
    ${isComparable(run.kind) && html`<${Earlier} run=${run} />`}
    ${run.kind === "benchmark" && html`<${Benchmark} run=${run} />`}
    ${run.kind === "gate" && html`<${Judged} run=${run} />`}
    ${!["benchmark", "gate"].includes(run.kind) && html`<${Checks} found=${run.findings} />`}
    <${About} run=${run} />
    <${Numbers} numbers=${run.numbers} />`;
}

/** The way to a comparison with the one before. */
function Earlier({ run }) {
  const [answer] = useAnswer(`admin/results?kind=${run.kind}&serve=${encodeURIComponent(run.subject.serve)}&limit=200`);
  const before = answer?.results.find((one) => one.at < run.at && one.id !== run.id);
  if (!before) return null;
  return html`<p><a class="button quiet" href=${compareLink(before.id, run.id)}>Compare with the one before</a> <span class="dim small">of ${clock(before.at)}</span></p>`;
}

function Benchmark({ run }) {
  const { numbers } = run;
  const best = Math.max(...curve(run, "output_rate").map((one) => one.y));
  const failed = numbers.requests_failed ?? 0;
  const tiles = [
    ["Tokens/s", figure(Number.isFinite(best) ? best : numbers.output_rate), "at best"],
    ["First token", measured(numbers.ttft_p50, "ms"), "median"],
    ["One answer", figure(numbers.decode_rate), "tokens/s"],
    ["Answered", figure(numbers.requests_ok)],
    ["Failed", figure(failed), "", failed > 0],
  ];
  return html`
    <dl class="figures">${tiles.map(([name, value, more, isBad]) => html`<div class=${isBad ? "bad" : ""}><dt>${name}${more && html` <span class="dim">${more}</span>`}</dt><dd>${value}</dd></div>`)}</dl>
    <${Curves} runs=${[run]} />
    <${Steps} found=${run.findings.filter(isStep)} />
    <${Findings} title="Notes" found=${run.findings.filter((one) => !isStep(one) || one.cause)} />`;
}

function isStep(finding) {
  return "requests_ok" in finding.numbers;
}

const COLUMNS = [["output_rate", "Tokens/s"], ["ttft_p50", "First token", "ms"], ["ttft_max", "at most", "ms"], ["tpot_p50", "Per token", "ms"], ["e2e_p50", "Whole answer", "ms"]];

function Steps({ found }) {
  if (!found.length) return null;
  return html`<section class="part"><h2>Steps</h2><div class="scroll" tabindex="0" role="region" aria-label="Steps"><table class="wide">
    <thead><tr><th scope="col">Load</th><th scope="col" class="num">Answered</th><th scope="col" class="num">Failed</th>${COLUMNS.map(([, word]) => html`<th scope="col" class="num">${word}</th>`)}</tr></thead>
    <tbody>${found.map(({ name, numbers, outcome }) => html`<tr key=${name}><th scope="row">${loadOf(name, numbers)}${outcome === "undecided" && html` <${Outcome} of=${outcome} />`}</th>
      <td class="num">${figure(numbers.requests_ok)}</td><td class=${`num ${numbers.requests_failed ? "bad-text" : "dim"}`}>${figure(numbers.requests_failed)}</td>
      ${COLUMNS.map(([field, , unit]) => html`<td class="num">${measured(numbers[field], unit)}</td>`)}</tr>`)}</tbody></table></div></section>`;
}

/** "4 clients", "2.5 requests/s"; a step of another form has its name. */
function loadOf(name, { clients, rate }) {
  if (rate != null && name === `r${rate}`) return `${rate} requests/s`;
  if (clients != null && name === `c${clients}`) return counted(clients, "client");
  return name;
}

/** One benchmark, or two: the one before, and the one after. */
export function Curves({ runs }) {
  if (!runs.some((run) => curve(run, "output_rate").length > 1)) return null;
  const [first, second] = runs;
  const tail = curve(first, "ttft_p95").length > 1 ? ["ttft_p95", "95th percentile"] : ["ttft_max", "longest"];
  const line = (run, field, name, tone = 0) => ({ name, tone, points: curve(run, field) });
  const named = (word, run) => (first.subject.serve === second.subject.serve ? word : `${word}: ${run.subject.serve}`);
  const both = (field) => [line(first, field, named("before", first), 1), line(second, field, named("after", second))];
  return html`<div class="plots">
    <${Plot} title="Throughput" unit="tokens/s" across="clients" lines=${second ? both("output_rate") : [line(first, "output_rate", "median of repeats")]} />
    <${Plot} title="Time to first token" unit=${second ? "ms, median" : "ms"} across="clients"
      lines=${second ? both("ttft_p50") : [line(first, "ttft_p50", "median"), line(first, ...tail, 1)]} /></div>
    <p class="dim small">The band reaches from the lowest repeat to the highest.</p>`;
}

function Judged({ run }) {
  const { gate, alias } = run.settings;
  const met = run.findings.filter((one) => one.outcome === "passed").length;
  return html`<section class="part"><h2>Gate ${gate}: ${met} of ${run.findings.length} conditions met</h2>
    <${Conditions} findings=${run.findings} />
    ${run.outcome === "passed" && alias && html`<p class="note good">It is evidence for a promotion: <code>stoker promote ${alias} ${run.subject.serve} --evidence ${run.id}</code></p>`}
    ${run.settings.runs?.length > 0 && html`<p class="dim small">Judged by ${run.settings.runs.map((id, index) => html`${index > 0 && ", "}<a href=${resultLink(id)}>${id}</a>`)}</p>`}</section>`;
}

function Checks({ found }) {
  const isFailed = (one) => one.outcome === "failed";
  const passed = found.filter((one) => one.outcome === "passed").length;
  return html`<${Findings} title=${`Checks: ${passed} of ${found.length} passed`} found=${[...found.filter(isFailed), ...found.filter((one) => !isFailed(one))]} />`;
}

function Findings({ title, found }) {
  if (!found.length) return null;
  return html`<section class="part"><h2>${title}</h2>
    <ul class="checks">${found.map((one) => html`<li class=${OUTCOMES[one.outcome]?.tone ?? "open"}><span class="sign" aria-hidden="true">${OUTCOMES[one.outcome]?.sign ?? "?"}</span>
      <span><b>${one.name}</b><span class="hidden">${OUTCOMES[one.outcome]?.word ?? one.outcome}. </span><span class="dim">${one.seen}</span>
        ${one.cause && html`<br /><span class="small">${one.cause}</span>`}${one.fix && html`<br /><span class="small">${one.fix}</span>`}</span></li>`)}</ul></section>`;
}

const SETTINGS = {
  preset: "Preset", prompt_tokens: "Prompt", output_tokens: "Answer", repeats: "Repeats of each step", modes: "Prompts share", alias: "For alias",
  max_age: "Measurements count for", whole: "Classes",
};

function About({ run }) {
  const { subject, settings } = run;
  const value = (name) => {
    const found = settings[name];
    if (found == null || found === "" || (Array.isArray(found) && !found.length)) return null;
    if (name.endsWith("_tokens")) return `${figure(found)} tokens`;
    if (name === "modes") return found.map((one) => (one === "warm" ? "nothing" : one)).join(", ");
    return name === "max_age" ? seconds(found) : Array.isArray(found) ? found.join(", ") : String(found);
  };
  const rows = [
    subject.model && ["Model asked for", subject.model],
    ["Asked through", { "front-door": "Stoker", direct: "the engine itself", public: "the public route" }[subject.route] ?? subject.route],
    ["Dialect", subject.dialect],
    subject.base_url && ["Address", subject.base_url],
    ...Object.entries(SETTINGS).map(([name, word]) => value(name) && [word, value(name)]),
  ];
  const parts = Object.entries(subject.fingerprint.parts);
  return html`<section class="part"><h2>What was measured</h2><${Facts} rows=${rows} />
    ${parts.length > 0 && html`<${Twin} label="in parts" summary="Model and settings" heads=${["Part", "Value"]} rows=${parts} />`}</section>`;
}

function Numbers({ numbers }) {
  const rows = Object.entries(numbers).filter(([, value]) => value != null);
  if (!rows.length) return null;
  return html`<${Twin} label="of this result" summary=${`All ${rows.length} numbers`} heads=${["Number", "Value", "Meaning"]}
    rows=${rows.map(([name, value]) => [name, figure(value), figureName(name) === name ? "" : figureName(name)])} />`;
}
