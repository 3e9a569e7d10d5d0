"""A Prompt as a Messages request."""

from __future__ import annotations

from typing import Any

from stoker.domain.prompt import (
    AnswerFormat,
    Audio,
    Block,
    Choice,
    Document,
    Image,
    Prompt,
    Reasoning,
    Redacted,
    Refusal,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from stoker.request.translate.neutral.calls import INPUT, spelt_id, typed
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw
from stoker.request.translate.neutral.model_families import nearest_effort
from stoker.request.translate.neutral.thinking import (
    budget_of,
    claude_effort_of,
    effort_for,
    is_on,
    note_effort,
)
from stoker.request.translate.neutral.turns import note_custom, offered_tools
from stoker.request.translate.vendor_rules import (
    ends_in_blanks,
    lacks_thinking,
    takes_sampling,
    thinking_instead,
    without_last_blanks,
)

_JSON_PLEASE = "Answer with one JSON object and nothing else."
_OWN = ("top_p", "top_k")
_LOCAL = ("min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty", "chat_template_kwargs")
"""Vendor settings that engines with a Messages path of their own take too."""
_HARMLESS = ("store", "prompt_cache_key", "safety_identifier")
"""Settings without which the answer is the same."""
_CHOICES = {Choice.AUTO: "auto", Choice.NONE: "none", Choice.REQUIRED: "any", Choice.NAMED: "tool"}


def write_prompt(prompt: Prompt, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    limit = prompt.max_tokens if prompt.max_tokens is not None else traits.default_limit
    if traits.most_output and limit > traits.most_output:
        losses.add("max_tokens")
        limit = traits.most_output
    out: dict[str, Any] = {"model": prompt.model, "max_tokens": limit}
    system, turns = _head(prompt.turns)
    texts = _texts(system)
    if prompt.format is not None and prompt.format.schema is None:
        losses.add("json_object")
        texts.append({"type": "text", "text": _JSON_PLEASE})
    if texts:
        out["system"] = texts[0]["text"] if len(texts) == 1 else texts
    out["messages"] = [_message(turn, traits, losses) for turn in turns]
    if traits.checks_signatures and ends_in_blanks(out["messages"]):
        losses.repair("blank_text")
        without_last_blanks(out["messages"])
    if prompt.stream:
        out["stream"] = True
    if stop := [text for text in prompt.stop if text.strip()]:
        out["stop_sequences"] = stop
    if len(stop) < len(prompt.stop):
        losses.add("stop")
    _tools(out, prompt, losses)
    _thinking(out, prompt.reasoning, limit, traits, losses)
    _tool_turn(out, traits, losses)
    _format(out, prompt.format, losses)
    _settings(out, prompt, traits, losses)
    return out


def _head(turns: list[Turn]) -> tuple[list[Turn], list[Turn]]:
    count = next((at for at, turn in enumerate(turns) if turn.role is not Role.SYSTEM), len(turns))
    return turns[:count], turns[count:]


def _texts(turns: list[Turn]) -> list[dict[str, Any]]:
    blocks = (block for turn in turns for block in turn.blocks)
    return [{"type": "text", "text": block.text} for block in blocks if isinstance(block, Text) and block.text.strip()]


def _message(turn: Turn, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    blocks = [written for block in turn.blocks if (written := _block(block, traits, losses)) is not None]
    content: Any = blocks
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        content = blocks[0]["text"]
    elif not blocks:
        content = "(no content)"  # an empty turn is refused
    return {"role": turn.role.value, "content": content}


def _block(block: Block, traits: Capabilities, losses: Losses) -> dict[str, Any] | None:
    """One block; None: it is lost, or empty."""
    match block:
        case Text(text=text):
            return _text(text, losses)
        case Refusal(text=text):
            losses.add("refusal")
            return _text(text, losses)
        case Image():
            return {"type": "image", "source": _source(block, losses)}
        case Document():
            return _document(block)
        case Audio():
            losses.add("audio")
            return None
        case Thinking(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Redacted(data=data):
            return {"type": "redacted_thinking", "data": data}
        case ToolCall():
            return _call(block, losses)
        case _:
            return _result(block, traits, losses)


def _text(text: str, losses: Losses) -> dict[str, Any] | None:
    """Messages refuses text without a letter."""
    if text.strip():
        return {"type": "text", "text": text}
    if text:
        losses.repair("blank_text")
    return None


def _call(call: ToolCall, losses: Losses) -> dict[str, Any]:
    arguments: Any = Raw(call.arguments.encode())
    if call.custom:
        losses.add("custom_tool")
        arguments = {"input": call.arguments}
    return {"type": "tool_use", "id": spelt_id(call.id), "name": call.name, "input": arguments}


def _result(result: ToolResult, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "tool_result", "tool_use_id": spelt_id(result.id)}
    blocks = [written for block in result.content if (written := _block(block, traits, losses)) is not None]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        out["content"] = blocks[0]["text"]
    elif blocks:
        out["content"] = blocks
    if result.is_error:
        out["is_error"] = True
    return out


def _source(image: Image, losses: Losses) -> dict[str, Any]:
    if image.detail not in (None, "auto"):
        losses.add("detail")
    if image.url:
        return {"type": "url", "url": image.url}
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


def _document(document: Document) -> dict[str, Any]:
    if document.url:
        source = {"type": "url", "url": document.url}
    elif document.data:
        source = {"type": "base64", "media_type": document.media_type, "data": document.data}
    else:
        source = {"type": "text", "media_type": "text/plain", "data": document.text}
    out: dict[str, Any] = {"type": "document", "source": source}
    if document.title:
        out["title"] = document.title
    return out


# -- tools ------------------------------------------------------------------------------------------------------


def _tools(out: dict[str, Any], prompt: Prompt, losses: Losses) -> None:
    tools, choice = offered_tools(prompt, losses, lists_allowed=False), prompt.tool_choice
    if not tools:
        return
    out["tools"] = [_tool(tool, losses) for tool in tools]
    if choice is None and prompt.parallel_calls is not False:
        return
    mode = Choice.AUTO if choice is None else choice.mode
    out["tool_choice"] = {"type": _CHOICES[mode]}
    if choice is not None and mode is Choice.NAMED:
        out["tool_choice"]["name"] = choice.name
    if prompt.parallel_calls is not None and mode is not Choice.NONE:
        out["tool_choice"]["disable_parallel_tool_use"] = not prompt.parallel_calls


def _tool(tool: Tool, losses: Losses) -> dict[str, Any]:
    out: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        out["description"] = tool.description
    if tool.custom:
        note_custom(tool, losses)
    out["input_schema"] = INPUT if tool.custom else typed(tool.schema, insists=True)
    if tool.strict is not None:
        out["strict"] = tool.strict
    return out


# -- settings -----------------------------------------------------------------------------------------------------


def _thinking(
    out: dict[str, Any], reasoning: Reasoning | None, limit: int, traits: Capabilities, losses: Losses
) -> None:
    """1. switched off  2. a budget, kept if it is a legal one  3. an effort: for Claude its own word, with adaptive
    thinking; for a local engine, and a Claude without that, a budget that leaves half of the limit to the answer
    4. on, and nothing more.
    """
    if reasoning is None:
        return
    on, effort = is_on(reasoning), claude_effort_of(reasoning)
    forced = out.get("tool_choice", {}).get("type") in ("any", "tool")
    if on and ((not traits.local and forced) or not (traits.budget or traits.adaptive)):
        losses.add("reasoning")  # Anthropic refuses the two together, and the call is what was insisted on
        return
    if on is False:
        if traits.thinking_off:
            out["thinking"] = {"type": traits.thinking_off}  # 1
        else:
            losses.add("reasoning")
        return
    budget = reasoning.budget
    if budget is not None and not traits.budget:
        losses.add("budget")
        effort, budget = effort or effort_for(budget), None
    elif budget is None and on and not traits.adaptive:
        budget = min(budget_of(effort or "high"), limit // 2)
    elif budget is None and traits.local and effort is not None and reasoning.enabled is None:
        budget = min(budget_of(effort), limit // 2)  # 3
    if budget is not None:
        if limit > 1024:
            out["thinking"] = {"type": "enabled", "budget_tokens": min(max(budget, 1024), limit - 1)}  # 2
        else:
            losses.add("reasoning")
    elif on:
        out["thinking"] = {"type": "adaptive"}  # 4
    effort = None if effort is None else nearest_effort(effort, traits.efforts)
    if effort is not None and (reasoning.enabled is not None or not traits.local):
        out["output_config"] = {"effort": effort}
    note_effort(reasoning, out.get("output_config", {}).get("effort"), losses)
    if reasoning.shown is not None and "thinking" in out:
        out["thinking"]["display"] = "summarized" if reasoning.shown else "omitted"


def _tool_turn(out: dict[str, Any], traits: Capabilities, losses: Losses) -> None:
    """With a budget, Anthropic wants a turn of calls to begin with the thinking that led to them. Another model thought
    here: the model thinks again when that turn has ended, or as it likes, if it takes that.
    """
    if traits.checks_signatures and lacks_thinking(out.get("thinking"), out["messages"]):
        out["thinking"] = thinking_instead(traits)
        losses.add("thinking_turn")


def _format(out: dict[str, Any], format: AnswerFormat | None, losses: Losses) -> None:
    if format is not None and (format.description is not None or format.strict is False):
        losses.add("format_fields")
    if format is not None and format.schema is not None:
        out.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": format.schema}


def _settings(out: dict[str, Any], prompt: Prompt, traits: Capabilities, losses: Losses) -> None:
    sampling = takes_sampling(traits, out.get("thinking"))
    for name, value in prompt.settings.items():
        if name == "top_p" and not traits.local and "temperature" in prompt.settings:
            losses.add(name)  # Claude takes one of the two
        elif (name in _OWN and sampling) or (traits.local and name in _LOCAL):
            out[name] = value
        elif name == "temperature" and sampling:
            if value > 1:
                losses.add("temperature")
            out[name] = min(value, 1)
        elif name == "user":
            out["metadata"] = {"user_id": value}
        elif name not in _HARMLESS:
            losses.add(name)
