// The names that GET /v1/models lists: what they stand for, and which of them can do what.
import { ask } from "./api.js";
import { computed, html, signal } from "./kit.js";
import { serves, status } from "./live.js";
import { STATES } from "./parts.js";
import { slotsOf } from "./plan.js";

/** Entries of the list; null: not known yet. */
export const listed = signal(null);
export const trouble = signal(null);
/** Dialects that a chat can be translated to. */
export const CHAT = ["chat", "messages", "responses"];

const PAUSE = 3000;

/** Ask for the list, and again after a failure, until `isOver()`: then somebody else asks. */
export async function look(isOver) {
  try {
    const { data } = await ask("v1/models");
    if (isOver()) return;
    listed.value = data;
    trouble.value = null;
  } catch (error) {
    if (isOver()) return;
    trouble.value = error;
    setTimeout(() => { if (!isOver()) look(isOver); }, PAUSE);
  }
}

/** Names for one kind of request. Those that stand for no serve of their own are for chats. */
export function namesFor(dialect) {
  const wanted = dialect === "chat" ? CHAT : [dialect];
  return (listed.value ?? []).filter(({ stoker }) => (stoker.serve == null ? dialect === "chat" : wanted.some((one) => stoker.dialects.includes(one))));
}

/** Whether a name takes images; for those that are routed: whether any serve does. */
export function takesImages(name) {
  const found = (listed.value ?? []).find((one) => one.id === name)?.stoker;
  if (found?.serve != null) return found.modalities.includes("image");
  return (listed.value ?? []).some((one) => one.stoker.modalities?.includes("image"));
}

/** The serve behind a name, as /status has it: of several replicas one that is ready. */
export function serveOf(name) {
  const serve = (listed.value ?? []).find((one) => one.id === name)?.stoker.serve;
  const found = serve == null ? [] : serves.value.filter((one) => one.name === serve || one.replica_of === serve);
  return found.find((one) => one.state === "ready") ?? found.find((one) => one.state !== "stopped") ?? found[0];
}

/** The swap that loads a name's serve; of a name without a serve, any that is under way. */
export function swapFor(name) {
  const serve = serveOf(name);
  const slots = status.value.slots.filter((one) => one.swap && (!serve || slotsOf(serve).includes(one.name)));
  return slots.find((one) => !serve || one.swap.target === serve.name)?.swap;
}

/** What to choose at first: `auto`, else what is loaded, else the first. */
export function usual(found) {
  const names = found.map((one) => one.id);
  return names.find((one) => one === "auto") ?? names.find((one) => serveOf(one)?.state === "ready") ?? names[0] ?? "";
}

/** What to compare a name with at first: one of another serve, the loaded ones before others; else any other name. */
export function otherThan(name, found) {
  const names = found.map((one) => one.id).filter((one) => one !== name);
  const own = serveOf(name)?.name;
  const different = names.filter((one) => serveOf(one) && serveOf(one).name !== own);
  return different.find((one) => serveOf(one).state === "ready") ?? different[0] ?? names[0];
}

const GROUPS = computed(() => {
  const groups = { "Chosen for each request": [], Loaded: [], "Not loaded": [] };
  for (const entry of listed.value ?? []) {
    const state = serveOf(entry.id)?.state;
    const group = entry.stoker.serve == null ? "Chosen for each request" : state === "ready" ? "Loaded" : "Not loaded";
    const word = group === "Not loaded" && state && state !== "stopped" ? ` (${STATES[state]?.word ?? state})` : "";
    groups[group].push({ entry, text: entry.id + word });
  }
  return groups;
});

export function ModelChoice({ id, label, value, dialect, choose }) {
  const names = new Set(namesFor(dialect).map((one) => one.id));
  const groups = Object.entries(GROUPS.value).map(([group, found]) => [group, found.filter(({ entry }) => names.has(entry.id))]).filter(([, found]) => found.length);
  return html`<span class="field"><label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(event) => choose(event.target.value)}>
      ${groups.map(([group, found]) => html`<optgroup key=${group} label=${group}>${found.map(({ entry, text }) => html`<option key=${entry.id} value=${entry.id} selected=${entry.id === value}>${text}</option>`)}</optgroup>`)}
    </select></span>`;
}
