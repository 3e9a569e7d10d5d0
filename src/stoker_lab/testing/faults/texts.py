"""Faults of prompts and texts: templates, truncation, leaks, corruption."""

from __future__ import annotations

import random
from typing import Any

from stoker_lab.testing.faults.fault import Document, Frames, ServingFault, both, delta, message

LONG = 900
"""A text of at least so many characters is cut."""
_SYSTEM = 200
"""Characters that are left of a system prompt."""


def _first_text(document: Document, before: str) -> None:
    turns = document.get("messages") or []
    if turns and isinstance(turns[0].get("content"), str):
        turns[0]["content"] = before + turns[0]["content"]


def _double_bos(path: str, document: Document) -> None:
    _first_text(document, "<s>")


def _double_bos_page(path: str, page: Any) -> Any:
    if path.endswith("/apply-template") and isinstance(page, dict) and "prompt" in page:
        return page | {"prompt": "<s>" + page["prompt"]}
    return page


def _foreign(turns: list[Document]) -> str:
    parts = [f"<|start_header_id|>{turn.get('role')}<|end_header_id|>\n\n{turn.get('content')}<|eot_id|>"
             for turn in turns]  # fmt: skip
    return "".join(parts) + "<|start_header_id|>assistant<|end_header_id|>\n\n"


def _wrong_template(path: str, document: Document) -> None:
    document["messages"] = [{"role": "user", "content": _foreign(document.get("messages") or [])}]
    document.pop("tools", None)


def _system_dropped(path: str, document: Document) -> None:
    document["messages"] = [t for t in document.get("messages") or [] if t.get("role") not in ("system", "developer")]


def _system_cut(path: str, document: Document) -> None:
    for turn in document.get("messages") or []:
        if turn.get("role") in ("system", "developer") and isinstance(turn.get("content"), str):
            turn["content"] = turn["content"][:_SYSTEM]


def _answers_dropped(path: str, document: Document) -> None:
    """Turns of the assistant that hold text alone: results would have no calls otherwise."""
    document["messages"] = [turn for turn in document.get("messages") or []
                            if turn.get("role") != "assistant" or turn.get("tool_calls")]  # fmt: skip


def _results_dropped(path: str, document: Document) -> None:
    for turn in document.get("messages") or []:
        if turn.get("role") == "tool":
            turn["content"] = ""


def _roles_merged(path: str, document: Document) -> None:
    turns = document.get("messages") or []
    if len(turns) > 1 and not any(turn.get("tool_calls") for turn in turns):
        document["messages"] = [{"role": "user", "content": "\n".join(str(turn.get("content")) for turn in turns)}]


def _cut_short(path: str, document: Document) -> None:
    for turn in document.get("messages") or []:
        if isinstance(turn.get("content"), str) and len(turn["content"]) > LONG:
            turn["content"] = turn["content"][-LONG:]


def _middle_lost(path: str, document: Document) -> None:
    """Like a broken sliding window: the middle is replaced by other text of the same length."""
    for turn in document.get("messages") or []:
        text = turn.get("content")
        if isinstance(text, str) and len(text) > LONG:
            third = len(text) // 4
            turn["content"] = text[:third] + "The dog sleeps. " * (third // 8) + text[-third:]


def _hot(path: str, document: Document) -> None:
    document |= {"temperature": 4.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": random.randrange(2**31)}


def _endless(path: str, document: Document) -> None:
    document["ignore_eos"] = True


def _pictures_dropped(path: str, document: Document) -> None:
    for turn in document.get("messages") or []:
        if isinstance(turn.get("content"), list) and any("image_url" in part for part in turn["content"]):
            texts = [part["text"] for part in turn["content"] if part.get("type") == "text"]
            turn["content"] = "\n".join(texts)


def _long(text: str) -> bool:
    return len(text) >= 20


def _insert(text: str, what: str) -> str:
    return text[: len(text) // 2] + what + text[len(text) // 2 :]


_leak = both(lambda asked, text: text + "<|im_end|>")
_think = both(lambda asked, text: "<think>Well, what is asked here?</think>" + text)
_replaced = both(lambda asked, text: _insert(text, "��") if _long(text) else text)
_thai = both(lambda asked, text: _insert(text, " ครับ 你好 ") if _long(text) else text)
_looped = both(lambda asked, text: " ".join([" ".join(text.split()[:4])] * 20) if _long(text) else text)
_control = both(lambda asked, text: _insert(text, "\x00\x07\x1b") if _long(text) else text)
_drifted = both(lambda asked, text: text.replace("e", "a").replace("o", "u"))
_empty = both(lambda asked, text: "")


def _stopped(asked: Document, text: str) -> str:
    stops = asked.get("stop")
    return text + stops[0] if isinstance(stops, list) and stops else text


def _half_stopped(asked: Document, text: str) -> str:
    stops = asked.get("stop")
    return text + stops[0].strip()[:-1] if isinstance(stops, list) and stops else text


_left_in = both(_stopped)
_part_left = both(_half_stopped)


def _all_thinking(asked: Document, reply: Document) -> None:
    """A reasoning parser that never sees the end of thinking."""
    found = message(reply)
    found["reasoning_content"], found["content"] = found.get("content"), ""


def _all_thinking_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if "content" in delta(frame):
            delta(frame)["reasoning_content"] = delta(frame).pop("content")
    return frames


def _shown_thoughts(asked: Document, reply: Document) -> None:
    found = message(reply)
    if thought := found.pop("reasoning_content", None):
        found["content"] = f"{thought}\n\n{found.get('content') or ''}"


def _shown_thoughts_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if "reasoning_content" in delta(frame):
            delta(frame)["content"] = delta(frame).pop("reasoning_content")
    return frames


def _always_thinking(path: str, document: Document) -> None:
    document.pop("chat_template_kwargs", None)


def _of(*checks: str) -> frozenset[str]:
    return frozenset(checks)


TEXTS = (
    ServingFault("double-bos", "the beginning of sequence stands twice", _of("template"), request=_double_bos,
          page=_double_bos_page, needs_real_engine=True),
    ServingFault("wrong-template", "the prompt is written as another model learned it", _of("template",
                 "prompt-tokens"),
          request=_wrong_template),
    ServingFault("roles-merged", "all turns become one", _of("template"), request=_roles_merged,
                 needs_real_engine=True),
    ServingFault("system-dropped", "system turns are dropped", _of("template", "prompt-tokens"),
                 request=_system_dropped),
    ServingFault("system-cut", "system prompts are cut short", _of("whole-prompt"), request=_system_cut),
    ServingFault("answers-dropped", "turns of the assistant are dropped", _of("whole-prompt", "template"),
                 request=_answers_dropped),
    ServingFault("results-dropped", "results of tools are dropped", _of("tool-round-trip", "prompt-tokens"),
          request=_results_dropped),
    ServingFault("silent-truncation", "long prompts lose their beginning", _of("needle"), request=_cut_short),
    ServingFault("middle-lost", "the middle of long prompts is lost, at full length", _of("needle"),
                 request=_middle_lost),
    ServingFault("over-context-accepted", "prompts beyond the context are cut and answered", _of("over-context"),
          shortens=True),
    ServingFault("over-context-500", "prompts beyond the context end with 500", _of("over-context"),
          status=lambda status: 500 if status == 400 else status),
    ServingFault("nondeterminism", "temperature 0 is ignored", _of("determinism"), request=_hot,
                 needs_real_engine=True),
    ServingFault("eos-missing", "answers do not end", _of("eos"), request=_endless, needs_real_engine=True),
    ServingFault("special-token-leaked", "the end token stands in the text", _of("special-tokens"), whole=_leak[0],
          stream=_leak[1]),
    ServingFault("thinking-tags", "thoughts stand in the text, in tags", _of("thinking"), whole=_think[0],
                 stream=_think[1]),
    ServingFault("thinking-swallows", "the text is taken for thoughts", _of("corruption", "thinking"),
                 whole=_all_thinking,
          stream=_all_thinking_stream),
    ServingFault("thinking-shown", "thoughts stand in the text, without tags", _of("thinking"), whole=_shown_thoughts,
          stream=_shown_thoughts_stream, needed_abilities=("thinking",)),
    ServingFault("thinking-always", "it thinks though it was asked not to", _of("thinking"), request=_always_thinking,
          needed_abilities=("thinking",), needs_real_engine=True),
    ServingFault("replacement-characters", "U+FFFD in texts", _of("corruption"), whole=_replaced[0],
                 stream=_replaced[1]),
    ServingFault("other-script", "Thai and Chinese letters in English texts", _of("corruption"), whole=_thai[0],
          stream=_thai[1]),
    ServingFault("control-characters", "control characters in texts", _of("corruption"), whole=_control[0],
          stream=_control[1]),
    ServingFault("loop", "the same words again and again", _of("corruption"), whole=_looped[0], stream=_looped[1]),
    ServingFault("letters-drift", "some letters come out as others", _of("echo"), whole=_drifted[0],
                 stream=_drifted[1]),
    ServingFault("empty-answers", "answers have no text", _of("corruption"), whole=_empty[0], stream=_empty[1]),
    ServingFault("stop-left-in", "the stop string stays in the text", _of("stop"), whole=_left_in[0],
                 stream=_left_in[1]),
    ServingFault("stop-part-left", "the beginning of the stop string stays in the text", _of("stop"),
                 whole=_part_left[0],
          stream=_part_left[1]),
    ServingFault("image-dropped", "pictures are dropped", _of("image"), request=_pictures_dropped,
                 needed_abilities=("vision",)),
)  # fmt: skip
