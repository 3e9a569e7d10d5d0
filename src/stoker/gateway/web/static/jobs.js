// What the page has begun and Stoker carries out: models to add, measurements. A job goes on when the page is closed.
import { useAnswer } from "./answer.js";
import { ask } from "./api.js";
import { bytes, seconds } from "./format.js";
import { html, useState } from "./kit.js";
import { status } from "./live.js";
import { Problem } from "./parts.js";

const PATH = "admin/jobs";
export const OVER = ["done", "failed", "cancelled", "interrupted"];
const WORDS = {
  queued: ["◌", "waits for another one"], running: ["◐", "under way"], done: ["✓", "done"], failed: ["✕", "failed"],
  cancelled: ["–", "cancelled"], interrupted: ["✕", "interrupted by the end of Stoker"],
};

/** The jobs of some kinds, the newest first. */
export function jobsOf(...kinds) {
  return (status.value?.jobs ?? []).filter((one) => kinds.includes(one.kind));
}

/** The job's document. Throws Refused. */
export function begin(request) {
  return ask(PATH, { method: "POST", body: request });
}

/** `[job, error]`: all of a job, with the progress that the status tells. */
export function useJob(id) {
  const live = (status.value?.jobs ?? []).find((one) => one.id === id);
  const [found, error] = useAnswer(id ? `${PATH}/${id}` : null, live?.state ?? "over");
  if (found?.id !== id) return [null, error];
  return [live && !OVER.includes(live.state) ? { ...found, state: live.state, progress: live.progress } : found, error];
}

export function JobState({ of }) {
  const [sign, word] = WORDS[of] ?? ["?", of];
  return html`<span class=${`state job ${of}`}><span aria-hidden="true">${sign}</span> ${word}</span>`;
}

/** What is under way and how far it is, with a button that cancels it. */
export function JobProgress({ job, kept = "" }) {
  const [error, setError] = useState(null);
  const { what = "", share, done, total, left, speed } = job.progress ?? {};
  const part = share ?? (total ? done / total : null);
  const cancel = () => { ask(`${PATH}/${job.id}`, { method: "POST", body: {} }).then(() => setError(null), setError); };
  const figures = [
    done != null && (total ? `${bytes(done)} of ${bytes(total)}` : bytes(done)), speed && `${bytes(speed)}/s`,
    left != null && `${seconds(Math.max(1, Math.round(left)))} left`,
  ].filter(Boolean);
  return html`<div class="under-way" role="status">
      <p>${job.state === "queued" ? "Waits until the one before it has ended." : what || "Begins"}</p>
      ${part == null ? html`<progress aria-label="Progress" />` : html`<progress aria-label="Progress" max="1" value=${Math.min(1, part)} />`}
      <p class="dim small">${figures.join(" · ") || "\u00a0"}</p></div>
    ${error && html`<${Problem} error=${error} />`}
    <div class="buttons"><button class="quiet" onClick=${cancel}>Cancel</button></div>
    <p class="dim small">It goes on if you leave this page. ${kept}</p>`;
}

/** What a command said beside its result. */
export function Notes({ lines }) {
  if (!lines.length) return null;
  return html`<details class="small"><summary>What the command said</summary><pre class="said" tabindex="0">${lines.join("\n")}</pre></details>`;
}

export function Checks({ checks }) {
  return html`<ul class="checks">${checks.map((one) => html`<li key=${one.name} class=${one.outcome === "failed" ? "bad" : ""}><span class="sign" aria-hidden="true">${one.outcome === "failed" ? "✕" : one.outcome === "passed" ? "✓" : "–"}</span>
    <span><b>${one.name}</b><span class="hidden"> ${one.outcome}</span> <span class="dim">${one.observed}</span>${one.fix && html`<br /><span class="small">Likely cause: ${one.cause}. Fix: ${one.fix}.</span>`}</span></li>`)}</ul>`;
}
