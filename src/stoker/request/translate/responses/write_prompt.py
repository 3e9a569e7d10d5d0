"""A Prompt as a Responses request. Nothing is to be stored at the serve, so everything is sent."""

from __future__ import annotations

import base64
from typing import Any

from msgspec.structs import replace

from stoker.domain.dialect import Dialect
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
from stoker.request.translate.neutral.thinking import OPENAI, effort_of, is_on, maker_of, note_effort
from stoker.request.translate.neutral.turns import note_custom, offered_tools

LEAST_LIMIT = 16
"""OpenAI refuses a smaller `max_output_tokens`."""
_SETTINGS = ("temperature", "top_p", "top_logprobs", "user", "metadata", "service_tier", "prompt_cache_key",
             "safety_identifier")  # fmt: skip
_LOCAL_SETTINGS = ("frequency_penalty", "presence_penalty")
"""Open Responses has them, OpenAI's API refuses them."""


def write_prompt(prompt: Prompt, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    turns = prompt.turns
    out: dict[str, Any] = {"model": prompt.model, "store": False}
    if turns and is_instructions(turns[0]):
        out["instructions"] = instructions_of(turns[0])
        turns = turns[1:]
    out["input"] = _Items(prompt.dialect, traits, losses).write(turns)
    if prompt.stream:
        out["stream"] = True
    if prompt.max_tokens is not None:
        out["max_output_tokens"] = max(prompt.max_tokens, 1 if traits.local else LEAST_LIMIT)
    if any(prompt.stop):
        losses.add("stop")
    _tools(out, prompt, traits, losses)
    text: dict[str, Any] = {}
    if prompt.format is not None:
        strict = strict_of(prompt.format, prompt.dialect, traits, losses)
        text["format"] = format_of(replace(prompt.format, strict=strict))
    if "verbosity" in prompt.settings:
        text["verbosity"] = prompt.settings["verbosity"]
    if text:
        out["text"] = text
    _reasoning(out, prompt, traits, losses)
    _settings(out, prompt, traits, losses)
    return out


def is_instructions(turn: Turn) -> bool:
    """Whether a first turn can stand in `instructions`."""
    return turn.role is Role.SYSTEM and all(isinstance(block, Text) for block in turn.blocks)


def instructions_of(turn: Turn) -> str:
    return "\n\n".join(block.text for block in turn.blocks if isinstance(block, Text))


# -- items --------------------------------------------------------------------------------------------------------


class _Items:
    __slots__ = ("_client", "_items", "_losses", "_thoughts", "_traits")

    def __init__(self, client: Dialect, traits: Capabilities, losses: Losses) -> None:
        self._client = client
        self._traits = traits
        self._losses = losses
        self._items: list[dict[str, Any]] = []
        self._thoughts = 0

    def write(self, turns: list[Turn]) -> list[dict[str, Any]]:
        for turn in turns:
            match turn.role:
                case Role.SYSTEM:
                    self._items.append(_message("developer", self._content(turn.blocks)))
                case Role.USER:
                    self._user(turn.blocks)
                case _:
                    for block in turn.blocks:
                        self._assistant(block)
        return self._items

    def _user(self, blocks: list[Block]) -> None:
        results = [block for block in blocks if isinstance(block, ToolResult)]
        self._items += (self._result(result) for result in results)
        if len(results) < len(blocks) or not blocks:
            rest: list[Block] = [block for block in blocks if not isinstance(block, ToolResult)]
            self._items.append(_message("user", self._content(rest)))

    def _assistant(self, block: Block) -> None:
        match block:
            case Thinking():
                self._thinking(block)
            case Redacted():
                self._losses.add("thinking_redacted")
            case Text(text=text):
                self._items.append(_message("assistant", text))
            case Refusal(text=text):
                self._items.append(_message("assistant", [{"type": "refusal", "refusal": text}]))
            case ToolCall():
                self._items.append(self._call(block))
            case _:
                self._items.append(_message("assistant", self._content([block])))

    def _thinking(self, thinking: Thinking) -> None:
        """Engines of one's own take the text, OpenAI only what it encrypted itself: Codex too sends it back without
        text of its own and without its id.
        """
        text = thinking.text
        if self._traits.local:
            self._thoughts += 1
            content = [{"type": "reasoning_text", "text": text}]
            self._items.append({"type": "reasoning", "id": f"rs_{self._thoughts}", "summary": [], "content": content})
        elif (thinking.maker or maker_of(thinking.signature, self._client)) == OPENAI:
            summary = [{"type": "summary_text", "text": text}] if text else []
            self._items.append({"type": "reasoning", "summary": summary, "encrypted_content": thinking.signature})
        else:
            self._losses.add("thinking_unsigned")

    def _call(self, call: ToolCall) -> dict[str, Any]:
        if call.custom and self._traits.custom_tools:
            return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments}
        arguments = call.arguments
        if call.custom:
            self._losses.add("custom_tool")
            arguments = encode({"input": call.arguments}).decode()
        return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        """Texts alone are one string: every engine takes that."""
        parts = self._parts(result.content)
        if result.is_error:
            self._losses.add("result_error")
            parts.insert(0, {"type": "input_text", "text": self._traits.error_prefix})
        output: str | list[dict[str, Any]] = parts
        if all(part["type"] == "input_text" for part in parts):
            texts = [part["text"] for part in parts]
            output = texts.pop(0) + "\n".join(texts) if result.is_error else "\n".join(texts)
        custom = result.custom and self._traits.custom_tools
        kind = "custom_tool_call_output" if custom else "function_call_output"
        return {"type": kind, "call_id": result.id, "output": output}

    def _content(self, blocks: list[Block]) -> str | list[dict[str, Any]]:
        """One text alone is a plain string."""
        parts = self._parts(blocks)
        if not parts:
            return ""
        return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "input_text" else parts

    def _parts(self, blocks: list[Block]) -> list[dict[str, Any]]:
        found = (self._part(block) for block in blocks)
        return [part for part in found if part is not None]

    def _part(self, block: Block) -> dict[str, Any] | None:
        match block:
            case Text(text=text) | Refusal(text=text):
                return {"type": "input_text", "text": text}
            case Image():
                return {"type": "input_image", "image_url": media.to_url(block), "detail": block.detail or "auto"}
            case Document():
                return self._document(block)
            case Audio():
                self._losses.add("audio")
        return None

    def _document(self, document: Document) -> dict[str, Any]:
        """Engines of one's own get the text of a document that is text."""
        text = media.text_of(document)
        if text is not None and self._traits.local:
            self._losses.add("document")
            return {"type": "input_text", "text": f"{document.title}\n{text}" if document.title else text}
        if document.url:
            return {"type": "input_file", "file_url": document.url}
        kind, data = document.media_type, document.data
        if document.text:
            kind, data = kind or "text/plain", base64.b64encode(document.text.encode("utf-8", "replace")).decode()
        uri = f"data:{kind};base64,{data}"
        return {"type": "input_file", "filename": document.title or "document", "file_data": uri}


def _message(role: str, content: str | list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


# -- tools --------------------------------------------------------------------------------------------------------


def _tools(out: dict[str, Any], prompt: Prompt, traits: Capabilities, losses: Losses) -> None:
    tools, choice = offered_tools(prompt, losses, lists_allowed=not traits.local), prompt.tool_choice
    if not tools:
        return
    if choice is not None and choice.allowed is not None and traits.local:
        choice = ToolChoice(choice.mode)
    strict = None if prompt.dialect is Dialect.RESPONSES else False
    written = [_tool(tool, strict, traits, losses) for tool in tools]
    out["tools"] = written
    if choice is not None:
        customs = {tool["name"] for tool in written if tool["type"] == "custom"}
        out["tool_choice"] = choice_of(choice, customs)
    if prompt.parallel_calls is not None:
        out["parallel_tool_calls"] = prompt.parallel_calls


def _tool(tool: Tool, strict: bool | None, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    """`strict`: where the tool says nothing of it. Responses takes silence for true, the other dialects for false."""
    if tool.custom and traits.custom_tools:
        return tool_of(tool)
    if tool.custom:
        note_custom(tool, losses)
    out: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description is not None:
        out["description"] = tool.description
    out["parameters"] = INPUT if tool.custom else typed(tool.schema)
    strict = tool.strict if tool.strict is not None else strict
    return out if strict is None else out | {"strict": strict}


def own_name(tool: Tool) -> str:
    """Its name within its namespace."""
    return tool.name.removeprefix(f"{tool.namespace}.") if tool.namespace else tool.name


def tool_of(tool: Tool) -> dict[str, Any]:
    """A tool as the client wrote it, but for its namespace."""
    if not tool.custom:
        return {
            "type": "function",
            "name": own_name(tool),
            "description": tool.description,
            "parameters": tool.schema,
            "strict": tool.strict,
        }
    custom = {"type": "custom", "name": own_name(tool), "description": tool.description, "format": _flat(tool.grammar)}
    return {name: value for name, value in custom.items() if value is not None}


def _flat(format: Any) -> Any:
    inner = format.get("grammar") if isinstance(format, dict) else None
    return {"type": "grammar", **inner} if isinstance(inner, dict) else format


def choice_of(choice: ToolChoice, customs: set[str]) -> str | dict[str, Any]:
    """`customs`: names of the tools that take any text."""
    if choice.allowed is not None:
        mode = "required" if choice.mode is Choice.REQUIRED else "auto"
        allowed = [_named(name, customs) for name in choice.allowed]
        return {"type": "allowed_tools", "mode": mode, "tools": allowed}
    return _named(choice.name, customs) if choice.mode is Choice.NAMED else choice.mode.value


def _named(name: str, customs: set[str]) -> dict[str, Any]:
    return {"type": "custom" if name in customs else "function", "name": name}


# -- settings -----------------------------------------------------------------------------------------------------


def format_of(format: AnswerFormat) -> dict[str, Any]:
    """As `text.format` says it."""
    if format.schema is None:
        return {"type": "json_object"}
    out: dict[str, Any] = {"type": "json_schema", "name": format.name or "answer", "schema": format.schema}
    more = {"strict": format.strict, "description": format.description}
    return out | {name: value for name, value in more.items() if value is not None}


def _reasoning(out: dict[str, Any], prompt: Prompt, traits: Capabilities, losses: Losses) -> None:
    """An effort; engines of one's own get the switch of their templates too."""
    reasoning = prompt.reasoning
    if reasoning is None:
        return
    if traits.thinking_switch not in ("template", "effort"):
        losses.add("reasoning")
        return
    effort, on = effort_of(reasoning, traits.efforts), is_on(reasoning)
    if reasoning.budget is not None and effort is not None:
        losses.add("budget")
    if reasoning.shown is False and traits.local:
        losses.add("display")
    note_effort(reasoning, effort, losses)
    fields = {"effort": effort, "summary": "auto" if reasoning.shown else None}
    if written := {name: value for name, value in fields.items() if value is not None}:
        out["reasoning"] = written
    if traits.thinking_switch == "template" and on is not None:
        out["chat_template_kwargs"] = {"enable_thinking": on}
    if not traits.local and on is not False:
        out["include"] = ["reasoning.encrypted_content"]


def _settings(out: dict[str, Any], prompt: Prompt, traits: Capabilities, losses: Losses) -> None:
    for name, value in prompt.settings.items():
        if name == "service_tier" and prompt.dialect is Dialect.MESSAGES:
            losses.add(name)  # a tier of another vendor
        elif name in SAMPLING and not takes_sampling(traits.sampling_with, out.get("reasoning", {}).get("effort")):
            losses.add(name)
        elif name in _SETTINGS or (traits.local and name in _LOCAL_SETTINGS):
            out[name] = value
        elif name == "store":
            if value and not traits.local:
                losses.add("store")
        elif name != "verbosity":
            losses.add(name)
