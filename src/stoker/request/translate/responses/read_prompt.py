"""A Responses request as a Prompt.

    1. `instructions`                                       -> the first turn, of the system
    2. a message of the system or the developer             -> a turn of its own
    3. a message of the assistant, reasoning, a call        -> the assistant's turn, while nothing else comes between
    4. what a call gave                                     -> the next turn of the user, before what else the user says
    5. tools that come as an item (Codex, with OpenAI's newest models), or were found by a search -> tools as the others
    6. any other item: only its vendor can run or read it   -> dropped

What would need a conversation that is kept here is refused: nothing is stored.
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
    Image,
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
from stoker.request.translate.neutral import media
from stoker.request.translate.neutral.calls import read_id
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, is_there, shaped, string, text_in
from stoker.request.translate.neutral.turns import add_turn, error_text, results_first

_NONE = Raw()


class _Kind(msgspec.Struct):
    """Read first: fields of vendors' items and tools have shapes of their own."""

    type: str | None = None
    role: str | None = None


class _Message(msgspec.Struct):
    role: str = ""
    content: str | list[Raw] | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, Any] | None = None
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: dict[str, Any] | None = None
    annotations: Any = None
    prompt_cache_breakpoint: Any = None


class _Thought(msgspec.Struct):
    text: str = ""


class _Tools(msgspec.Struct):
    tools: list[Raw] = []


class _Tool(msgspec.Struct):
    name: str = ""
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None
    format: dict[str, Any] | None = None
    tools: list[Raw] | None = None


class _Reasoning(msgspec.Struct):
    summary: list[_Thought] | None = None
    content: list[_Thought] | None = None
    encrypted_content: str | None = None


class _Call(msgspec.Struct):
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Raw = _NONE
    input: str | None = None
    output: str | list[Raw] | None = None
    namespace: str | None = None


class _Format(msgspec.Struct):
    type: str = "text"
    schema: Raw = _NONE
    name: str = ""
    strict: bool | None = None
    description: str | None = None


class _TextConfig(msgspec.Struct):
    format: _Format | None = None
    verbosity: str | None = None


class _Request(msgspec.Struct):
    model: str
    input: str | list[Raw] | None = None
    instructions: str | None = None
    stream: bool | None = None
    stream_options: Any = None
    max_output_tokens: int | None = None
    tools: list[Raw] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    text: _TextConfig | None = None
    include: list[str] | None = None
    truncation: str | None = None
    max_tool_calls: int | None = None
    frequency_penalty: float | int | None = None
    presence_penalty: float | int | None = None
    temperature: float | int | None = None
    top_p: float | int | None = None
    top_logprobs: int | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    store: bool | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    background: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    client_metadata: Any = None
    """Codex: ids of its session, for whoever counts them. No model sees them."""


SETTINGS = (
    "temperature", "top_p", "top_logprobs", "user", "metadata", "service_tier", "prompt_cache_key",
    "safety_identifier", "frequency_penalty", "presence_penalty",
)  # fmt: skip
"""Settings that Responses has, by the same names; `verbosity` stands in `text`, and `store` is told only if true."""
_ECHOED = ("truncation", "max_tool_calls")
"""What only the response object repeats: Stoker cuts no input off, and runs no tools."""
STATEFUL = {
    "previous_response_id": "send the whole conversation as 'input'",
    "conversation": "send the whole conversation as 'input'",
    "background": "leave it out, and keep the connection open",
    "prompt": "send the prompt's own text as 'instructions' and 'input'",
}
"""Fields that name what is kept at OpenAI, and what to do instead."""
STORABLE = ("previous_response_id", "conversation")
"""Those that work where Stoker stores responses."""
_TOOL_FIELDS = {"type", *(field.encode_name for field in msgspec.structs.fields(_Tool))}
_CALLED = ("function", "custom")
"""Kinds of tools that the client runs; a namespace holds such ones, and no other namespace."""
_tool_item = msgspec.json.Decoder(_Tool)
_KNOWN = {field.encode_name for field in msgspec.structs.fields(_Request)}
_REASONING_FIELDS = ("effort", "summary", "generate_summary")
_request = msgspec.json.Decoder(_Request)
_kind = msgspec.json.Decoder(_Kind)
_message = msgspec.json.Decoder(_Message)
_part = msgspec.json.Decoder(_Part)
_reasoning_item = msgspec.json.Decoder(_Reasoning)
_call_item = msgspec.json.Decoder(_Call)
_tools_item = msgspec.json.Decoder(_Tools)
_fields = msgspec.json.Decoder(dict[str, Raw])
_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}


def read_prompt(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400."""
    request = shaped(_request, body, "")
    _refuse_stateful(request)
    if (
        request.truncation not in (None, "disabled")
        or request.max_tool_calls is not None
        or any(name not in _KNOWN and is_there(value) for name, value in shaped(_fields, body, "").items())
    ):
        losses.add("unknown_field")
    if any(name != "reasoning.encrypted_content" for name in request.include or ()):
        losses.add("include")
    items = _Turns(losses)
    turns = items.read(request)
    tools = list(
        {tool.name: tool for tool in (*read_tools(request.tools or [], "tools", losses), *items.tools)}.values()
    )
    return Prompt(
        dialect=Dialect.RESPONSES,
        model=request.model,
        turns=turns,
        tools=tools,
        tool_choice=read_choice(request.tool_choice, losses),
        parallel_calls=request.parallel_tool_calls,
        max_tokens=request.max_output_tokens,
        stream=bool(request.stream),
        format=_format(request.text),
        reasoning=_reasoning(request.reasoning or {}, losses),
        continues=bool(turns) and turns[-1].role is Role.ASSISTANT,
        settings=_settings(request),
        echoed={name: value for name in _ECHOED if (value := getattr(request, name)) is not None},
    )


def _refuse_stateful(request: _Request) -> None:
    for name, instead in STATEFUL.items():
        if getattr(request, name) not in (None, False):
            text = f"'{name}' refers to stored data, and this Stoker stores none: {instead}"
            if name in STORABLE:
                text += ". Whoever runs Stoker can set `store = true` under [responses] in the configuration"
            raise ClientError(text, code="stateful", param=name)


def _settings(request: _Request) -> dict[str, Any]:
    settings = {name: value for name in SETTINGS if (value := getattr(request, name)) is not None}
    if request.text is not None and request.text.verbosity is not None:
        settings["verbosity"] = request.text.verbosity
    if request.store:
        settings["store"] = True
    return settings


# -- turns --------------------------------------------------------------------------------------------------------


class _Turns:
    """Items, one by one, as turns. The numbers are those of the module's docstring."""

    __slots__ = ("_losses", "_turns", "tools")

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._turns: list[Turn] = []
        self.tools: list[Tool] = []
        """Those that came as items."""

    def read(self, request: _Request) -> list[Turn]:
        if request.instructions:
            self._add(Role.SYSTEM, [Text(request.instructions)])  # 1
        if request.input is None:
            raise ClientError("'input' is missing", code="bad_field", param="input")
        if isinstance(request.input, str):
            self._add(Role.USER, [Text(request.input)] if request.input else [])
        else:
            for at, raw in enumerate(request.input):
                self._item(raw, f"input[{at}]")
        results_first(self._turns, self._losses)  # 4: items that go on with results behind a message tell them late
        return self._turns

    def _item(self, raw: Raw, where: str) -> None:
        kind = shaped(_kind, raw, where)
        match kind.type:
            case "message":
                self._message(raw, where)
            case None if kind.role is not None:
                self._message(raw, where)
            case "reasoning":
                self._add(Role.ASSISTANT, [_thinking(shaped(_reasoning_item, raw, where))])  # 3
            case "function_call" | "custom_tool_call":
                self._add(Role.ASSISTANT, [self._call(raw, where, kind.type == "custom_tool_call")])  # 3
            case "function_call_output" | "custom_tool_call_output":
                self._result(raw, where, kind.type == "custom_tool_call_output")
            case "additional_tools" | "tool_search_output":
                given = shaped(_tools_item, raw, where).tools
                self.tools += read_tools(given, f"{where}.tools", self._losses)  # 5
            case _:
                self._losses.add("foreign_block")  # 6

    def _message(self, raw: Raw, where: str) -> None:
        message = shaped(_message, raw, where)
        role = _ROLES.get(message.role)
        if role is None:
            text = f"'{where}.role' is {message.role[:40]!r}: system, developer, user or assistant is expected"
            raise ClientError(text, code="bad_field", param=f"{where}.role")
        self._add(role, _content(message.content, f"{where}.content", self._losses))

    def _call(self, raw: Raw, where: str, custom: bool) -> ToolCall:
        call = shaped(_call_item, raw, where)
        name = qualified(call.namespace or "", call.name or "")
        arguments = call.input or "" if custom else text_in(call.arguments, f"{where}.arguments")
        return ToolCall(read_id(call.call_id or call.id or ""), name, arguments, custom)

    def _result(self, raw: Raw, where: str, custom: bool) -> None:
        given = shaped(_call_item, raw, where)
        content = _content(given.output, f"{where}.output", self._losses)
        if (error := error_text(content)) is not None:
            content[:1] = [Text(error)] if error else []
        self._add(Role.USER, [ToolResult(read_id(given.call_id or ""), content, error is not None, custom)])

    def _add(self, role: Role, blocks: list[Block]) -> None:
        add_turn(self._turns, role, blocks)  # 2


def _thinking(item: _Reasoning) -> Thinking:
    """Its own words, else their summary. What is sealed in `encrypted_content` is opened by whoever may."""
    thoughts = item.content or item.summary or []
    return Thinking("\n\n".join(thought.text for thought in thoughts), item.encrypted_content or "")


# -- parts --------------------------------------------------------------------------------------------------------


def _content(content: str | list[Raw] | None, where: str, losses: Losses) -> list[Block]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    found = (_block(raw, f"{where}[{at}]", losses) for at, raw in enumerate(content or ()))
    return [block for block in found if block is not None]


def _block(raw: Raw, where: str, losses: Losses) -> Block | None:
    """One part; None: it is lost."""
    part = shaped(_part, raw, where)
    if part.annotations:
        losses.add("annotations")
    if part.prompt_cache_breakpoint is not None:
        losses.add("cache_control")
    match part.type:
        case "input_text" | "output_text" | "text":
            return Text(part.text or "")
        case "refusal":
            return Refusal(part.refusal or "")
        case "input_image":
            return _image(part, where)
        case "input_file":
            if part.detail not in (None, "auto"):
                losses.add("detail")
            return _file(part, where)
        case "input_audio":
            audio = part.input_audio or {}
            place = f"{where}.input_audio"
            return Audio(string(audio.get("format"), f"{place}.format"), string(audio.get("data"), f"{place}.data"))
    losses.add("foreign_block")
    return None


def _image(part: _Part, where: str) -> Image:
    """Some clients nest the address, as chat does."""
    url = part.image_url.get("url") if isinstance(part.image_url, dict) else part.image_url
    if url is None and part.file_id is not None:
        raise _kept_elsewhere(where, "image_url")
    picture = media.from_url(string(url, f"{where}.image_url"), f"{where}.image_url")
    picture.detail = part.detail
    return picture


def _file(part: _Part, where: str) -> Document:
    title = part.filename or ""
    if part.file_data is not None:
        data = part.file_data
        kind, content = media.data_uri(data, f"{where}.file_data") if data[:5].lower() == "data:" else ("", data)
        return Document(media_type=media.sniff(content) or kind or "application/pdf", data=content, title=title)
    if part.file_url is not None:
        return Document(url=part.file_url, title=title)
    raise _kept_elsewhere(where, "file_data")


def _kept_elsewhere(where: str, field: str) -> ClientError:
    text = f"'{where}' refers to a file stored elsewhere: send it as '{field}'"
    return ClientError(text, code="bad_field", param=where)


# -- tools: flat, with custom ones and those of the vendor between -------------------------------------------------


def qualified(namespace: str, name: str) -> str:
    """The name of a tool among all of them."""
    return f"{namespace}.{name}" if namespace else name


def read_tools(given: list[Raw], where: str, losses: Losses, namespace: str = "") -> list[Tool]:
    """The tools that the client runs. `where`: their place in the request. Raises ClientError 400."""
    kinds = _CALLED if namespace else (*_CALLED, "namespace")
    tools: list[Tool] = []
    for at, raw in enumerate(given):
        place = f"{where}[{at}]"
        kind = shaped(_kind, raw, place).type
        if kind not in kinds:
            losses.add("server_tools")  # the vendor runs it, or knows its schema by heart
            continue
        tool = shaped(_tool_item, raw, place)
        if _has_more(raw, place):
            losses.add("tool_fields")
        if not tool.name:
            raise ClientError(f"'{place}.name' is missing", code="bad_field", param=f"{place}.name")
        name = qualified(namespace, tool.name)
        if kind == "namespace":
            tools += read_tools(tool.tools or [], f"{place}.tools", losses, tool.name)
        elif kind == "custom":
            grammar = _nested(tool.format)
            tools.append(Tool(name, tool.description, custom=True, grammar=grammar, namespace=namespace))
        else:
            schema = tool.parameters if is_there(tool.parameters) else None
            tools.append(Tool(name, tool.description, schema, tool.strict, namespace=namespace))
    return tools


def _has_more(raw: Raw, where: str) -> bool:
    """Whether a tool has a field that exists nowhere else, and says something by it."""
    fields = shaped(_fields, raw, where)
    return any(
        name not in _TOOL_FIELDS and is_there(value) and bytes(value) != b"false" for name, value in fields.items()
    )


def _nested(format: dict[str, Any] | None) -> dict[str, Any] | None:
    if format is None or format.get("type") != "grammar":
        return format
    return {"type": "grammar", "grammar": {name: value for name, value in format.items() if name != "type"}}


def read_choice(given: str | dict[str, Any] | None, losses: Losses) -> ToolChoice | None:
    """none | auto | required | one by name | a list of allowed ones; a tool that the vendor runs cannot be had.

    Raises ClientError 400.
    """
    if given is None:
        return None
    if isinstance(given, str):
        if given not in ("none", "auto", "required"):
            text = f"'tool_choice' is {given[:40]!r}: none, auto, required or an object is expected"
            raise ClientError(text, code="bad_field", param="tool_choice")
        return ToolChoice(Choice(given))
    kind = given.get("type")
    if kind in _CALLED:
        return ToolChoice(Choice.NAMED, name=string(given.get("name"), "tool_choice.name"))
    if kind == "allowed_tools":
        return _allowed(given, losses)
    losses.add("server_tools")
    return ToolChoice(Choice.AUTO)


def _allowed(given: dict[str, Any], losses: Losses) -> ToolChoice:
    tools = given.get("tools")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ClientError("'tool_choice.tools' must be a list of tools", code="bad_field", param="tool_choice.tools")
    names = []
    for at, tool in enumerate(tools):
        if tool.get("type") in _CALLED:
            names.append(string(tool.get("name"), f"tool_choice.tools[{at}].name"))
        else:
            losses.add("server_tools")
    mode = Choice.REQUIRED if given.get("mode") == "required" else Choice.AUTO
    return ToolChoice(mode, allowed=names)


# -- settings -----------------------------------------------------------------------------------------------------


def _format(text: _TextConfig | None) -> AnswerFormat | None:
    given = text.format if text is not None else None
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return AnswerFormat()
    if given.type == "json_schema":
        return AnswerFormat(
            given.schema if is_there(given.schema) else None, given.name, given.strict, given.description
        )
    what = f"'text.format.type' is {given.type[:40]!r}: text, json_object or json_schema is expected"
    raise ClientError(what, code="bad_field", param="text.format.type")


def _reasoning(given: dict[str, Any], losses: Losses) -> Reasoning | None:
    said = {name: value for name, value in given.items() if value is not None}
    if any(name not in _REASONING_FIELDS for name in said):
        losses.add("unknown_field")
    effort = said.get("effort")
    if effort is not None:
        effort = string(effort, "reasoning.effort")
    shown = True if "summary" in said or "generate_summary" in said else None
    return None if effort is None and shown is None else Reasoning(effort=effort, shown=shown)
