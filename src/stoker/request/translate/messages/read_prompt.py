"""A Messages request as a Prompt.

`system` becomes the first turn; system turns among the messages stay where they are. Turns of one role in a row are
one, as Anthropic itself has it. A user's results go before what else the user says, since everybody else wants them
right behind their calls.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    AnswerFormat,
    Block,
    Choice,
    Document,
    Image,
    Prompt,
    Reasoning,
    Redacted,
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
from stoker.request.translate.neutral.json_text import (
    Raw,
    has_unknown_field,
    is_there,
    loose,
    object_of,
    shaped,
    string,
)
from stoker.request.translate.neutral.turns import add_turn, results_first

_NONE = Raw()


class _Block(msgspec.Struct):
    type: str
    text: str | None = None
    source: dict[str, Any] | str | None = None
    """Of a search result: a name."""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = _NONE
    tool_use_id: str = ""
    content: str | list[Raw] | dict[str, Any] | None = None
    """An object only in results of tools that the vendor runs."""
    is_error: bool | None = None
    title: str | None = None
    context: str | None = None
    citations: Any = None
    cache_control: Any = None
    transformations: Any = None
    caller: dict[str, Any] | None = None
    toolset_name: str | None = None
    tool_name: str = ""


class _SearchResult(msgspec.Struct):
    title: str = ""
    source: str = ""
    content: list[dict[str, Any]] = []


class _Message(msgspec.Struct):
    role: str
    content: str | list[Raw]


class _Tool(msgspec.Struct):
    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: Raw = _NONE
    strict: bool | None = None
    cache_control: Any = None
    defer_loading: Any = None
    input_examples: Any = None
    allowed_callers: Any = None
    eager_input_streaming: Any = None


class _Choice(msgspec.Struct):
    type: str
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class _Format(msgspec.Struct):
    type: str = "json_schema"
    schema: Raw = _NONE


class _Output(msgspec.Struct):
    effort: str | None = None
    format: _Format | None = None


class _Request(msgspec.Struct):
    model: str
    messages: list[Raw]
    max_tokens: int | None = None
    system: str | list[Raw] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    thinking: _Thinking | None = None
    output_config: _Output | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | int | None = None
    top_p: float | int | None = None
    top_k: int | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    cache_control: Any = None
    container: Any = None
    mcp_servers: Any = None
    context_management: Any = None


_BY_MODEL = {"type": "direct"}
"""Who called: the model, and not the vendor's own tools."""
_KEEPS_ALL = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
"""What Claude Code asks for: that no thinking is cleared. None is."""
SETTINGS = ("temperature", "top_p", "top_k", "service_tier")
"""Settings that Messages has, by the same names; `metadata.user_id` is `user`."""
_request = msgspec.json.Decoder(_Request)
_message = msgspec.json.Decoder(_Message)
_block = msgspec.json.Decoder(_Block)
_search_result = msgspec.json.Decoder(_SearchResult)
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_SHOWN: frozenset[type[Block]] = frozenset((Text, Image, Document))
_SAID: dict[Role, frozenset[type[Block]]] = {
    Role.SYSTEM: frozenset((Text,)),
    Role.USER: _SHOWN | {ToolResult},
    Role.ASSISTANT: _SHOWN | {Thinking, Redacted, ToolCall},
}
_TOOL_FIELDS = ("defer_loading", "input_examples", "allowed_callers", "eager_input_streaming")


def read_prompt(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400."""
    request = shaped(_request, body, "")
    if has_unknown_field(body, _Request):
        losses.add("unknown_field")
    if request.context_management not in (None, _KEEPS_ALL):
        losses.add("unknown_field")
    if request.cache_control is not None:
        losses.add("cache_control")
    if request.container is not None or request.mcp_servers:
        losses.add("server_tools")
    turns: list[Turn] = []
    if request.system:
        turns.append(Turn(Role.SYSTEM, _content(request.system, "system", losses, _SAID[Role.SYSTEM])))
    for at, raw in enumerate(request.messages):
        _add(turns, raw, f"messages[{at}]", losses)
    results_first(turns, losses)
    settings = {name: value for name in SETTINGS if (value := getattr(request, name)) is not None}
    user = (request.metadata or {}).get("user_id")
    if isinstance(user, str):
        settings["user"] = user
    choice = request.tool_choice
    tools, dropped = _tools(request.tools or [], losses)
    serial = choice.disable_parallel_tool_use if choice is not None else None
    return Prompt(
        dialect=Dialect.MESSAGES,
        model=request.model,
        turns=turns,
        tools=tools,
        tool_choice=_choice(choice, dropped),
        parallel_calls=None if serial is None else not serial,
        max_tokens=request.max_tokens,
        stop=request.stop_sequences or [],
        stream=bool(request.stream),
        format=_format(request.output_config),
        reasoning=_reasoning(request, losses),
        continues=bool(turns) and turns[-1].role is Role.ASSISTANT,
        settings=settings,
    )


def _add(turns: list[Turn], raw: Raw, where: str, losses: Losses) -> None:
    message = shaped(_message, raw, where)
    role = _ROLES.get(message.role)
    if role is None:
        text = f"'{where}.role' is {message.role[:40]!r}: user, assistant or system is expected"
        raise ClientError(text, code="bad_field", param=f"{where}.role")
    blocks = _content(message.content, f"{where}.content", losses, _SAID[role])
    add_turn(turns, role, blocks)


def _content(content: str | list[Raw] | None, where: str, losses: Losses, said: frozenset[type[Block]]) -> list[Block]:
    """`said`: what may stand here; of anything else nobody could make sense."""
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    blocks: list[Block] = []
    for at, raw in enumerate(content):
        for block in _read(raw, f"{where}[{at}]", losses):
            if type(block) not in said:
                place = f"{where}[{at}].type"
                raise ClientError(f"'{place}' is not allowed here", code="bad_field", param=place)
            blocks.append(block)
    return blocks


def _read(raw: Raw, where: str, losses: Losses) -> list[Block]:
    """One block, or what becomes of it; empty: it is lost."""
    block = shaped(_block, raw, where)
    if block.cache_control is not None:
        losses.add("cache_control")
    if block.citations and block.citations != {"enabled": False}:
        losses.add("citations")
    if block.transformations is not None:
        losses.add("unknown_field")
    if block.toolset_name is not None or (block.caller or _BY_MODEL) != _BY_MODEL:
        losses.add("tool_fields")
    match block.type:
        case "text" | "mid_conv_system":
            return [Text(block.text or "")]
        case "image":
            return [_image(object_of(block.source), f"{where}.source")]
        case "document":
            return _document(block, f"{where}.source", losses)
        case "thinking":
            return [Thinking(block.thinking, block.signature)]
        case "redacted_thinking":
            return [Redacted(block.data)]
        case "tool_use":
            return [ToolCall(read_id(block.id), block.name, _arguments(block.input))]
        case "tool_result":
            if isinstance(block.content, dict):
                place = f"{where}.content"
                raise ClientError(f"'{place}' must be a string or a list", code="bad_field", param=place)
            content = _content(block.content, f"{where}.content", losses, _SHOWN)
            return [ToolResult(read_id(block.tool_use_id), content, bool(block.is_error))]
        case "search_result":
            losses.add("search_result")
            found = shaped(_search_result, raw, where)
            texts = (piece.get("text") for piece in found.content)
            return [Text("\n".join((found.title, found.source, *(text for text in texts if isinstance(text, str)))))]
        case "tool_reference":
            losses.add("tool_reference")
            return [Text(f"(found the tool {block.tool_name})")]
    losses.add("foreign_block")
    return []


def _arguments(input: Raw) -> str:
    """The text of the object. A string, which it must not be, is taken for that text."""
    if not is_there(input):
        return "{}"
    text = loose(input) if bytes(input)[:1] == b'"' else None
    return text if isinstance(text, str) else bytes(input).decode()


def _image(source: dict[str, Any], where: str) -> Image:
    match source.get("type"):
        case "base64":
            return media.image(string(source.get("data"), f"{where}.data"), f"{where}.data")
        case "url":
            return media.from_url(string(source.get("url"), f"{where}.url"), f"{where}.url")
    text = f"'{where}' refers to an image stored elsewhere: send the image as base64, or as a URL"
    raise ClientError(text, code="bad_image", param=where)


def _document(block: _Block, where: str, losses: Losses) -> list[Block]:
    source = object_of(block.source)
    if block.context is not None:
        losses.add("document_title")
    title = block.title or ""
    match source.get("type"):
        case "base64":
            data = string(source.get("data"), f"{where}.data")
            return [Document(media_type=media.sniff(data) or str(source.get("media_type", "")), data=data, title=title)]
        case "text":
            return [Document(media_type="text/plain", text=string(source.get("data"), f"{where}.data"), title=title)]
        case "url":
            return [Document(url=string(source.get("url"), f"{where}.url"), title=title)]
        case "content":
            return _pieces(source.get("content"), title, f"{where}.content", losses)
    text = f"'{where}' refers to a file stored elsewhere: send it as base64 or text"
    raise ClientError(text, code="bad_field", param=where)


def _pieces(content: Any, title: str, where: str, losses: Losses) -> list[Block]:
    """A document that is given in pieces: its text, then its images."""
    pieces = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts: list[str] = []
    images: list[Block] = []
    for at, piece in enumerate(pieces):
        given = piece if isinstance(piece, dict) else {}
        if isinstance(given.get("text"), str):
            texts.append(given["text"])
        elif given.get("type") == "image" and isinstance(given.get("source"), dict):
            images.append(_image(given["source"], f"{where}[{at}].source"))
        else:
            losses.add("document")
    return [Document(media_type="text/plain", text="\n".join(texts), title=title), *images]


def _tools(given: list[_Tool], losses: Losses) -> tuple[list[Tool], set[str]]:
    """The tools that the client runs, and the names of the others."""
    tools: list[Tool] = []
    dropped: set[str] = set()
    for tool in given:
        if tool.cache_control is not None:
            losses.add("cache_control")
        if tool.type not in (None, "custom"):  # the vendor runs it, or knows its schema by heart
            losses.add("server_tools")
            dropped.add(tool.name)
            continue
        if any(getattr(tool, name) is not None for name in _TOOL_FIELDS):
            losses.add("tool_fields")
        schema = tool.input_schema if is_there(tool.input_schema) else None
        tools.append(Tool(tool.name, tool.description, schema, tool.strict))
    return tools, dropped


_CHOICES = {"auto": Choice.AUTO, "any": Choice.REQUIRED, "tool": Choice.NAMED, "none": Choice.NONE}


def _choice(given: _Choice | None, dropped: set[str]) -> ToolChoice | None:
    """A tool that was dropped cannot be chosen."""
    if given is None:
        return None
    mode = _CHOICES.get(given.type)
    if mode is None:
        text = f"'tool_choice.type' is {given.type[:40]!r}: auto, any, tool or none is expected"
        raise ClientError(text, code="bad_field", param="tool_choice.type")
    if mode is Choice.NAMED and given.name in dropped:
        return ToolChoice(Choice.AUTO)
    return ToolChoice(mode, given.name)


def _format(given: _Output | None) -> AnswerFormat | None:
    if given is None or given.format is None:
        return None
    return AnswerFormat(given.format.schema if is_there(given.format.schema) else None, strict=True)


def _reasoning(request: _Request, losses: Losses) -> Reasoning | None:
    given, effort = request.thinking, request.output_config.effort if request.output_config is not None else None
    if given is None:
        return None if effort is None else Reasoning(effort=effort)
    if given.type not in ("enabled", "adaptive", "disabled", "between_tools"):
        text = f"'thinking.type' is {given.type[:40]!r}: enabled, adaptive or disabled is expected"
        raise ClientError(text, code="bad_field", param="thinking.type")
    if given.type == "between_tools":
        losses.add("reasoning")  # when to think: nobody else can be told
    shown = None if given.display is None else given.display != "omitted"
    return Reasoning(given.type != "disabled", given.budget_tokens, effort, shown)
