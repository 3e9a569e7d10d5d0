// What each slot did since the page was opened, for the lanes. Residents' earlier time is known from their uptime.
import { effect, signal } from "./kit.js";
import { link, now, status } from "./live.js";

const LONGEST = 3600;
/** By serve: `{state, from, to}`, the oldest first. Unix seconds; `to` of the last one is when it was last seen. */
export const segments = signal(new Map());

effect(() => {
  const found = status.value;
  if (found && link.value === "live") segments.value = extended(segments.peek(), found.serves, Math.max(now.value, Date.now() / 1000));
});

/** `before` with one more look at the serves. Pure. */
export function extended(before, serves, at) {
  const after = new Map();
  for (const serve of serves) {
    const state = shown(serve.state);
    const known = (before.get(serve.name) ?? []).filter((one) => one.to > at - LONGEST);
    const last = known.at(-1);
    if (last && last.state === state && at - last.to < 30) known[known.length - 1] = { ...last, to: at };
    else if (state) known.push({ state, from: began(serve, state, last, at), to: at });
    if (known.length) after.set(serve.name, known);
  }
  return after;
}

function began(serve, state, last, at) {
  if (last && at - last.to < 5) return last.to;
  return state === "ready" && serve.uptime != null ? at - serve.uptime : at;
}

function shown(state) {
  if (state === "held") return "ready";
  return ["ready", "starting", "draining", "stopping"].includes(state) ? state : null;
}
