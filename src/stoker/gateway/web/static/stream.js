// GET /events, read by fetch: an EventSource cannot send the header that a session's cookie counts with.
// Stoker sends something at least every 15 s.
import { LONGEST_SILENCE, refusal, Refused, send } from "./api.js";

/**
 * Calls `heard([{ kind, data, id }])` for each piece that arrives, until the stream ends. Throws Refused; an
 * AbortError when `aborter` is used.
 */
export async function readEvents(topics, lastId, aborter, heard) {
  const headers = lastId ? { "last-event-id": lastId } : {};
  const path = `events?topics=${topics.map(encodeURIComponent).join(",")}`;
  let timer = 0;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => aborter.abort(new Refused(0, "silent", "nothing came")), LONGEST_SILENCE);
  };
  try {
    wait();
    const reply = await send(path, { headers, signal: aborter.signal });
    if (!reply.ok) throw await refusal(reply);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      wait();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      const events = blocks.map(event).filter(Boolean);
      if (events.length) heard(events);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** One block of lines; null for a comment or `retry`. */
function event(block) {
  const found = { kind: "message", data: "", id: null };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const value = line.slice(at + 1).replace(/^ /, "");
    if (line.startsWith("event:")) found.kind = value;
    else if (line.startsWith("data:")) found.data += value;
    else if (line.startsWith("id:")) found.id = value;
  }
  return found.data ? { ...found, data: JSON.parse(found.data) } : null;
}
