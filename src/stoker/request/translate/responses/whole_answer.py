"""What is whole of a Responses answer: its items, its usage, why it ended. Nothing is raised, whatever stands there."""

from __future__ import annotations

from typing import Any

from stoker.domain.answer import AnswerBlock, StopReason, Tokens
from stoker.domain.prompt import Refusal, Text, Thinking, ToolCall
from stoker.request.codec.endings import stop_of
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode
from stoker.request.translate.neutral.protocols import number, part

BETWEEN = "\n\n"
"""Between the parts of a summary."""


def said_of(item: dict[str, Any], losses: Losses) -> list[AnswerBlock]:
    """The blocks of one whole item. Empty text is none."""
    kind = item.get("type")
    if kind == "message":
        found = (_part(part, losses) for part in list_of(item.get("content")))
        return [said for said in found if said is not None]
    if kind == "reasoning":
        thoughts = _thoughts(item.get("content")) or _thoughts(item.get("summary"))
        signature = text_of(item.get("encrypted_content"))
        return [Thinking(BETWEEN.join(thoughts), signature)] if thoughts or signature else []
    id, name = text_of(item.get("call_id")) or text_of(item.get("id")), text_of(item.get("name"))
    if kind == "custom_tool_call":
        return [ToolCall(id, name, text_of(item.get("input")), custom=True)]
    if kind == "function_call":
        return [ToolCall(id, name, _arguments(item.get("arguments")))]
    losses.add("answer_image" if kind == "image_generation_call" else "foreign_block")
    return []


def _part(part: dict[str, Any], losses: Losses) -> AnswerBlock | None:
    if part.get("annotations"):
        losses.add("annotations")
    if refusal := text_of(part.get("refusal")):
        return Refusal(refusal)
    text = text_of(part.get("text"))
    return Text(text) if text else None


def _thoughts(parts: Any) -> list[str]:
    return [text for part in list_of(parts) if (text := text_of(part.get("text")))]


def _arguments(value: Any) -> str:
    """Some engines give an object instead of its text."""
    return encode(value).decode() if isinstance(value, dict) else text_of(value)


def ending_of(response: dict[str, Any], is_cut: bool, has_calls: bool) -> StopReason:
    if not is_cut:
        return StopReason.CALLS if has_calls else StopReason.END
    reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
    stop = stop_of(reason)
    return stop if stop in (StopReason.FILTERED, StopReason.CONTEXT) else StopReason.LENGTH  # never a complete one


def tokens_of(response: dict[str, Any]) -> Tokens | None:
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    return Tokens(
        input=number(usage.get("input_tokens")),
        cached=part(usage, "input_tokens_details", "cached_tokens"),
        written=part(usage, "input_tokens_details", "cache_write_tokens"),
        output=number(usage.get("output_tokens")),
        reasoning=part(usage, "output_tokens_details", "reasoning_tokens"),
    )


def id_of(item: dict[str, Any]) -> str:
    return text_of(item.get("id")) or text_of(item.get("call_id"))


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
