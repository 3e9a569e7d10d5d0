// What Stoker does now: the only module that knows how the page hears of it.
import { ask } from "./api.js";
import { batch, computed, signal } from "./kit.js";
import { who } from "./session.js";

const EVERY = 1000;
const LONGEST_PAUSE = 10_000;
const KEPT = 10_000;

/** The document of /status; null: none yet. */
export const status = signal(null);
/** `connecting`, `live`, or `lost`: Stoker does not answer. */
export const link = signal("connecting");
/** Decision records, the newest first. */
export const decisions = signal([]);
/** Unix seconds by this machine's clock, once a second. */
export const now = signal(Date.now() / 1000);
/** How many parts of the page show decisions. */
const watching = signal(0);
export const serves = computed(() => status.value?.serves ?? []);

let timer = 0;
let failures = 0;
let isAsking = false;

export function start() {
  setInterval(() => { now.value = Date.now() / 1000; }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) again(0); });
  again(0);
}

/** Look again now: something was changed. */
export function refresh() {
  again(0);
}

/** Call when a part that shows decisions appears; the result, when it goes. */
export function watchDecisions() {
  watching.value += 1;
  again(0);
  return () => { watching.value -= 1; };
}

function again(pause) {
  clearTimeout(timer);
  timer = setTimeout(look, pause);
}

async function look() {
  if (isAsking || document.hidden) return;
  isAsking = true;
  try {
    const wantsAll = watching.value > 0 && decisions.value.length === 0;
    const wanted = watching.value > 0 ? ask(`admin/decisions?limit=${wantsAll ? KEPT : 200}`) : null;
    const [found, recent] = await Promise.all([ask("status"), wanted]);
    failures = 0;
    batch(() => {
      status.value = found;
      link.value = "live";
      if (recent) decisions.value = merge(recent.decisions, decisions.value);
    });
  } catch (error) {
    if (error.status === 401) who.value = { needed: true };
    failures += 1;
    link.value = "lost";
  } finally {
    isAsking = false;
    again(failures ? Math.min(LONGEST_PAUSE, EVERY * 2 ** (failures - 1)) : EVERY);
  }
}

function merge(recent, before) {
  if (!before.length) return recent;
  if (recent[0]?.id === before[0].id) return before;
  const known = new Set(before.slice(0, 400).map((one) => one.id));
  return [...recent.filter((one) => !known.has(one.id)), ...before].slice(0, KEPT);
}
