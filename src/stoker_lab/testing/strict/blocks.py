"""What Anthropic's API refuses inside messages: blocks, their fields, their texts and images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker_lab.testing.strict import fields, images
from stoker_lab.testing.strict.rules import StrictRequest, blocks_of

EXTRA = "Extra inputs are not permitted"
MISSING = "Field required"


def form(asked: StrictRequest) -> Iterator[str]:
    """After this the messages and the tools are lists of objects, and each block has a type."""
    messages = asked.document["messages"]
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    for at, one in enumerate(messages):
        if not isinstance(one, dict) or one.get("role") not in fields.ROLES:
            yield f"messages.{at}.role: Input should be {', '.join(fields.ROLES)}"
        else:
            yield from (f"messages.{at}.{name}: {EXTRA}" for name in one if name not in ("role", "content"))
            yield from _form_of(f"messages.{at}.content", one.get("content"))
    yield from _form_of("system", asked.document.get("system", ""))
    tools = asked.document.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(one, dict) for one in tools):
        yield "tools: Input should be a valid list"


def blocks(asked: StrictRequest) -> Iterator[str]:
    has_beta = asked.request.header("anthropic-beta") is not None
    for turn in asked.turns:
        for at, block in enumerate(turn.blocks):
            place, kind = f"messages.{turn.at}.content.{at}", block["type"]
            if has_beta and kind in fields.BETA_BLOCKS:
                continue
            yield from _block(place, block, fields.IN_SYSTEM if turn.role == "system" else tuple(fields.BLOCKS))
            if turn.role != fields.ONLY_IN.get(kind, turn.role):
                yield f"messages.{turn.at}: `{kind}` blocks can only be in `{fields.ONLY_IN[kind]}` messages"
            if kind == "tool_use" and not isinstance(block["input"], dict):
                yield f"{place}.tool_use.input: Input should be a valid dictionary"
            if kind == "tool_result":
                content = block.get("content", "")
                yield from _form_of(f"{place}.tool_result.content", content)
                for number, part in enumerate(blocks_of(content)):
                    yield from _block(f"{place}.tool_result.content.{number}", part, fields.IN_RESULTS)
    for at, block in enumerate(blocks_of(asked.document.get("system", []))):
        yield from _block(f"system.{at}", block, fields.IN_SYSTEM)


def texts(asked: StrictRequest) -> Iterator[str]:
    for turn in asked.turns:
        if asked.document["messages"][turn.at]["content"] in ("", []):
            if turn is not asked.turns[-1] or turn.role != "assistant":
                yield f"messages.{turn.at}: all messages must have non-empty content except for the final assistant's"
            continue
        yield from _texts("messages", turn.blocks)
        for result in turn.of("tool_result"):
            if isinstance(result.get("content"), list):
                yield from _texts("messages", result["content"])
    if isinstance(asked.document.get("system"), list):
        yield from _texts("system", asked.document["system"])


def images_are_what_they_say(asked: StrictRequest) -> Iterator[str]:
    for turn in asked.turns:
        for at, block in enumerate(turn.blocks):
            place = f"messages.{turn.at}.content.{at}"
            inner = block.get("content") if block["type"] == "tool_result" else None
            for one in (block, *(inner if isinstance(inner, list) else ())):
                if one["type"] == "image":
                    yield from _image(place, one["source"])


def unknown(place: str, kind: object) -> str:
    return f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags"


def known(place: str, given: dict[str, Any], of: tuple[str, str]) -> Iterator[str]:
    needed, allowed = (names.split() for names in of)
    yield from (f"{place}.{name}: {MISSING}" for name in needed if name not in given)
    yield from (f"{place}.{name}: {EXTRA}" for name in given if name not in (*needed, *allowed, "type"))


def _form_of(place: str, content: object) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield f"{place}: Input should be a valid list"
    elif not all(isinstance(one, dict) and isinstance(one.get("type"), str) for one in content):
        yield f"{place}: each block is an object with a `type`"


def _block(place: str, block: dict[str, Any], allowed: tuple[str, ...]) -> Iterator[str]:
    kind = block["type"]
    if kind not in allowed:
        yield unknown(place, kind)
    elif kind in fields.BLOCKS:
        yield from known(f"{place}.{kind}", block, fields.BLOCKS[kind])


def _texts(place: str, blocks: list[dict[str, Any]]) -> Iterator[str]:
    for block in blocks:
        if block["type"] == "text" and not str(block["text"]):
            yield f"{place}: text content blocks must be non-empty"
        elif block["type"] == "text" and not str(block["text"]).strip():
            yield f"{place}: text content blocks must contain non-whitespace text"


def _image(place: str, source: object) -> Iterator[str]:
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(source, dict) or kind not in ("base64", "url", "file"):
        yield unknown(f"{place}.image.source", kind)
    elif kind == "base64":
        said, real = source.get("media_type"), images.sniffed(source.get("data"))
        if said not in images.KNOWN:
            yield f"{place}.image.source.base64.media_type: Input should be one of {', '.join(images.KNOWN)}"
        elif real is None:
            yield f"{place}.image.source.base64.data: Could not process image"
        elif real != said:
            yield (
                f"{place}.image.source.base64: The image was specified using the {said} media type, but the image"
                f" appears to be a {real} image"
            )
