// What Stoker does now: one stream of GET /events while the page is in view, and what it has told.
import { ask } from "./api.js";
import { batch, computed, effect, signal } from "./kit.js";
import { patched } from "./patch.js";
import { mayLook } from "./session.js";
import { readEvents } from "./stream.js";

const SHORTEST_PAUSE = 1000;
const LONGEST_PAUSE = 10_000;
/** Records that a page holds. */
export const KEPT = 10_000;
/** Swaps that a page holds. */
const KEPT_SWAPS = 500;
/** Records asked for when a page opens. */
const FIRST = 2000;

/** The document of /status; null: none yet. */
export const status = signal(null);
/** `connecting`, `live`, or `lost`: Stoker does not answer. */
export const link = signal("connecting");
/** Why the last try was refused, if Stoker did answer. */
export const trouble = signal(null);
/** Decision records, the newest first. */
export const decisions = signal([]);
/** Swaps that ended, the newest first. */
export const swaps = signal([]);
/** What is in flight: `count`, and `requests` by id. */
export const inFlight = signal({ count: 0, requests: {} });
/** Unix seconds by this machine's clock, once a second. */
export const now = signal(Date.now() / 1000);
/** Grows with each result that is written, by whatever process. */
export const resultsHeard = signal(0);
export const serves = computed(() => status.value?.serves ?? []);

/** What the page that is shown wants to hear, besides the status. */
const topics = signal("status");

let mayFollow = false;
let wanted = [];
let aborter = null;
let lastId = "";
let failures = 0;
let timer = 0;

export function start() {
  setInterval(() => { now.value = Date.now() / 1000; }, 1000);
  document.addEventListener("visibilitychange", connect);
  effect(() => {
    mayFollow = mayLook.value;
    wanted = topics.value.split(",");
    lastId = ""; // an id counts for the same topics only
    connect();
  });
}

/** Topics that the page that is shown needs, besides the status. */
export function want(names) {
  topics.value = ["status", ...names].join(",");
}

/** Begin to read anew; a page that is out of view, or whose user has to sign in, reads nothing. */
function connect() {
  clearTimeout(timer);
  aborter?.abort();
  aborter = null;
  if (!document.hidden && mayFollow) follow(new AbortController());
}

async function follow(mine) {
  aborter = mine;
  try {
    await readEvents(wanted, lastId, mine, (events) => { if (aborter === mine) hear(events); });
  } catch (error) {
    if (aborter !== mine) return;
    if (error.status !== 401) {
      trouble.value = error.status > 0 ? error : null;
      link.value = "lost";
    }
  }
  if (aborter !== mine) return;
  if (failures) link.value = "lost";
  failures += 1;
  timer = setTimeout(connect, Math.min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** (failures - 1)));
}

function hear(events) {
  failures = 0;
  const added = { decision: [], swap: [] };
  batch(() => {
    link.value = "live";
    for (const { kind, data, id } of events) {
      if (id) lastId = id;
      if (kind === "result") resultsHeard.value += 1;
      if (kind === "snapshot") take(data);
      else if (kind === "delta") changed(data);
      else added[kind]?.unshift(data);
    }
    if (added.decision.length) decisions.value = [...added.decision, ...decisions.peek()].slice(0, KEPT);
    if (added.swap.length) swaps.value = [...added.swap, ...swaps.peek()].slice(0, KEPT_SWAPS);
  });
}

function changed({ topic, patch }) {
  const document = topic === "requests" ? inFlight : status;
  document.value = patched(document.peek(), patch);
}

function take(snapshot) {
  if (snapshot.topic === "status") status.value = snapshot;
  else if (snapshot.topic === "requests") inFlight.value = snapshot;
  else if (snapshot.topic === "swaps") swaps.value = snapshot.swaps;
  else if (snapshot.topic === "decisions") takeDecisions(snapshot.decisions);
  else if (snapshot.topic === "results") resultsHeard.value += 1;
}

/** A snapshot has the last ones only: if it does not reach back to what is known, all are asked for. */
function takeDecisions(recent) {
  const known = new Set(decisions.peek().slice(0, 1000).map((one) => one.id));
  const reaches = recent.some((one) => known.has(one.id));
  decisions.value = [...recent.filter((one) => !known.has(one.id)), ...decisions.peek()].slice(0, KEPT);
  if (!reaches && (recent.length || status.peek()?.decisions?.kept)) fill(); // none may mean that the file was locked
}

/** Ask for the last `most` records. */
export async function fill(most = FIRST) {
  try {
    const found = (await ask(`admin/decisions?limit=${most}`)).decisions;
    const known = new Set(found.map((one) => one.id));
    const newer = decisions.peek().filter((one) => !known.has(one.id) && one.at >= (found[0]?.at ?? 0));
    decisions.value = [...newer, ...found].slice(0, KEPT);
  } catch {
    // the ones that the stream told of stay
  }
}
