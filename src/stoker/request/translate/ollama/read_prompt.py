"""/api/chat and /api/generate requests as a Prompt.

Of /api/chat: messages become turns: a run of one role is one turn; `tool` messages are the user's, as results, in their
order. Calls without an id get one made of their place: `call_MESSAGE_N`. Images stand before their message's text, as
Ollama has it. Of /api/generate: the system's text, then what the user says, images first.

Ollama ignores options that it does not know. So does this, and names the loss.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    AnswerFormat,
    Block,
    Prompt,
    Reasoning,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from stoker.request.translate.neutral import media
from stoker.request.translate.neutral.calls import read_id
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, has_unknown_field, is_there, shaped, text_in


class OllamaRequest(msgspec.Struct):
    """Fields of both requests. null is as good as absent."""

    model: str
    stream: bool | None = None
    """Unlike everywhere else, absent means yes."""
    options: dict[str, Any] | None = None
    format: Raw = Raw()  # `Raw | None` would take null alone
    think: bool | str | None = None
    keep_alive: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


SETTINGS = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "seed": "seed",
    "repeat_penalty": "repetition_penalty", "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}  # fmt: skip
"""Names of options -> names of settings."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_WHOLE = ("top_k", "seed", "num_predict")


def prompt_of(request: OllamaRequest, dialect: Dialect, turns: list[Turn], tools: list[Tool], losses: Losses) -> Prompt:
    """Raises ClientError 400 for options and formats that cannot be read."""
    if request.keep_alive is not None:
        losses.add("keep_alive")
    options = {name: value for name, value in (request.options or {}).items() if value is not None}
    limit = _number(options, "num_predict")
    stop = _stop(options.pop("stop", None))
    settings = {ours: value for theirs, ours in SETTINGS.items() if (value := _number(options, theirs)) is not None}
    if request.logprobs:
        settings["logprobs"] = True
        if request.top_logprobs:
            settings["top_logprobs"] = request.top_logprobs
    if settings.get("seed", 0) < 0:  # Ollama's word for any seed; to others it is a seed like any other
        del settings["seed"]
    if options:
        losses.add("unknown_field")
    return Prompt(
        dialect=dialect,
        model=request.model,
        turns=turns,
        tools=tools,
        max_tokens=limit if limit is not None and limit > 0 else None,  # -1 and -2: until the end, or the context's
        stop=stop,
        stream=request.stream is not False,
        format=_format(request.format),
        reasoning=_reasoning(request.think, losses),
        continues=bool(turns) and turns[-1].role is Role.ASSISTANT,
        settings=settings,
    )


def _number(options: dict[str, Any], name: str) -> Any:
    """An option, taken out; whole ones may be written with a point."""
    value = options.pop(name, None)
    if value is not None and type(value) not in (int, float):
        raise _error(f"options.{name}", "must be a number")
    return int(value) if value is not None and name in _WHOLE else value


def _stop(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _error("options.stop", "must be a string, or a list of strings")
    return texts


def _format(given: Raw) -> AnswerFormat | None:
    """1. nothing, null, an empty string; 2. `"json"`; 3. a schema, as the client wrote it; 4. refused."""
    if not is_there(given) or bytes(given) == b'""':
        return None  # 1
    if bytes(given) == b'"json"':
        return AnswerFormat()  # 2
    if bytes(given).startswith(b"{"):
        return AnswerFormat(schema=given, strict=True)  # 3
    raise _error("format", 'must be "json" or a JSON schema')  # 4


def _reasoning(think: bool | str | None, losses: Losses) -> Reasoning | None:
    if think is None:
        return None
    if isinstance(think, bool):
        return Reasoning(enabled=think)
    if think in EFFORTS:
        return Reasoning(effort=think)
    losses.add("reasoning")  # a level of some model's own: Ollama goes on with the model's default
    return None


def _error(where: str, text: str) -> ClientError:
    return ClientError(f"'{where}' {text}", code="bad_field", param=where)


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


class _ChatRequest(OllamaRequest):
    messages: list[Raw] | None = None
    tools: list[_Tool] | None = None


_ROLES = {
    "system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.USER,
}  # fmt: skip
_chat_request = msgspec.json.Decoder(_ChatRequest)
_message = msgspec.json.Decoder(_Message)


class UnansweredCalls:
    """Calls of the last assistant turn that have no result yet. Ollama's messages need not say to which one a result
    belongs:

    1. the result names a call's id that waits   -> that call
    2. it names a tool that was called           -> that tool's first call that waits
    3. anything else                             -> the first call that waits
    4. no call waits                             -> none: the result is an orphan

    Each step is constant on average: calls are queued once and taken out once.
    """

    __slots__ = ("_by_name", "_ids", "_in_order")

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._in_order: deque[str] = deque()
        self._by_name: dict[str, deque[str]] = {}

    def add(self, call: ToolCall) -> None:
        self._ids.add(call.id)
        self._in_order.append(call.id)
        self._by_name.setdefault(call.name, deque()).append(call.id)

    def take(self, id: str, name: str) -> str | None:
        """The id of the call that this result is for, which waits no longer; None: no call waits."""
        if id in self._ids:
            self._ids.discard(id)
            return id  # 1
        found = self._first(self._by_name.get(name))  # 2
        return found if found is not None else self._first(self._in_order)  # 3, 4

    def _first(self, queue: deque[str] | None) -> str | None:
        while queue:
            id = queue.popleft()
            if id in self._ids:
                self._ids.discard(id)
                return id
        return None


def read_prompt(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400.

    A request without messages only loads the model, or unloads it: its Prompt has no turns, nothing is to be asked,
    and the caller answers with `load_answer` itself (`wants_unload` says which it is).
    """
    request = shaped(_chat_request, body, "")
    if has_unknown_field(body, _ChatRequest):
        losses.add("unknown_field")
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
    return text_in(raw, where) if is_there(raw) else ""


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


class _GenerateRequest(OllamaRequest):
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    images: list[str] | None = None
    template: str | None = None
    raw: bool | None = None
    context: Any = None


_generate_request = msgspec.json.Decoder(_GenerateRequest)
_REFUSED = {
    "suffix": "needs a serve that speaks completions: this model answers in chat turns",
    "raw": "cannot be true: the model's own template is always applied; ask /v1/completions of a serve that speaks it",
    "template": "cannot be given: the model's own template is always applied",
}


def read_generate(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400.

    A request without a prompt only loads the model, or unloads it, as in `read_prompt`: its Prompt has no turns.
    """
    request = shaped(_generate_request, body, "")
    if has_unknown_field(body, _GenerateRequest):
        losses.add("unknown_field")
    for name, text in _REFUSED.items():
        if getattr(request, name):
            raise ClientError(f"'{name}' {text}", code="bad_field", param=name)
    if request.context:
        losses.add("context")
    turns: list[Turn] = []
    if request.prompt:
        if request.system:
            turns.append(Turn(Role.SYSTEM, [Text(request.system)]))
        turns.append(Turn(Role.USER, [*pictures(request.images, "images"), Text(request.prompt)]))
    return prompt_of(request, Dialect.OLLAMA_GENERATE, turns, [], losses)
