"""A Prompt as a chat request."""

from __future__ import annotations

from typing import Any

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    AnswerFormat,
    Audio,
    Block,
    Choice,
    Document,
    Image,
    Prompt,
    Redacted,
    Refusal,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from stoker.request.translate.neutral import media
from stoker.request.translate.neutral.calls import INPUT, strict_of, typed
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode
from stoker.request.translate.neutral.model_families import SAMPLING, takes_sampling
from stoker.request.translate.neutral.thinking import effort_of, is_on, note_effort
from stoker.request.translate.neutral.turns import note_custom, offered_tools

_EVERYWHERE = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs",
               "top_logprobs")  # fmt: skip
_LOCAL = ("top_k", "min_p", "chat_template_kwargs")
"""Vendor settings: engines that people run know them, OpenAI refuses them."""
_LOCAL_EFFORTS = {"minimal": "low", "xhigh": "high", "max": "high"}
"""Templates of local models know low, medium and high."""
_CLOUD = ("user", "metadata", "service_tier", "store", "prediction", "verbosity", "prompt_cache_key",
          "safety_identifier")  # fmt: skip


def write_prompt(prompt: Prompt, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    """The document to send. Raises ClientError 400 where it holds the address of a document."""
    messages: list[dict[str, Any]] = []
    for turn in prompt.turns:
        messages += _messages(turn, traits, losses)
    out: dict[str, Any] = {"model": prompt.model, "messages": messages}
    if prompt.stream:
        out["stream"] = True
        out["stream_options"] = {"include_usage": True}
        if traits.early_usage == "continuous_usage_stats":
            out["stream_options"]["continuous_usage_stats"] = True
        elif traits.early_usage:
            out[traits.early_usage] = True
    if prompt.max_tokens is not None:
        out[traits.limit_field] = max(prompt.max_tokens, 1)  # 0 is Anthropic's way to warm a cache up
    if prompt.stop and traits.is_known and traits.efforts:
        losses.add("stop")  # models of OpenAI that think take none
    elif prompt.stop:
        _stop(out, prompt.stop, traits, losses)
    _tools(out, prompt, traits, losses)
    if prompt.format is not None:
        out["response_format"] = _format(prompt.format, strict_of(prompt.format, prompt.dialect, traits, losses))
    _reasoning(out, prompt, traits, losses)
    if prompt.continues and traits.prefill == "continue":
        out |= {"continue_final_message": True, "add_generation_prompt": False}
    _settings(out, prompt, traits, losses)
    return out


# -- messages ---------------------------------------------------------------------------------------------------


def _messages(turn: Turn, traits: Capabilities, losses: Losses) -> list[dict[str, Any]]:
    if turn.role is Role.SYSTEM:
        return [{"role": "system", "content": _system(turn.blocks, traits, losses)}]
    if turn.role is Role.ASSISTANT:
        return [_assistant(turn.blocks, traits, losses)]
    out: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for block in turn.blocks:
        if isinstance(block, ToolResult):
            message, shown = _result(block, traits, losses)
            out.append(message)
            rest += shown
        else:
            rest.append(_part(block, traits, losses))
    if rest or not out:
        out.append({"role": "user", "content": _short(rest)})
    return out


def _system(blocks: list[Block], traits: Capabilities, losses: Losses) -> Any:
    texts = [block.text for block in blocks if isinstance(block, Text)]
    if len(texts) == len(blocks):
        return "\n\n".join(texts)
    return [_part(block, traits, losses) for block in blocks]


def _result(result: ToolResult, traits: Capabilities, losses: Losses) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    texts: list[str] = []
    inside: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for block in result.content:
        part = _part(block, traits, losses)
        if part["type"] == "text":
            texts.append(part["text"])
        elif part["type"] == "image_url" and traits.tool_images:
            inside.append(part)
        else:
            shown.append(part)
    text = "\n".join(texts)
    if result.is_error:
        losses.add("result_error")
        text = traits.error_prefix + text
    content: Any = text
    if inside:
        content = [{"type": "text", "text": text}, *inside] if text else inside
    if shown:
        losses.add("result_image")
        word = "image" if all(part["type"] == "image_url" for part in shown) else "file"
        shown.insert(0, {"type": "text", "text": f"({word} from tool {result.id})"})
    return {"role": "tool", "tool_call_id": result.id, "content": content}, shown


def _assistant(blocks: list[Block], traits: Capabilities, losses: Losses) -> dict[str, Any]:
    """Thinking, then text, then calls: chat knows no other order."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    for block in blocks:
        match block:
            case Thinking(text=text):
                thoughts.append(text)
            case Redacted():
                losses.add("thinking_redacted")
            case Refusal(text=text) if not traits.local:
                refusals.append(text)
            case ToolCall():
                calls.append(_call(block, traits, losses))
            case _:
                if calls:
                    losses.add("order")
                parts.append(_part(block, traits, losses))
    if parts:
        message["content"] = _short(parts)
    if refusals:
        message["refusal"] = "".join(refusals)
    if thoughts and traits.thinking_field:
        message[traits.thinking_field] = "\n\n".join(thoughts)
    elif thoughts:
        losses.add("thinking")
    if calls:
        message["tool_calls"] = calls
    elif message["content"] is None and not refusals:
        message["content"] = ""
    return message


def _call(call: ToolCall, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    if call.custom and traits.custom_tools:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    arguments = call.arguments
    if call.custom:
        losses.add("custom_tool")
        arguments = encode({"input": arguments}).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _part(block: Block, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Refusal(text=text):
            losses.add("refusal")
            return {"type": "text", "text": text}
        case Image():
            url: dict[str, Any] = {"url": media.to_url(block)}
            if block.detail is not None:
                url["detail"] = block.detail
            return {"type": "image_url", "image_url": url}
        case Audio(format=format, data=data):
            return {"type": "input_audio", "input_audio": {"data": data, "format": format}}
        case Document():
            return _document(block, losses)
    losses.add("foreign_block")  # thinking, a call or a result where nobody may say such a thing
    return {"type": "text", "text": ""}


def _document(document: Document, losses: Losses) -> dict[str, Any]:
    text = media.text_of(document)
    if text is not None:
        losses.add("document")
        return {"type": "text", "text": f"{document.title}\n{text}" if document.title else text}
    if document.url:
        text = "the request gives a document by its URL, which chat cannot pass on: send it as base64, or as text"
        raise ClientError(text, code="bad_field")
    file = {"filename": document.title or "document", "file_data": f"data:{document.media_type};base64,{document.data}"}
    return {"type": "file", "file": file}


def _short(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """One text alone is a plain string: every template takes that."""
    if not parts:
        return ""
    return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts


# -- tools ------------------------------------------------------------------------------------------------------


def _tools(out: dict[str, Any], prompt: Prompt, traits: Capabilities, losses: Losses) -> None:
    tools = offered_tools(prompt, losses, lists_allowed=not traits.local)
    if not tools:
        return
    out["tools"] = [_tool(tool, traits, losses) for tool in tools]
    if prompt.tool_choice is not None:
        out["tool_choice"] = _choice(prompt.tool_choice, prompt, traits)
    if prompt.parallel_calls is not None:
        out["parallel_tool_calls"] = prompt.parallel_calls


def _choice(choice: ToolChoice, prompt: Prompt, traits: Capabilities) -> Any:
    customs = {tool.name for tool in prompt.tools if tool.custom and traits.custom_tools}
    if choice.allowed is not None and not traits.local:
        allowed = [_named(name, customs) for name in choice.allowed]
        mode = "required" if choice.mode is Choice.REQUIRED else "auto"
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}}
    return _named(choice.name, customs) if choice.mode is Choice.NAMED else choice.mode.value


def _named(name: str, customs: set[str]) -> dict[str, Any]:
    kind = "custom" if name in customs else "function"
    return {"type": kind, kind: {"name": name}}


def _tool(tool: Tool, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    if tool.custom and traits.custom_tools:
        custom = {"name": tool.name, "description": tool.description, "format": tool.grammar}
        return {"type": "custom", "custom": {key: value for key, value in custom.items() if value is not None}}
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.custom:
        note_custom(tool, losses)
    function["parameters"] = INPUT if tool.custom else typed(tool.schema)
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


# -- settings -----------------------------------------------------------------------------------------------------


def _stop(out: dict[str, Any], stop: list[str], traits: Capabilities, losses: Losses) -> None:
    wanted = [text for text in stop if text]
    if traits.stop_strings and len(wanted) > traits.stop_strings:
        losses.add("stop")
        wanted = wanted[: traits.stop_strings]
    if wanted:
        out["stop"] = wanted


def _format(format: AnswerFormat, strict: bool | None) -> dict[str, Any]:
    if format.schema is None:
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": format.name or "answer", "schema": format.schema}
    if strict is not None:
        schema["strict"] = strict
    if format.description is not None:
        schema["description"] = format.description
    return {"type": "json_schema", "json_schema": schema}


def _reasoning(out: dict[str, Any], prompt: Prompt, traits: Capabilities, losses: Losses) -> None:
    reasoning = prompt.reasoning
    if reasoning is None:
        return
    effort, on = effort_of(reasoning, traits.efforts), is_on(reasoning)
    if reasoning.budget is not None and effort is not None:
        losses.add("budget")
    if reasoning.shown is not None:
        losses.add("display")
    if traits.thinking_switch == "template":
        if on is not None:
            out["chat_template_kwargs"] = {"enable_thinking": on}
        if effort not in (None, "none"):
            out["reasoning_effort"] = _LOCAL_EFFORTS.get(effort or "", effort)
        note_effort(reasoning, out.get("reasoning_effort"), losses)
    elif traits.thinking_switch == "effort":
        if effort is not None:
            out["reasoning_effort"] = effort
        note_effort(reasoning, effort, losses)
    else:
        losses.add("reasoning")


def _settings(out: dict[str, Any], prompt: Prompt, traits: Capabilities, losses: Losses) -> None:
    for name, value in prompt.settings.items():
        if name in SAMPLING and not takes_sampling(traits.sampling_with, out.get("reasoning_effort")):
            losses.add(name)
        elif name == "repetition_penalty" and traits.local:
            out[traits.repetition_field] = value
        elif name == "service_tier" and prompt.dialect is Dialect.MESSAGES:
            losses.add(name)  # a tier of another vendor
        elif name in _EVERYWHERE or name in (_LOCAL if traits.local else _CLOUD):
            out[name] = {**value, **out[name]} if isinstance(out.get(name), dict) and isinstance(value, dict) else value
        elif name in ("user", "safety_identifier", "prompt_cache_key", "store", "metadata", "service_tier"):
            if name in ("metadata", "service_tier"):
                losses.add(name)  # the others mean nothing to an engine of one's own
        else:
            losses.add(name)
