// The conversations of the playground. They live in this page alone: closing it forgets them.
import { send } from "./api.js";
import { extended, headOf, readReply } from "./chat_reply.js";
import { effect, signal } from "./kit.js";
import { decisions } from "./live.js";

let made = 0;

/** One for each model that is compared: `{ id, model, turns, aborter }`. */
export const columns = signal([newColumn("")]);
export const draft = signal("");
/** `data:` URLs that go with the next message. */
export const pictures = signal([]);
export const system = signal("");
export const temperature = signal("");
export const limit = signal("");
export const tools = signal("");

function newColumn(model, turns = []) {
  made += 1;
  return { id: made, model: signal(model), turns: signal(turns), aborter: null };
}

export function compare(model) {
  columns.value = [...columns.value, newColumn(model, columns.value[0].turns.value.filter((one) => !isUnderWay(one)))];
}

export function withoutColumn(column) {
  column.aborter?.abort();
  columns.value = columns.value.filter((one) => one !== column);
}

export function startOver() {
  stop();
  for (const column of columns.value) column.turns.value = [];
}

export function stop() {
  for (const column of columns.value) column.aborter?.abort();
}

export function isUnderWay(turn) {
  return turn.role === "assistant" && ["waiting", "answering"].includes(turn.state);
}

/** The tools as they are sent. Throws an Error that says what is wrong. */
export function toolsOf(text) {
  if (!text.trim()) return undefined;
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`The tools are not valid JSON: ${error.message}.`);
  }
  if (!Array.isArray(found) || !found.every((one) => one && typeof one === "object")) {
    throw new Error('The tools must be a list: [{"type": "function", "function": {"name": …}}].');
  }
  return found.length ? found : undefined;
}

export function toolsProblem() {
  try {
    toolsOf(tools.value);
    return "";
  } catch (error) {
    return error.message;
  }
}

/** The body of the request that asks `column` after these turns. Throws an Error if the tools are no JSON. */
export function bodyOf(column, turns) {
  const messages = system.value.trim() ? [{ role: "system", content: system.value }] : [];
  const body = { model: column.model.value, messages: [...messages, ...turns.filter((one) => !one.isLeftOut).flatMap(messagesOf)] };
  if (temperature.value !== "") body.temperature = Number(temperature.value);
  if (limit.value !== "") body.max_tokens = Number(limit.value);
  const known = toolsOf(tools.value);
  if (known) body.tools = known;
  return { ...body, stream: true, stream_options: { include_usage: true } };
}

function messagesOf(turn) {
  if (turn.role === "user") {
    const images = turn.pictures.map((url) => ({ type: "image_url", image_url: { url } }));
    return [{ role: "user", content: images.length ? [{ type: "text", text: turn.text }, ...images] : turn.text }];
  }
  if (!turn.calls.length) return [{ role: "assistant", content: turn.text }];
  const calls = turn.calls.map((one) => ({ id: one.id, type: "function", function: { name: one.name, arguments: one.arguments } }));
  const results = turn.calls.map((one) => ({ role: "tool", tool_call_id: one.id, content: one.result }));
  return [{ role: "assistant", content: turn.text || null, tool_calls: calls }, ...results];
}

/** What is in the box, as a turn; null: nothing is. */
export function drafted() {
  return draft.value.trim() || pictures.value.length ? { role: "user", text: draft.value, pictures: pictures.value } : null;
}

/** Ask every model with what is in the box. */
export function sendDraft() {
  const turn = drafted();
  if (!turn || toolsProblem() || columns.value.some((one) => one.aborter)) return;
  draft.value = "";
  pictures.value = [];
  for (const column of columns.value) ask(column, [...column.turns.value, turn]);
}

/** Ask again: an answer with nothing in it is replaced; after calls of tools, their results are sent. */
export function askAgain(column) {
  const turns = column.turns.value;
  const last = turns.at(-1);
  if (column.aborter || toolsProblem()) return;
  if (!last.isLeftOut) return ask(column, turns);
  const before = turns.slice(0, -1);
  return ask(column, before.map((one, at) => (at === before.length - 1 ? { ...one, isLeftOut: false } : one)));
}

export function setResult(column, turn, call, result) {
  const calls = turn.calls.map((one) => (one === call ? { ...one, result } : one));
  column.turns.value = column.turns.value.map((one) => (one === turn ? { ...one, calls } : one));
}

const seconds = () => performance.now() / 1000;

async function ask(column, turns) {
  const aborter = new AbortController();
  column.aborter = aborter;
  made += 1;
  let answer = {
    role: "assistant", key: made, model: column.model.value, text: "", thinking: "", calls: [], state: "waiting", error: null, usage: null,
    finish: null, head: null, record: null, began: Date.now() / 1000, sentAt: seconds(), firstAt: null, endedAt: null,
  };
  column.turns.value = [...turns, answer];
  const show = shownLater(() => replaceLast(column, answer));
  try {
    const reply = await send("v1/chat/completions", { method: "POST", body: bodyOf(column, turns), signal: aborter.signal });
    answer = { ...answer, head: headOf(reply) };
    show.soon();
    await readReply(reply, (piece) => {
      answer = extended(answer, piece, seconds());
      if (answer.firstAt) answer.state = "answering";
      show.soon();
    });
    answer = { ...answer, state: "done" };
  } catch (error) {
    const isStopped = error.name === "AbortError";
    answer = { ...answer, state: isStopped ? "stopped" : "failed", error: isStopped ? null : asRefusal(error) };
  }
  answer = { ...answer, endedAt: seconds(), isLeftOut: !answer.text && !answer.calls.length };
  column.aborter = null;
  show.now();
  if (answer.head?.id) wanted.add(answer.head.id);
  findRecords();
}

function asRefusal(error) {
  return error.status === undefined ? { status: 0, message: `Stoker does not answer, or the connection broke (${error.message}).` } : error;
}

/** An answer with nothing in it, and its question, would only confuse the next request: both are left out of it. */
function replaceLast(column, answer) {
  const turns = column.turns.peek();
  if (turns.at(-1)?.key !== answer.key) return; // the conversation was cleared
  const asked = turns.at(-2);
  const before = answer.isLeftOut && asked.role === "user" ? [...turns.slice(0, -2), { ...asked, isLeftOut: true }] : turns.slice(0, -1);
  column.turns.value = [...before, answer];
}

/** Shows many changes at once, when the browser paints next. */
function shownLater(show) {
  let timer = 0;
  const now = () => {
    cancelAnimationFrame(timer);
    timer = 0;
    show();
  };
  return { now, soon: () => { timer ||= requestAnimationFrame(now); } };
}

/** Ids of requests whose record has not come yet. */
const wanted = new Set();
const LOOKED_AT = 500;

effect(() => {
  decisions.value; // eslint-disable-line no-unused-expressions
  if (wanted.size) findRecords();
});

/** What Stoker wrote down of the answers: class, tokens, how long they waited. */
function findRecords() {
  const found = new Map(decisions.peek().slice(0, LOOKED_AT).filter((one) => wanted.has(one.id)).map((one) => [one.id, one]));
  if (!found.size) return;
  for (const id of found.keys()) wanted.delete(id);
  for (const column of columns.peek()) {
    column.turns.value = column.turns.peek().map((one) => (found.has(one.head?.id) && !one.record ? { ...one, record: found.get(one.head.id) } : one));
  }
}
