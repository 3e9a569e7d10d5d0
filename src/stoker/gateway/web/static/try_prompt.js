// Where a prompt would go, step by step. No tier is asked.
import { html, useState } from "./kit.js";
import { ask } from "./api.js";
import { status } from "./live.js";
import { Problem } from "./parts.js";
import { STATES } from "./verdicts.js";

/** What decided the class, as `stoker route` says it. */
const BY = {
  declared: "as you declared it", rules: "by its form", learned: "by its text", model: "by the classifier model",
  default: "by default: it has no signs of another class",
};

const CHECKS = {
  off: "not checked", observe: "sent at once, faults are counted", "hold-tools": "each tool call is checked before it is sent",
  "hold-all": "the whole answer is checked before it is sent",
};

export function TryPrompt({ classes }) {
  const [state, setState] = useState({});
  const names = ["auto", ...Object.keys(status.value.routing.aliases)];
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const body = { prompt: given.get("prompt"), model: given.get("model"), task: given.get("task") || null };
    setState({ isBusy: true });
    try {
      setState({ found: await ask("admin/route", { method: "POST", body }) });
    } catch (error) {
      setState({ error });
    }
  };
  return html`<section class="try"><h2>Try a prompt</h2>
    <p class="dim">See where it would go, and why. Nothing is sent to a tier.</p>
    <form onSubmit=${submit}>
      <label for="prompt" class="hidden">Prompt</label>
      <textarea id="prompt" name="prompt" rows="3" required placeholder="Plan the migration of our billing system"></textarea>
      <div class="buttons">
        <select name="model" aria-label="Model that is asked for">${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>
        <select name="task" aria-label="Class that is declared"><option value="">Stoker finds the class</option>${classes.map(({ name }) => html`<option value=${name}>${name}</option>`)}</select>
        <button disabled=${state.isBusy}>Show the way</button>
      </div>
    </form>
    <div role="status">${state.found && html`<${Plan} found=${state.found} />`}</div>
    ${state.error && html`<${Problem} error=${state.error} />`}</section>`;
}

function Plan({ found }) {
  return html`<p class="lead">Class <strong>${found.task}</strong>${found.high_risk ? ", high risk" : ""}, ${BY[found.source] ?? found.source}.${found.notes.length > 0 && html` <span class="dim small">${found.notes.join(", ")}</span>`}</p>
    ${found.refusal && html`<p class="note bad"><strong>No tier may serve it:</strong> ${found.refusal}</p>`}
    <ol class="plan">
      ${found.steps.map((step, index) => html`<li key=${step.tier}><span class="place">${index + 1}</span><span><b>${step.tier}</b> <${Sign} of=${step.verdict} />
        <span class="dim">${step.why}</span><span class="small dim">${index ? "only if the tiers before it fail" : "asked first"}; ${CHECKS[step.verify] ?? step.verify}</span></span></li>`)}
      ${found.dropped.map((one) => html`<li key=${one.tier} class="dropped"><span class="place"><span aria-hidden="true">–</span></span><span><b>${one.tier}</b> <span class="bad">not used</span> <span class="dim">${one.why}</span></span></li>`)}
    </ol>`;
}

function Sign({ of }) {
  const { sign, word, kind } = STATES[of] ?? { sign: "?", word: of, kind: "none" };
  return html`<span class=${`verdict ${kind}`}><span aria-hidden="true" class="sign">${sign}</span> ${word}</span>`;
}
