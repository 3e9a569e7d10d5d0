// Results in words and figures. Pure.
import { number } from "./format.js";

const KINDS = {
  benchmark: "Benchmark", preflight: "Preflight", context: "Context search", canary: "Canary", soak: "Soak", sweep: "Sweep",
  gate: "Gate", promotion: "Promotion", bootstrap: "Suites",
};
export const KIND_NAMES = Object.entries(KINDS);

export const OUTCOMES = {
  passed: { sign: "✓", word: "passed", met: "met", tone: "good" },
  failed: { sign: "✕", word: "failed", met: "not met", tone: "bad" },
  undecided: { sign: "?", word: "undecided", met: "unknown", tone: "open" },
  interrupted: { sign: "–", word: "interrupted", met: "unknown", tone: "open" },
  "not-applicable": { sign: "–", word: "does not apply", met: "left out", tone: "open" },
};

/** "Benchmark of qwen3-8b"; of a promotion also which alias it moved. */
export function titleOf({ kind, serve }) {
  return `${KINDS[kind] ?? kind} of ${serve}`;
}

/** Whether a result of this kind has numbers of its own. */
export function isComparable(kind) {
  return kind !== "gate" && kind !== "promotion";
}

const PARTS = { benchmark: "step", gate: "condition", bootstrap: "class", sweep: "variant", context: "try" };
const PLURALS = { class: "classes", try: "tries" };

/** "4 steps": what the verdict is about. */
export function partsOf({ kind, findings }) {
  const word = PARTS[kind] ?? "check";
  return `${findings} ${findings === 1 ? word : PLURALS[word] ?? `${word}s`}`;
}

export function resultLink(id) {
  return `#/results/${encodeURIComponent(id)}`;
}

export function compareLink(before, after) {
  return `#/results/compare/${encodeURIComponent(before)}/${encodeURIComponent(after)}`;
}

const FIGURES = {
  output_rate: "Throughput", peak_output_rate: "Highest throughput", knee_clients: "Clients at the knee", knee_output_rate: "Throughput at the knee",
  request_rate: "Requests answered", decode_rate: "Speed of one answer", goodput: "Goodput", goodput_share: "Share in time",
  requests_ok: "Requests answered", requests_failed: "Requests failed", cached_share: "Prompt from the cache", cold_ttft: "First token of the first request",
  drift: "Drift", stall_max: "Longest pause in an answer",
};
const TIMES = { ttft: "Time to first token", ttfo: "Time to first visible token", tpot: "Time per output token", e2e: "Time of a whole answer", itl: "Time between tokens", icl: "Time between chunks" };
const SHARES = { p50: "median", p95: "95th percentile", p99: "99th percentile", max: "longest" };

/** A figure's name for people; one that has none stays as it is. */
export function figureName(name) {
  const at = name.lastIndexOf("_");
  const time = TIMES[name.slice(0, at)];
  const share = SHARES[name.slice(at + 1)];
  return FIGURES[name] ?? (time && share ? `${time}, ${share}` : name);
}

/** Three digits that count: 0.0412, 3.14, 118, 1,240. */
export function figure(value) {
  if (value == null) return "–";
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return number(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** A share as percent, a number with its unit, and a time in milliseconds as people say it. */
export function measured(value, unit) {
  if (value == null) return "–";
  if (unit === "ms" && value >= 1000) return `${figure(value / 1000)} s`;
  return unit ? `${figure(value)} ${unit}` : figure(value);
}

/** The curve of a figure over the number of clients, with its spread over repeats. Steps with other prompts are left out. */
export function curve(run, name) {
  const points = [];
  for (const { name: step, numbers = {} } of run.findings) {
    const { clients, [name]: y } = numbers;
    if (clients == null || y == null || step !== `c${clients}`) continue;
    points.push({ x: clients, y, low: numbers[`${name}.low`] ?? null, high: numbers[`${name}.high`] ?? null });
  }
  return points.sort((a, b) => a.x - b.x);
}

/** What a condition of a gate was judged by, without the name of the figure and the id of the result. */
export function seenOf(condition, seen) {
  const metric = condition.split(/[\s<>=]/)[0];
  const text = seen.replace(/^[a-z]+ \d{8}T\d{6}Z-[\w.-]+: /, "");
  return text.startsWith(`${metric} = `) ? text.slice(metric.length + 3) : text;
}
