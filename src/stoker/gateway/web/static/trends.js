// Curves of the last minutes: how long requests took, and how fast they were answered. Drawn from the records that the
// page has; nothing is measured for it.
import { clock } from "./format.js";
import { html, signal, useEffect, useMemo } from "./kit.js";
import { decisions, fill, KEPT, now, status } from "./live.js";
import { Plot } from "./plot.js";
import { nothingToDraw, PARTS, trend } from "./trend.js";

const SPANS = [[5, "5 min"], [15, "15 min"], [60, "1 h"]];

/** What the page shows of the past, wherever it does. */
export const minutes = signal(15);

export function Span() {
  return html`<div class="choice" role="group" aria-label="Time shown">
    ${SPANS.map(([span, word]) => html`<button key=${span} aria-pressed=${minutes.value === span} onClick=${() => { minutes.value = span; }}>${word}</button>`)}</div>`;
}

/** Of the requests that one serve answered, if there is a `serve`. */
export function Trends({ serve }) {
  const span = minutes.value * 60;
  const all = decisions.value;
  const oldest = all.at(-1);
  const isShort = oldest != null && all.length < status.value.decisions.kept;
  const began = Math.min(status.value.started_at, oldest?.at ?? Infinity) - span / PARTS;
  const since = isShort ? oldest.at : began;
  const canFill = isShort && since > now.value - span && all.length < KEPT;
  useEffect(() => { if (canFill) fill(KEPT); }, [minutes.value, canFill]);
  const step = Math.floor(now.value / (span / PARTS));
  const mine = useMemo(() => (serve == null ? all : all.filter((one) => one.serve === serve || one.replica === serve)), [all, serve]);
  const parts = useMemo(() => trend(mine, { now: now.value, span, since }), [mine, span, step]);
  const time = { from: parts[0].from, to: parts.at(-1).to, ends: [`${minutes.value} min ago`, "now"], word: clock };
  const line = (name, tone, field) => ({ name, tone, points: parts.map((one) => ({ x: one.to, y: one[field] })) });
  const why = nothingToDraw(parts, mine);
  if (why) return html`<p class="dim small">${why}</p>`;
  return html`<div class="plots">
      <${Plot} title="Latency" unit="s, median" across="" time=${time} lines=${[line("whole request", 0, "whole"), line("first token", 1, "first")]} />
      ${parts.some((one) => one.tokens > 0) && html`<${Plot} title="Tokens per second" unit="tokens/s" across="" time=${time} lines=${[line("all together", 0, "tokens"), line("one answer, median", 1, "speed")]} />`}
    </div>
    ${isShort && since > parts[0].from && html`<p class="dim small">Drawn from the newest ${all.length.toLocaleString("en")} requests, since ${clock(since)}.</p>`}`;
}
