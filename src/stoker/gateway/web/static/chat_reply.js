// The reply of POST /v1/chat/completions, streamed or whole, added up to one answer.
import { refusal, Refused } from "./api.js";

/** What a reply's head says of how it was answered. */
export function headOf(reply) {
  const header = (name) => reply.headers.get(name) ?? "";
  return {
    id: header("x-request-id"), serve: header("x-stoker-serve"), tier: header("x-stoker-tier"),
    fallback: header("x-stoker-fallback"), orchestrator: header("x-stoker-orchestrator"),
  };
}

/** Calls `heard(piece)` for each piece: the JSON of a chunk. Throws Refused. */
export async function readReply(reply, heard) {
  if (!reply.ok) throw await refusal(reply);
  if (!(reply.headers.get("content-type") ?? "").includes("event-stream")) return heard(await reply.json());
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return undefined;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : "";
      if (data && data !== "[DONE]") heard(JSON.parse(data));
    }
  }
}

/** `answer` with one more piece; throws Refused for an error in the stream. Pure. */
export function extended(answer, piece, at) {
  if (piece.error) throw new Refused(200, piece.error.code ?? "", piece.error.message ?? String(piece.error));
  const choice = piece.choices?.[0];
  const said = choice?.delta ?? choice?.message ?? {};
  const thought = said.reasoning_content ?? said.reasoning ?? "";
  const text = said.content ?? "";
  const hasContent = Boolean(text || thought || said.tool_calls?.length);
  return {
    ...answer,
    text: answer.text + text,
    thinking: answer.thinking + thought,
    calls: said.tool_calls?.length ? withCalls(answer.calls, said.tool_calls) : answer.calls,
    usage: piece.usage ?? answer.usage,
    finish: choice?.finish_reason ?? answer.finish,
    firstAt: answer.firstAt ?? (hasContent ? at : null),
  };
}

function withCalls(calls, pieces) {
  const found = [...calls];
  pieces.forEach((piece, place) => {
    const at = piece.index ?? place;
    const known = found[at] ?? { id: "", name: "", arguments: "", result: "" };
    found[at] = {
      ...known,
      id: piece.id || known.id,
      name: known.name || piece.function?.name || "",
      arguments: known.arguments + (piece.function?.arguments ?? ""),
    };
  });
  return found.filter(Boolean);
}
