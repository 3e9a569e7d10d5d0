// Preflight and benchmark of a serve, begun here: what is under way, and what came of the last ones.
import { begin, Checks, JobProgress, JobState, jobsOf, Notes, OVER, useJob } from "./jobs.js";
import { html, useState } from "./kit.js";
import { Ago, Problem } from "./parts.js";
import { address } from "./place.js";
import { seconds } from "./format.js";
import { mayAct } from "./session.js";

const TITLES = { preflight: "Preflight", benchmark: "Benchmark" };
const SHOWN = 3;

export function Measure({ serve }) {
  const [error, setError] = useState(null);
  const name = serve.replica_of ?? serve.name;
  const jobs = jobsOf("preflight", "benchmark").filter((one) => one.subject === name);
  const running = jobs.find((one) => !OVER.includes(one.state));
  const start = (request) => begin({ ...request, serve: name }).then(() => setError(null), setError);
  if (!mayAct.value) return null;
  return html`<section class="part" aria-labelledby="measure"><h2 id="measure">Measure it now</h2>
    <p class="dim small">A preflight proves that it answers as it should: template, tools, JSON, context, streams. A benchmark measures time to first token and tokens per second under load; other requests to it are slower meanwhile.</p>
    ${running ? html`<${Running} key=${running.id} id=${running.id} />` : html`<div class="buttons">
      <button class="quiet" onClick=${() => start({ kind: "preflight" })}>Preflight now</button>
      <button class="quiet" onClick=${() => start({ kind: "benchmark", quick: true })}>Benchmark now, quick</button>
      <button class="quiet" onClick=${() => start({ kind: "benchmark", quick: false })}>Benchmark now, full</button></div>`}
    ${error && html`<${Problem} error=${error} />`}
    ${jobs.filter((one) => OVER.includes(one.state)).slice(0, SHOWN).map((one, index) => html`<${Past} key=${one.id} id=${one.id} isOpen=${index === 0} />`)}</section>`;
}

function Running({ id }) {
  const [job] = useJob(id);
  if (!job) return null;
  return html`<h3>${TITLES[job.kind]}</h3><${JobProgress} job=${job} kept="What was measured is kept if you cancel." />`;
}

function Past({ id, isOpen }) {
  const [job] = useJob(id);
  if (!job) return null;
  const { result, error, notes } = job;
  const checks = (job.kind === "preflight" && result?.checks) || [];
  const failed = checks.filter((one) => one.outcome === "failed");
  const passed = checks.filter((one) => one.outcome === "passed");
  return html`<details class="past" open=${isOpen}><summary>${TITLES[job.kind]} <${JobState} of=${job.state} /> <span class="dim small"><${Ago} at=${job.ended ?? job.at} />${result?.seconds != null && `, ${seconds(result.seconds)}`}</span></summary>
    ${error && html`<${Problem} error=${error} />`}
    ${result && html`<p class=${`note ${result.outcome === "passed" ? "good" : "warn"}`}>${words(job, result, passed, failed)} <a href=${address("results", [result.id])}>The whole result</a></p>`}
    ${failed.length > 0 && html`<${Checks} checks=${failed} />`}
    ${passed.length > 0 && html`<details class="small"><summary>What passed</summary><${Checks} checks=${passed} /></details>`}
    <${Notes} lines=${notes} /></details>`;
}

function words(job, { outcome }, passed, failed) {
  if (job.kind === "preflight") return `${passed.length} of ${passed.length + failed.length} checks passed${outcome === "interrupted" ? ", then it was interrupted" : ""}.`;
  return outcome === "passed" ? "Measured." : outcome === "interrupted" ? "Interrupted: what was measured is kept." : `The outcome: ${outcome}.`;
}
