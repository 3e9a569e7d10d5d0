"""Faults of tools and forms."""

from __future__ import annotations

import json
from typing import Any

from stoker_lab.testing.faults.fault import Document, Frames, ServingFault, delta, finish, message


def _markup(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def _as_text(asked: Document, reply: Document) -> None:
    found = message(reply)
    calls = found.pop("tool_calls", None) or ()
    if calls:
        found["content"] = "\n".join(_markup(c["function"]["name"], c["function"]["arguments"]) for c in calls)
        reply["choices"][0]["finish_reason"] = "stop"


def _as_text_stream(asked: Document, frames: Frames) -> Frames:
    name, arguments, first = "", "", None
    for frame in frames:
        for call in delta(frame).pop("tool_calls", None) or ():
            first = first or frame
            name += call.get("function", {}).get("name") or ""
            arguments += call.get("function", {}).get("arguments") or ""
    if first is not None:
        delta(first)["content"] = _markup(name, arguments)
        finish(frames)["finish_reason"] = "stop"
    return frames


def _each_call(change: Any) -> tuple[Any, Any]:
    """(whole, stream) that change each call, or each piece of one."""

    def whole(asked: Document, reply: Document) -> None:
        for call in message(reply).get("tool_calls") or ():
            change(call, True)

    def stream(asked: Document, frames: Frames) -> Frames:
        for frame in frames:
            for call in delta(frame).get("tool_calls") or ():
                change(call, False)
        return frames

    return whole, stream


def _drop_id(call: Document, whole: bool) -> None:
    if "id" in call:
        call["id"] = ""


def _same_id(call: Document, whole: bool) -> None:
    if call.get("id"):
        call["id"] = "call_0"


def _as_object(asked: Document, reply: Document) -> None:
    for call in message(reply).get("tool_calls") or ():
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])


def _as_object_stream(asked: Document, frames: Frames) -> Frames:
    texts: dict[int, list[str]] = {}
    for frame in frames:
        for call in delta(frame).get("tool_calls") or ():
            texts.setdefault(call.get("index", 0), []).append(call.get("function", {}).get("arguments") or "")
    for frame in frames:
        calls = [call for call in delta(frame).pop("tool_calls", None) or () if call.get("id")]
        for call in calls:
            call["function"]["arguments"] = json.loads("".join(texts[call.get("index", 0)]) or "{}")
        if calls:
            delta(frame)["tool_calls"] = calls
    return frames


def _null(asked: Document, reply: Document) -> None:
    for call in message(reply).get("tool_calls") or ():
        call["function"]["arguments"] = None


def _one_index(call: Document, whole: bool) -> None:
    if "index" in call:
        call["index"] = 0


def _no_index(call: Document, whole: bool) -> None:
    call.pop("index", None)


def _from_one(call: Document, whole: bool) -> None:
    if "index" in call:
        call["index"] += 1


def _new_ids(asked: Document, frames: Frames) -> Frames:
    pieces = [call for frame in _thin_calls(frames) for call in delta(frame).get("tool_calls") or ()]
    for at, call in enumerate(pieces):
        call["id"] = f"call_piece{at}"
    return frames


def _thin_calls(frames: Frames) -> Frames:
    """A call that comes in one piece is cut in two, in place."""
    for at in range(len(frames) - 1, -1, -1):
        frame = frames[at]
        calls: list[Document] = delta(frame).get("tool_calls") or []
        if frame is not None and len(calls) == 1 and len(calls[0].get("function", {}).get("arguments") or "") > 6:
            rest = json.loads(json.dumps(frame))
            own, other = calls[0]["function"], delta(rest)["tool_calls"][0]
            other["function"] = {"arguments": own["arguments"][4:]}
            own["arguments"] = own["arguments"][:4]
            frames.insert(at + 1, rest)
    return frames


def _twice(asked: Document, reply: Document) -> None:
    for call in message(reply).get("tool_calls") or ():
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"])


def _twice_stream(asked: Document, frames: Frames) -> Frames:
    pieces = [call for frame in frames for call in delta(frame).get("tool_calls") or ()
              if call.get("function", {}).get("arguments")]  # fmt: skip
    text = json.dumps("".join(call["function"]["arguments"] for call in pieces))
    for at, call in enumerate(pieces):
        call["function"]["arguments"] = "" if at else text
    return frames


def _fragment_lost(asked: Document, frames: Frames) -> Frames:
    pieces = [call for frame in frames for call in delta(frame).get("tool_calls") or ()
              if call.get("function", {}).get("arguments")]  # fmt: skip
    if pieces:
        middle = pieces[len(pieces) // 2]["function"]
        middle["arguments"] = "" if len(pieces) > 1 else middle["arguments"][:-2]
    return frames


def _only_first(asked: Document, reply: Document) -> None:
    found = message(reply)
    if found.get("tool_calls"):
        found["tool_calls"] = found["tool_calls"][:1]


def _only_first_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if delta(frame).get("tool_calls"):
            delta(frame)["tool_calls"] = [call for call in delta(frame)["tool_calls"] if not call.get("index")]
    return frames


def _not_forced(path: str, document: Document) -> None:
    choice = document.get("tool_choice")
    if choice == "required" or isinstance(choice, dict):
        document.pop("tools", None)
        document.pop("tool_choice", None)


def _none_ignored(path: str, document: Document) -> None:
    if document.get("tool_choice") == "none":
        document.pop("tool_choice")


def _undescribed(path: str, document: Document) -> None:
    for tool in document.get("tools") or ():
        tool.get("function", {}).pop("description", None)


def _constant_id(call: Document, whole: bool) -> None:
    if call.get("id"):
        call["id"] = f"call_{call.get('index', 0)}"


def _invented(asked: Document) -> Document:
    function = asked["tools"][0]["function"]
    given = dict.fromkeys(function.get("parameters", {}).get("required", ()), "x")
    return {"id": "call_invented", "type": "function",
            "function": {"name": function["name"], "arguments": json.dumps(given)}}  # fmt: skip


def _always_calls(asked: Document, reply: Document) -> None:
    if asked.get("tools") and not message(reply).get("tool_calls"):
        message(reply).update(content=None, tool_calls=[_invented(asked)])
        reply["choices"][0]["finish_reason"] = "tool_calls"


def _always_calls_stream(asked: Document, frames: Frames) -> Frames:
    carrying = [frame for frame in frames if delta(frame).get("content")]
    if asked.get("tools") and carrying:
        for frame in carrying:
            delta(frame).pop("content")
        delta(carrying[0])["tool_calls"] = [{"index": 0, **_invented(asked)}]
        finish(frames)["finish_reason"] = "tool_calls"
    return frames


def _tools_dropped(path: str, document: Document) -> None:
    for name in ("tools", "tool_choice", "parallel_tool_calls"):
        document.pop(name, None)


def _form_dropped(path: str, document: Document) -> None:
    document.pop("response_format", None)


def _nothing(call: Document, whole: bool) -> None:
    text = call.get("function", {}).get("arguments")
    if isinstance(text, str) and not text.strip().strip("{}").strip():
        call["function"]["arguments"] = ""


def _empty_arguments(asked: Document, frames: Frames) -> Frames:
    pieces = [call["function"] for frame in frames for call in delta(frame).get("tool_calls") or ()
              if call.get("function", {}).get("arguments") is not None]  # fmt: skip
    if not "".join(piece["arguments"] for piece in pieces).strip().strip("{}").strip():
        for piece in pieces:
            piece["arguments"] = ""
    return frames


def _stop_reason(asked: Document, reply: Document) -> None:
    if message(reply).get("tool_calls"):
        reply["choices"][0]["finish_reason"] = "stop"


def _stop_reason_stream(asked: Document, frames: Frames) -> Frames:
    if finish(frames).get("finish_reason") == "tool_calls":
        finish(frames)["finish_reason"] = "stop"
    return frames


_CALLS = frozenset(("tool-single", "tool-batch"))
_no_id, _one_id = _each_call(_drop_id), _each_call(_same_id)
_bare = _each_call(_nothing)
_fixed = _each_call(_constant_id)
_shared, _unnumbered, _shifted = _each_call(_one_index), _each_call(_no_index), _each_call(_from_one)
CALLS = (
    ServingFault("parser-off", "calls come as text", _CALLS, whole=_as_text, stream=_as_text_stream),
    ServingFault("tools-dropped", "tools never reach the model", _CALLS | {"prompt-tokens"}, request=_tools_dropped),
    ServingFault("fragment-lost", "a piece of streamed arguments is lost", _CALLS, stream=_fragment_lost),
    ServingFault("double-encoded", "arguments are JSON in JSON", _CALLS, whole=_twice, stream=_twice_stream),
    ServingFault("arguments-object", "arguments are an object, not text", _CALLS, whole=_as_object,
                 stream=_as_object_stream),
    ServingFault("arguments-object-whole", "arguments are an object where an answer is not streamed", _CALLS,
          whole=_as_object),
    ServingFault("arguments-null", "arguments are null where an answer is not streamed", _CALLS, whole=_null),
    ServingFault("shared-index", "streamed parallel calls share index 0", frozenset(("tool-parallel",)),
                 stream=_shared[1],
          needed_abilities=("parallel",)),
    ServingFault("no-index", "streamed calls have no index", _CALLS, stream=_unnumbered[1]),
    ServingFault("index-from-one", "the indexes of streamed calls begin with 1", _CALLS, stream=_shifted[1]),
    ServingFault("id-per-piece", "each piece of a streamed call has a new id", _CALLS, stream=_new_ids),
    ServingFault("empty-id", "calls have no id", _CALLS, whole=_no_id[0], stream=_no_id[1]),
    ServingFault("same-id", "parallel calls have the same id", frozenset(("tool-parallel",)), whole=_one_id[0],
          stream=_one_id[1], needed_abilities=("parallel",)),
    ServingFault("parallel-lost", "only the first call of several comes", frozenset(("tool-parallel",)),
                 whole=_only_first,
          stream=_only_first_stream, needed_abilities=("parallel",)),
    ServingFault("forced-ignored", "tool_choice is not heeded", frozenset(("tool-required", "tool-named")),
          request=_not_forced),
    ServingFault("always-calls", "a tool is called where none is needed", frozenset(("tool-abstain",)),
                 whole=_always_calls,
          stream=_always_calls_stream),
    ServingFault("none-ignored", "tool_choice none is dropped", frozenset(("tool-none",)), request=_none_ignored),
    ServingFault("descriptions-dropped", "descriptions of tools never reach the model",
                 frozenset(("tool-descriptions",)), request=_undescribed, needed_abilities=("descriptions",)),
    ServingFault("constant-call-ids", "the calls of all answers have the same ids", frozenset(("tool-batch",)),
                 whole=_fixed[0], stream=_fixed[1]),
    ServingFault("bare-empty", "a tool without parameters gets empty arguments", frozenset(("tool-bare",)),
                 whole=_bare[0],
          stream=_empty_arguments),
    ServingFault("finish-after-calls", "calls end with finish reason stop", _CALLS, whole=_stop_reason,
          stream=_stop_reason_stream),
    ServingFault("schema-ignored", "response_format is dropped", frozenset(("json-schema",)), request=_form_dropped),
)  # fmt: skip
