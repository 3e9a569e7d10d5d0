// What a verdict rests on: answers counted, the interval, the suite, the model that was measured, live grades.
import { html } from "./kit.js";
import { clock, number, seconds } from "./format.js";
import { Ago, Facts } from "./parts.js";
import { STATES } from "./verdicts.js";

const CHECKS = {
  off: "not checked", observe: "sent at once; faults are only counted", "hold-tools": "text is sent at once, each tool call is held until it is proved valid",
  "hold-all": "nothing is sent before the whole answer was checked",
};
const USED = { allow: "Requests of this class may go to it.", "allow-with-verify": "Requests of this class may go to it, and its answers are checked.", deny: "No request of this class goes to it." };

export function Evidence({ cell }) {
  const { measured, live, demotion } = cell;
  const name = `${cell.tier} at ${cell.class}`;
  const rows = [
    measured && ["Answers", `${number(measured.passed)} of ${number(measured.n)} right`],
    measured && ["Right at 95 %", html`<${Interval} found=${measured} label=${name} />`],
    measured?.latency != null && ["Median time", `${seconds(measured.latency)} for an answer`],
    measured && ["Suite", html`${measured.source || "unknown"}${measured.dataset ? html`, questions <code>${measured.dataset.slice(0, 12)}</code>` : ""}`],
    measured && ["Measured", measured.at == null ? "without a date" : html`<${Ago} at=${measured.at} />, ${clock(measured.at)}`],
    measured && ["Model", html`<${Model} found=${measured} />`],
    live && ["Live grades", html`${number(live.passed)} of ${number(live.n)} graded answers right; the last <${Ago} at=${live.at} />`],
    live && ["Right at 95 %", html`<${Interval} found=${live} label=${`live answers of ${name}`} />`],
    cell.live_problem && ["They do not count", cell.live_problem],
    cell.contradiction && ["Alarm", `${cell.contradiction}; the suite's verdict stands, and the answers are checked`],
    cell.became_worse && ["Alarm", "its checked answers became worse since it was measured"],
    demotion && ["Demoted", html`<${Ago} at=${demotion.at} />: its answers became worse, and then the preflight failed at ${demotion.checks.join(", ")}`],
    cell.verdict === "allow-with-verify" && ["Checks", CHECKS[cell.checks] ?? cell.checks],
  ];
  const isOut = cell.state === "not-its-class" || cell.state === "no-cloud";
  const command = cell.state === "stale" ? `stoker eval calibrate ${cell.tier}` : `stoker eval bootstrap ${cell.tier} --class ${cell.class}`;
  return html`<section aria-label=${`Evidence for ${name}`}><h2>${cell.tier} at ${cell.class}</h2>
    <p>${isOut ? `${STATES[cell.state].word[0].toUpperCase()}${STATES[cell.state].word.slice(1)}: the configuration keeps this class from it.` : html`${upper(cell.why)}. ${USED[cell.verdict]}`}</p>
    ${rows.some(Boolean) && html`<${Facts} rows=${rows} />`}
    ${!isOut && html`<p class="dim small">${measured ? "Measure it again" : "Measure it"}: <code>${command}</code></p>`}</section>`;
}

function upper(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function Model({ found }) {
  const words = { true: "the one that runs now", false: "not the one that runs now", null: "whether it is the one that is configured now is known once it has been loaded" };
  return html`${words[found.is_current]}${found.identity && html` <span class="dim">(fingerprint <code>${found.identity.slice(0, 12)}</code>, run as <code>${found.execution.slice(0, 12)}</code>)</span>`}`;
}

/** The share of right answers that was seen, and between which bounds the true one lies. */
function Interval({ found, label }) {
  const at = (value) => `${(100 * value).toFixed(1)}%`;
  return html`<span class="interval"><span class="scale" aria-hidden="true" title=${label}><i style=${{ left: at(found.low), width: at(found.high - found.low) }} /><b style=${{ left: at(found.n ? found.passed / found.n : 0) }} /></span>
    <span>between ${found.low.toFixed(2)} and ${found.high.toFixed(2)}</span></span>`;
}
