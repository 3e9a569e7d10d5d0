"""A chat request as a Prompt.

messages become turns: a run of one role is one turn; `tool` messages open the user's turn, as results, in their order.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    AnswerFormat,
    Audio,
    Block,
    Choice,
    Document,
    Prompt,
    Reasoning,
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
from stoker.request.codec.server_tools import CLIENT_KINDS
from stoker.request.translate.neutral import media
from stoker.request.translate.neutral.calls import read_id
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, has_unknown_field, is_there, shaped, string, text_in
from stoker.request.translate.neutral.turns import add_turn, error_text, results_first

_NONE = Raw()


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, Any] | None = None
    input_audio: dict[str, Any] | None = None
    file: dict[str, Any] | None = None
    prompt_cache_breakpoint: Any = None
    cache_control: Any = None


class _Function(msgspec.Struct):
    name: str = ""
    arguments: Raw = _NONE
    description: str | None = None
    parameters: Raw = _NONE
    strict: bool | None = None


class _Custom(msgspec.Struct):
    name: str = ""
    input: str = ""
    description: str | None = None
    format: Any = None


class _Call(msgspec.Struct):
    id: str = ""
    type: str = "function"
    function: _Function | None = None
    custom: _Custom | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[Raw] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""
    function_call: _Function | None = None
    audio: Any = None


class _Tool(msgspec.Struct):
    type: str = "function"
    function: _Function | None = None
    custom: _Custom | None = None


class _Request(msgspec.Struct):
    model: str
    messages: list[Raw]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    tools: list[_Tool] | None = None
    functions: list[_Function] | None = None
    tool_choice: str | dict[str, Any] | None = None
    function_call: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Raw] | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    n: int | None = None
    temperature: float | int | None = None
    top_p: float | int | None = None
    top_k: int | None = None
    min_p: float | int | None = None
    seed: int | None = None
    frequency_penalty: float | int | None = None
    presence_penalty: float | int | None = None
    repetition_penalty: float | int | None = None
    logit_bias: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    store: bool | None = None
    prediction: Any = None
    verbosity: str | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    modalities: list[str] | None = None
    audio: Any = None
    web_search_options: Any = None


SETTINGS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "logit_bias", "logprobs", "top_logprobs", "user", "metadata", "service_tier", "store", "prediction", "verbosity",
    "prompt_cache_key", "safety_identifier", "chat_template_kwargs",
)  # fmt: skip
"""Settings that chat has, by the same names."""
_request = msgspec.json.Decoder(_Request)
_message = msgspec.json.Decoder(_Message)
_part = msgspec.json.Decoder(_Part)
_text = msgspec.json.Decoder(str)
_ROLES = {
    "system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT,
    "tool": Role.USER, "function": Role.USER,
}  # fmt: skip


def read_prompt(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400."""
    request = shaped(_request, body, "")
    if has_unknown_field(body, _Request):
        losses.add("unknown_field")
    if request.n is not None and request.n != 1:
        raise ClientError("'n' must be 1 for this model: its serve gives one answer", code="bad_field", param="n")
    if request.audio is not None or (request.modalities and "audio" in request.modalities):
        losses.add("audio")
    if request.web_search_options is not None:
        losses.add("server_tools")
    turns: list[Turn] = []
    for at, raw in enumerate(request.messages):
        _add(turns, raw, f"messages[{at}]", losses)
    results_first(turns, losses)
    limit = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    settings = {name: value for name in SETTINGS if (value := getattr(request, name)) is not None}
    return Prompt(
        dialect=Dialect.CHAT,
        model=request.model,
        turns=turns,
        tools=_tools(request, losses),
        tool_choice=_choice(request, losses),
        parallel_calls=request.parallel_tool_calls,
        max_tokens=limit,
        stop=stop,
        stream=bool(request.stream),
        wants_usage=bool((request.stream_options or {}).get("include_usage")),
        format=_format(request.response_format),
        reasoning=_reasoning(request, settings),
        continues=bool(turns) and turns[-1].role is Role.ASSISTANT,
        settings=settings,
    )


def _add(turns: list[Turn], raw: Raw, where: str, losses: Losses) -> None:
    message = shaped(_message, raw, where)
    role = _ROLES.get(message.role)
    if role is None:
        text = f"'{where}.role' is {message.role[:40]!r}: system, developer, user, assistant or tool is expected"
        raise ClientError(text, code="bad_field", param=f"{where}.role")
    if message.name is not None and message.role not in ("tool", "function"):
        losses.add("name")
    if message.role in ("tool", "function"):
        blocks: list[Block] = [_result(message, where, losses)]
    elif role is Role.ASSISTANT:
        blocks = _assistant(message, where, losses)
    else:
        blocks = _content(message.content, where, losses)
    add_turn(turns, role, blocks)


def _assistant(message: _Message, where: str, losses: Losses) -> list[Block]:
    thought = message.reasoning_content if message.reasoning_content is not None else message.reasoning
    blocks: list[Block] = [] if thought is None else [Thinking(thought)]
    blocks += _content(message.content, where, losses)
    if message.refusal:
        blocks.append(Refusal(message.refusal))
    if message.audio is not None:
        losses.add("audio")
    for at, call in enumerate(message.tool_calls or ()):
        blocks.append(_call(call, f"{where}.tool_calls[{at}]"))
    if message.function_call is not None:
        name = message.function_call.name
        blocks.append(
            ToolCall(f"call_{name}", name, text_in(message.function_call.arguments, f"{where}.function.arguments"))
        )
    return blocks


def _call(call: _Call, where: str) -> ToolCall:
    if call.custom is not None:
        return ToolCall(read_id(call.id), call.custom.name, call.custom.input, custom=True)
    if call.function is None:
        raise ClientError(f"'{where}.function' is missing", code="bad_field", param=f"{where}.function")
    return ToolCall(
        read_id(call.id), call.function.name, text_in(call.function.arguments, f"{where}.function.arguments")
    )


def _result(message: _Message, where: str, losses: Losses) -> ToolResult:
    content = _content(message.content, where, losses)
    if (error := error_text(content)) is not None:
        content[0] = Text(error)
    id = message.tool_call_id or f"call_{message.name or ''}"
    return ToolResult(read_id(id), content, error is not None)


def _content(content: str | list[Raw] | None, where: str, losses: Losses) -> list[Block]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_block(raw, f"{where}.content[{at}]", losses) for at, raw in enumerate(content)]


def _block(raw: Raw, where: str, losses: Losses) -> Block:
    part = shaped(_part, raw, where)
    if part.prompt_cache_breakpoint is not None or part.cache_control is not None:
        losses.add("cache_control")
    match part.type:
        case "text" | "input_text" | "output_text":
            return Text(part.text or "")
        case "refusal":
            return Refusal(part.refusal or "")
        case "image_url":
            given = part.image_url if isinstance(part.image_url, dict) else {"url": part.image_url}
            picture = media.from_url(string(given.get("url"), f"{where}.image_url.url"), f"{where}.image_url.url")
            detail = given.get("detail")
            picture.detail = detail if isinstance(detail, str) else None
            return picture
        case "input_audio":
            audio = part.input_audio or {}
            place = f"{where}.input_audio"
            return Audio(string(audio.get("format"), f"{place}.format"), string(audio.get("data"), f"{place}.data"))
        case "file":
            return _file(part.file or {}, f"{where}.file")
    text = f"'{where}.type' is {part.type[:40]!r}, which cannot be translated to another dialect"
    raise ClientError(text, code="bad_field", param=f"{where}.type")


def _file(file: dict[str, Any], where: str) -> Document:
    data = file.get("file_data")
    if not isinstance(data, str):
        text = f"'{where}' refers to a file stored elsewhere: send it as 'file_data'"
        raise ClientError(text, code="bad_field", param=where)
    kind, content = media.data_uri(data, where) if data.startswith("data:") else ("", data)
    title = file.get("filename")
    return Document(
        media_type=media.sniff(content) or kind or "application/pdf",
        data=content,
        title=title if isinstance(title, str) else "",
    )


def _tools(request: _Request, losses: Losses) -> list[Tool]:
    found = (_tool(tool, f"tools[{at}]", losses) for at, tool in enumerate(request.tools or ()))
    tools = [tool for tool in found if tool is not None]
    return tools + [_function(function) for function in request.functions or ()]


def _tool(tool: _Tool, where: str, losses: Losses) -> Tool | None:
    """None: the vendor runs it."""
    if tool.type not in CLIENT_KINDS:
        losses.add("server_tools")
        return None
    if tool.type == "custom" and tool.custom is not None:
        custom = tool.custom
        return Tool(custom.name, custom.description, custom=True, grammar=custom.format)
    if tool.function is None:
        raise ClientError(f"'{where}.function' is missing", code="bad_field", param=f"{where}.function")
    return _function(tool.function)


def _function(function: _Function) -> Tool:
    schema = function.parameters if is_there(function.parameters) else None
    return Tool(function.name, function.description, schema, function.strict)


def _choice(request: _Request, losses: Losses) -> ToolChoice | None:
    """none | auto | required | one by name | a list of allowed ones; `function_call` is the old spelling. A tool that
    the vendor runs cannot be had.
    """
    given = request.tool_choice if request.tool_choice is not None else request.function_call
    if given is None:
        return None
    if isinstance(given, str):
        if given not in ("none", "auto", "required", "any"):
            text = f"'tool_choice' is {given[:40]!r}: none, auto, required or an object is expected"
            raise ClientError(text, code="bad_field", param="tool_choice")
        return ToolChoice(Choice.REQUIRED if given == "any" else Choice(given))
    kind = given.get("type", "function")
    if kind in ("function", "custom"):
        inner = given.get(kind, given)
        name = inner.get("name") if isinstance(inner, dict) else None
        return ToolChoice(Choice.NAMED, name=string(name, "tool_choice.function.name"))
    if kind == "allowed_tools":
        return _allowed(given.get("allowed_tools", given), losses)
    if not isinstance(kind, str):
        raise ClientError("'tool_choice.type' must be a string", code="bad_field", param="tool_choice.type")
    losses.add("server_tools")
    return ToolChoice(Choice.AUTO)


def _allowed(given: Any, losses: Losses) -> ToolChoice:
    where = "tool_choice.allowed_tools"
    tools = given.get("tools") if isinstance(given, dict) else None
    if not isinstance(tools, list):
        raise ClientError(f"'{where}.tools' must be a list", code="bad_field", param=where)
    names = []
    for at, tool in enumerate(tools):
        kind = tool.get("type", "function") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind not in CLIENT_KINDS:
            losses.add("server_tools")
            continue
        inner = tool.get(kind, tool) if isinstance(kind, str) else None
        names.append(string(inner.get("name") if isinstance(inner, dict) else None, f"{where}.tools[{at}]"))
    mode = Choice.REQUIRED if given.get("mode") == "required" else Choice.AUTO
    return ToolChoice(mode, allowed=names)


class _Schema(msgspec.Struct):
    name: str = ""
    schema: Raw = _NONE
    strict: bool | None = None
    description: str | None = None


_schema = msgspec.json.Decoder(_Schema)


def _format(given: dict[str, Raw] | None) -> AnswerFormat | None:
    if given is None:
        return None
    kind = shaped(_text, given.get("type", Raw(b'""')), "response_format.type")
    if kind == "json_object":
        return AnswerFormat()
    if kind == "json_schema":
        found = shaped(_schema, given.get("json_schema", Raw(b"{}")), "response_format.json_schema")
        return AnswerFormat(
            found.schema if is_there(found.schema) else None, found.name, found.strict, found.description
        )
    if kind in ("text", ""):
        return None
    text = f"'response_format.type' is {kind[:40]!r}: text, json_object or json_schema is expected"
    raise ClientError(text, code="bad_field", param="response_format.type")


def _reasoning(request: _Request, settings: dict[str, Any]) -> Reasoning | None:
    """`reasoning_effort`, or the switch that templates of local models know."""
    template = request.chat_template_kwargs or {}
    switch = template.get("enable_thinking", template.get("thinking"))
    enabled = switch if isinstance(switch, bool) else None
    if request.reasoning_effort is None and enabled is None:
        return None
    if enabled is not None:
        rest = {name: value for name, value in template.items() if name not in ("enable_thinking", "thinking")}
        settings.pop("chat_template_kwargs", None)
        if rest:
            settings["chat_template_kwargs"] = rest
    return Reasoning(enabled=enabled, effort=request.reasoning_effort)
