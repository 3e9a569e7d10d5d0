"""Abilities that a tiny model lacks, imitated by the proxy, so that their loss can be measured, too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from stoker_lab.preflight import pictures
from stoker_lab.preflight.checks.image import PICTURES
from stoker_lab.testing.faults.fault import Document, Frames, PlayedAbility, message

_BY_URL = {pictures.url(picture.drawn): picture.wanted for picture in PICTURES}
_BY_QUESTION = {picture.asked for picture in PICTURES}
_TWO = re.compile(r"weather in (\w+) and in (\w+)")
THOUGHT = "They want an answer. I know one."


def _last(document: Document) -> Any:
    return (document.get("messages") or [{}])[-1].get("content")


def _sees(document: Document) -> Document | None:
    """Answers 1. a picture: with what it shows  2. a question about a picture that is missing."""
    found = _last(document)
    if isinstance(found, list):
        for part in found:
            if part.get("type") == "image_url" and part["image_url"]["url"] in _BY_URL:
                return {"role": "assistant", "content": f"It is {_BY_URL[part['image_url']['url']]}."}  # 1
    if isinstance(found, str) and found in _BY_QUESTION:
        return {"role": "assistant", "content": "There is no picture."}  # 2
    return None


def _blind(document: Document) -> Document | None:
    """Questions about pictures that it has never seen: a tiny model would say something about itself."""
    found = _last(document)
    texts = [part.get("text") for part in found if part.get("type") == "text"] if isinstance(found, list) else [found]
    return {"role": "assistant", "content": "There is no picture."} if _BY_QUESTION & set(texts) else None


def _vision(path: str, page: Any) -> Any:
    if path.endswith("/props") and isinstance(page, dict):
        page["modalities"] = {"vision": True, "audio": False}
    return page


def _calls_twice(document: Document) -> Document | None:
    found = _TWO.search(str(_last(document)))
    if found is None or not document.get("tools"):
        return None
    name = document["tools"][0]["function"]["name"]
    calls = [
        {"id": f"call_{at}{city.lower()}", "type": "function",
         "function": {"name": name, "arguments": json.dumps({"city": city})}}
        for at, city in enumerate(found.groups())
    ]  # fmt: skip
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _describes(path: str, document: Document) -> None:
    """As a template does that renders what tools are for."""
    found = [f"{tool['function']['name']}: {tool['function']['description']}" for tool in document.get("tools") or ()
             if tool.get("function", {}).get("description")]  # fmt: skip
    if not found:
        return
    turns = document["messages"]
    if turns and turns[0].get("role") == "system":
        found.insert(0, turns.pop(0)["content"])
    turns.insert(0, {"role": "system", "content": "\n".join(found)})


def _is_on(document: Document) -> bool:
    return bool((document.get("chat_template_kwargs") or {}).get("enable_thinking", True))


def _thinks(asked: Document, reply: Document) -> None:
    if not _is_on(asked):
        return
    message(reply)["reasoning_content"] = THOUGHT
    if asked.get("max_tokens", 99) <= 16:
        message(reply)["content"] = ""
        reply["choices"][0]["finish_reason"] = "length"


def _thinks_stream(asked: Document, frames: Frames) -> Frames:
    if not _is_on(asked):
        return frames
    thought = {"object": "chat.completion.chunk",
               "choices": [{"index": 0, "delta": {"reasoning_content": THOUGHT}, "finish_reason": None}]}  # fmt: skip
    if asked.get("max_tokens", 99) <= 16:
        end = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
        return [thought, end, *[frame for frame in frames if frame is None or not frame.get("choices")]]
    return [thought, *frames]


def _switch(path: str, page: Any) -> Any:
    if path.endswith("/props") and isinstance(page, dict):
        page["chat_template"] = "{# enable_thinking #}" + page.get("chat_template", "")
    return page


GRAFTS: Mapping[str, PlayedAbility] = {
    graft.name: graft
    for graft in (
        PlayedAbility("vision", answer=_sees, page=_vision),
        PlayedAbility("blind", answer=_blind),
        PlayedAbility("parallel", answer=_calls_twice),
        PlayedAbility("descriptions", request=_describes),
        PlayedAbility("thinking", whole=_thinks, stream=_thinks_stream, page=_switch),
    )
}
