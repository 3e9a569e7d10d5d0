// What each slot did, for the lanes: what the page saw, and before that what the swaps that ended tell.
import { computed, effect, signal } from "./kit.js";
import { link, now, status, swaps } from "./live.js";
import { beganAt, joined, pastOf } from "./past.js";

const LONGEST = 3600;
/** Seconds between two looks beyond which the page was away. */
const GAP = 30;
/** Swaps that a page gets when it opens; if there are fewer, they are all since Stoker started. */
const GIVEN = 50;
/** By serve: `{state, from, to, seen}`, the oldest first. Unix seconds; `seen`: the first look; `to`: the last one. */
const seen = signal(new Map());
/** When the page looked: `{from, to}`, the oldest first. */
const watched = signal([]);

/** Since when all swaps are known, and why since then. */
export const known = computed(() => {
  const hasAll = swaps.value.length < GIVEN;
  return { since: hasAll ? startedAt.value : beganAt(swaps.value.at(-1)), hasAll };
});
const startedAt = computed(() => status.value?.started_at ?? null);

const past = computed(() => pastOf(swaps.value, known.value.since));

/** By serve: `{state, from, to}`, the oldest first. Unix seconds. */
export const segments = computed(() => {
  const names = new Set([...past.value.keys(), ...seen.value.keys()]);
  return new Map([...names].map((name) => [name, joined(past.value.get(name) ?? [], seen.value.get(name) ?? [], watched.value)]));
});

effect(() => {
  const found = status.value;
  if (!found || link.value !== "live") return;
  const at = Math.max(now.value, Date.now() / 1000);
  seen.value = extended(seen.peek(), found.serves, at);
  watched.value = looked(watched.peek(), at);
});

function looked(before, at) {
  const last = before.at(-1);
  if (last && last.to <= at - LONGEST) return [{ from: at, to: at }];
  return last && at - last.to < GAP ? [...before.slice(0, -1), { ...last, to: at }] : [...before, { from: at, to: at }];
}

/** `before` with one more look at the serves. Pure. */
export function extended(before, serves, at) {
  const after = new Map();
  for (const serve of serves) {
    const state = shown(serve.state);
    const known = (before.get(serve.name) ?? []).filter((one) => one.to > at - LONGEST);
    const last = known.at(-1);
    if (last && last.state === state && at - last.to < GAP) known[known.length - 1] = { ...last, to: at };
    else if (state) known.push({ state, from: began(serve, state, last, at), to: at, seen: at });
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
