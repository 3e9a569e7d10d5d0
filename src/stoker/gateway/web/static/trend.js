// Requests over time: how long they took, and how fast they were answered, in equal parts of a span. Pure.
import { seconds } from "./format.js";
import { endOf, isFailed } from "./outcomes.js";
import { speedOf } from "./speed.js";

/** Parts of a span. */
export const PARTS = 30;

/**
 * `{ from, to, requests, failed, first, whole, speed, tokens }` for each part, the oldest first; the part that is not
 * over yet is left out. `first` and `whole`: medians of the time to the first token and of the whole time, of answered
 * requests that ended in the part; `speed`: the median of their tokens per second; `tokens`: per second, of all
 * together. null: unknown, or none. `since`: what is not known before. Linear in the requests.
 */
export function trend(all, { now, span, since }) {
  const length = span / PARTS;
  const end = Math.floor(now / length) * length;
  const parts = Array.from({ length: PARTS }, (_, index) => {
    const from = end - (PARTS - index) * length;
    return { from, to: from + length, isKnown: from >= since, requests: 0, failed: 0, tokens: 0, first: [], whole: [], speed: [] };
  });
  for (const one of all) add(one, parts, length);
  return parts.map(({ isKnown, first, whole, speed, tokens, requests, failed, ...part }) => ({
    ...part, requests: isKnown ? requests : null, failed: isKnown ? failed : null,
    first: median(first), whole: median(whole), speed: median(speed), tokens: isKnown ? tokens / length : null,
  }));
}

/** Why there are no curves, as a sentence; empty: there are. */
export function nothingToDraw(parts, all) {
  if (parts.some((one) => one.whole != null || one.tokens > 0)) return "";
  const { from, to } = parts.at(-1);
  const have = parts.some((one) => one.requests > 0) ? "was answered" : "ended";
  if (all.some((one) => endOf(one) >= to)) return `The times of the first request are drawn within ${seconds(to - from)}.`;
  return `No request ${have} in the last ${seconds(to - parts[0].from)}: there are no times to draw.`;
}

function add(one, parts, length) {
  const ended = endOf(one);
  const begin = parts[0].from;
  const part = parts[Math.floor((ended - begin) / length)];
  if (part) {
    part.requests += 1;
    if (isFailed(one)) part.failed += 1;
    if (one.outcome === "served" && one.latency != null) {
      part.whole.push(one.latency);
      if (one.ttft != null) part.first.push(one.ttft);
      const speed = speedOf(one);
      if (speed != null) part.speed.push(speed);
    }
  }
  if (one.output_tokens > 0) spread(one.output_tokens, one.at + (one.ttft ?? one.queued ?? 0), ended, parts, length);
}

/** Tokens were written from the first one to the end, evenly as far as is known. */
function spread(tokens, from, to, parts, length) {
  const begin = parts[0].from;
  const last = Math.min(parts.length - 1, Math.floor((to - begin) / length));
  for (let index = Math.max(0, Math.floor((from - begin) / length)); index <= last; index += 1) {
    const shared = Math.min(to, parts[index].to) - Math.max(from, parts[index].from);
    parts[index].tokens += to > from ? (tokens * shared) / (to - from) : tokens;
  }
}

function median(values) {
  if (!values.length) return null;
  const sorted = values.sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
