"""An /api/chat request as a Prompt.

messages become turns: a run of one role is one turn; `tool` messages are the user's, as results, in their order. Calls
without an id get one made of their place: `call_MESSAGE_N`. Images stand before their message's text, as Ollama has it.
"""

from __future__ import annotations

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import Block, Prompt, Role, Text, Thinking, Tool, ToolCall, ToolResult, Turn
from stoker.request.translate.neutral import media
from stoker.request.translate.neutral.calls import read_id
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, is_there, shaped
from stoker.request.translate.ollama.request_fields import OllamaRequest, note_unknown, prompt_of
from stoker.request.translate.ollama.result_matching import UnansweredCalls

_NONE = Raw()


class _Function(msgspec.Struct):
    name: str = ""
    arguments: Raw = _NONE
    description: str | None = None
    parameters: Raw = _NONE


class _Call(msgspec.Struct):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None
    name: str | None = None
    """The tool's, as clients wrote it before `tool_name`."""
    tool_call_id: str | None = None


class _Tool(msgspec.Struct):
    type: str = "function"
    function: _Function | None = None


class _Request(OllamaRequest):
    messages: list[Raw] | None = None
    tools: list[_Tool] | None = None


_ROLES = {
    "system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.USER,
}  # fmt: skip
_request = msgspec.json.Decoder(_Request)
_message = msgspec.json.Decoder(_Message)
_string = msgspec.json.Decoder(str)


def read_prompt(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400.

    A request without messages only loads the model, or unloads it: its Prompt has no turns, nothing is to be asked,
    and the caller answers with `load_answer` itself (`wants_unload` says which it is).
    """
    request = shaped(_request, body, "")
    note_unknown(body, _Request, losses)
    turns: list[Turn] = []
    waiting = UnansweredCalls()
    for at, raw in enumerate(request.messages or ()):
        message = shaped(_message, raw, f"messages[{at}]")
        role = _role(message, f"messages[{at}].role")
        is_another = not turns or turns[-1].role is not role or role is Role.SYSTEM
        if is_another:
            turns.append(Turn(role, []))
        if is_another and role is Role.ASSISTANT:
            waiting = UnansweredCalls()
        turns[-1].blocks += _blocks(message, at, waiting)
    tools = _tools(request.tools or [], losses)
    return prompt_of(request, Dialect.OLLAMA_CHAT, turns, tools, losses)


def _role(message: _Message, where: str) -> Role:
    role = _ROLES.get(message.role.lower())
    if role is None:
        text = f"'{where}' is {message.role[:40]!r}: system, user, assistant or tool is expected"
        raise ClientError(text, code="bad_field", param=where)
    return role


def _blocks(message: _Message, at: int, waiting: UnansweredCalls) -> list[Block]:
    where = f"messages[{at}]"
    content = pictures(message.images, f"{where}.images")
    if message.content:
        content.append(Text(message.content))
    match message.role.lower():
        case "tool":
            id = waiting.take(message.tool_call_id or "", message.tool_name or message.name or "")
            return [ToolResult(id or message.tool_call_id or f"result_{at}", content)]
        case "assistant":
            thought: list[Block] = [Thinking(message.thinking)] if message.thinking else []
            calls = [_call(call, at, n) for n, call in enumerate(message.tool_calls or ())]
            for call in calls:
                waiting.add(call)
            return [*thought, *content, *calls]
        case "system" | "developer" if message.images:  # every template's system turn is text
            text = f"'{where}.images': a system message may contain only text; send images in a user message"
            raise ClientError(text, code="bad_field", param=f"{where}.images")
    return content


def pictures(images: list[str] | None, where: str) -> list[Block]:
    """Raises ClientError 400 `bad_image`."""
    return [media.image(data, f"{where}[{n}]") for n, data in enumerate(images or ())]


def _call(call: _Call, at: int, n: int) -> ToolCall:
    where = f"messages[{at}].tool_calls[{n}].function.arguments"
    return ToolCall(
        read_id(call.id) or f"call_{at}_{n}", call.function.name, _arguments(call.function.arguments, where)
    )


def _arguments(raw: Raw, where: str) -> str:
    """The object's text, byte for byte; the text in a string, which is how clients of OpenAI's write it."""
    text = bytes(raw)
    if not is_there(raw):
        return ""
    if text[:1] == b'"':
        return shaped(_string, text, where)
    return text.decode()  # the whole body was found to be UTF-8 before


def _tools(given: list[_Tool], losses: Losses) -> list[Tool]:
    tools: list[Tool] = []
    for at, tool in enumerate(given):
        function = tool.function
        if tool.type != "function":
            losses.add("server_tools")
        elif function is None:
            where = f"tools[{at}].function"
            raise ClientError(f"'{where}' is missing", code="bad_field", param=where)
        else:
            schema = function.parameters if is_there(function.parameters) else None
            tools.append(Tool(function.name, function.description, schema))
    return tools
