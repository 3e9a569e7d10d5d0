"""Faults of the wire: counts, frames, stop strings, ids, requests that mix or go on."""

from __future__ import annotations

from typing import Any

from stoker_lab.testing.faults.fault import Document, Frames, ServingFault, delta, finish


def _stop_dropped(path: str, document: Document) -> None:
    document.pop("stop", None)


def _no_usage(asked: Document, reply: Document) -> None:
    reply.pop("usage", None)


def _no_usage_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if frame is not None:
            frame.pop("usage", None)
    return frames


def _more_in_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if frame and isinstance(frame.get("usage"), dict):
            frame["usage"]["completion_tokens"] += 7
            frame["usage"]["total_tokens"] += 7
    return frames


def _wrong_sum(asked: Document, reply: Document) -> None:
    if isinstance(reply.get("usage"), dict):
        reply["usage"]["total_tokens"] += 3


def _cached(asked: Document, reply: Document) -> None:
    usage = reply.get("usage")
    if isinstance(usage, dict):
        usage["prompt_tokens_details"] = {"cached_tokens": usage["prompt_tokens"] + 5}


def _unasked(asked: Document, frames: Frames) -> Frames:
    if not (asked.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        frames.insert(len(frames) - 1, {"choices": [], "usage": usage, "object": "chat.completion.chunk"})
    return frames


def _length(asked: Document, reply: Document) -> None:
    if reply["choices"][0].get("finish_reason") == "stop":
        reply["choices"][0]["finish_reason"] = "length"


def _length_stream(asked: Document, frames: Frames) -> Frames:
    if finish(frames).get("finish_reason") == "stop":
        finish(frames)["finish_reason"] = "length"
    return frames


def _no_done(asked: Document, frames: Frames) -> Frames:
    return [frame for frame in frames if frame is not None]


def _finish_twice(asked: Document, frames: Frames) -> Frames:
    end = finish(frames)
    return [copy for frame in frames
            for copy in ([frame, frame] if frame and end in (frame.get("choices") or ()) else [frame])]  # fmt: skip


def _roles_only(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        delta(frame).pop("content", None)
    return frames


def _end_lost(asked: Document, frames: Frames) -> Frames:
    carrying = [frame for frame in frames if delta(frame).get("content")]
    for frame in carrying[-3:]:
        delta(frame)["content"] = ""
    return frames


def _other_id(path: str, page: Any) -> Any:
    if path.endswith("/v1/models") and isinstance(page, dict):
        for entry in page.get("data") or ():
            entry["id"] = "another-model"
    return page


def _smaller(path: str, page: Any) -> Any:
    if path.endswith("/props") and isinstance(page, dict):
        page["default_generation_settings"]["n_ctx"] *= 2
    return page


_USAGE = frozenset(("usage",))
_FRAMES = frozenset(("frames",))
WIRE = (
    ServingFault("stop-ignored", "stop strings are dropped", frozenset(("stop",)), request=_stop_dropped),
    ServingFault("usage-missing", "no usage", _USAGE | {"prompt-tokens"}, whole=_no_usage, stream=_no_usage_stream),
    ServingFault("usage-stream-wrong", "streams count more tokens than they carry", _USAGE, stream=_more_in_stream),
    ServingFault("usage-sum-wrong", "total is not prompt plus completion", _USAGE, whole=_wrong_sum),
    ServingFault("usage-cached-wrong", "more tokens cached than the prompt has", _USAGE, whole=_cached),
    ServingFault("usage-unasked", "a usage chunk that nobody asked for", _FRAMES, stream=_unasked),
    ServingFault("finish-wrong", "finish reason length instead of stop", frozenset(("eos",)), whole=_length,
          stream=_length_stream),
    ServingFault("no-done", "streams end without [DONE]", _FRAMES, stream=_no_done),
    ServingFault("finish-twice", "two finish reasons in a stream", _FRAMES, stream=_finish_twice),
    ServingFault("role-only", "streams carry no text", _FRAMES, stream=_roles_only),
    ServingFault("end-lost", "the last pieces of a stream are lost", _FRAMES | {"stop"}, stream=_end_lost),
    ServingFault("wrong-id", "another model id is listed", frozenset(("model",)), page=_other_id),
    ServingFault("context-overstated", "twice the real context is advertised", frozenset(("over-context", "needle")),
          page=_smaller, needs_real_engine=True),
    ServingFault("cancel-lost", "the engine goes on when its client leaves", frozenset(("cancel",)),
                 keeps_generating=True,
          needs_real_engine=True),
    ServingFault("bleed", "concurrent requests get each other's text", frozenset(("bleed",)), mixes=True),
)  # fmt: skip
