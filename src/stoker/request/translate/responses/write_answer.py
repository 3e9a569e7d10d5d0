"""An answer as a response, or its events.

`response.created`, `response.in_progress`; then items, numbered from 0, one open at a time: each is added, grows, and
is done; then one terminal event with the whole response, or `error` and `response.failed`. `sequence_number` counts
every event. A closed item is told to be done with the next event, since only that says whether it was cut off.

Thinking travels in `encrypted_content` too, sealed: clients send that back, and drop the text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stoker.domain.answer import (
    SEALED_BY_TOOLS,
    TOOL_SAID_ERROR,
    Answer,
    AnswerBlock,
    Began,
    BlockKind,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
    ToolBegan,
    ToolEnded,
    ToolsListed,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.prompt import RESULTS, SOURCES, Prompt, Redacted, Refusal, Text, Thinking, ToolCall
from stoker.domain.server_tools import McpListing, ServerCall, ServerToolKind, WebPage
from stoker.request.codec.own_replies import StreamPosition, error_event
from stoker.request.codec.required_fields import response_object
from stoker.request.translate.neutral.citations import citations
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, encode, loose
from stoker.request.translate.neutral.protocols import AnswerContext, is_known, prefixed
from stoker.request.translate.neutral.thinking import maker_of
from stoker.request.translate.responses.write_prompt import (
    choice_of,
    format_of,
    instructions_of,
    is_instructions,
    own_name,
    tool_of,
)

CUT = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.CONTEXT: "max_output_tokens",
    StopReason.FILTERED: "content_filter",
}
"""Why a response is incomplete; after any other stop it is completed."""


_REPEATED = (
    "frequency_penalty", "metadata", "presence_penalty", "prompt_cache_key", "safety_identifier", "service_tier",
    "temperature", "top_logprobs", "top_p", "user",
)  # fmt: skip
"""Settings that a response repeats, by the same names."""


class _Shape(NamedTuple):
    prefix: str
    """Of its item's id."""
    event: str
    """The middle of its events' names, and the type of its part."""
    field: str
    """Of its `.done`, and of its part: the whole."""
    in_part: bool


_SHAPES = {
    BlockKind.TEXT: _Shape("msg_", "output_text", "text", True),
    BlockKind.REFUSAL: _Shape("msg_", "refusal", "refusal", True),
    BlockKind.THINKING: _Shape("rs_", "reasoning_text", "text", True),
    BlockKind.REDACTED: _Shape("rs_", "", "", False),
    BlockKind.CALL: _Shape("fc_", "function_call_arguments", "arguments", False),
}
_KINDS: dict[type, BlockKind] = {
    Text: BlockKind.TEXT,
    Refusal: BlockKind.REFUSAL,
    Thinking: BlockKind.THINKING,
    Redacted: BlockKind.REDACTED,
    ToolCall: BlockKind.CALL,
}
_CUSTOM = _Shape("ctc_", "custom_tool_call_input", "input", False)
_INTERNAL_ERROR = -32603
"""Of JSON-RPC, as MCP uses it."""
_TAIL = b',"sequence_number":%d}\n\n'
_TEXT_TAIL = b',"logprobs":[]' + _TAIL


class _Open:
    __slots__ = ("head", "id", "opened", "place", "shape", "signature", "tail", "texts")

    def __init__(self, opened: Opened, id: str, at: int) -> None:
        self.opened = opened
        self.id = id
        self.shape = _shape(opened)
        self.place: dict[str, Any] = {"item_id": id, "output_index": at}
        if self.shape.in_part:
            self.place["content_index"] = 0
        kind = f"response.{self.shape.event}.delta"
        self.head = b'event: %b\ndata: %b,"delta":' % (kind.encode(), encode({"type": kind, **self.place})[:-1])
        self.tail = _TEXT_TAIL if opened.kind is BlockKind.TEXT else _TAIL
        self.texts: list[str] = []
        self.signature = ""

    def said(self) -> AnswerBlock:
        text, opened = "".join(self.texts), self.opened
        match opened.kind:
            case BlockKind.TEXT:
                return Text(text)
            case BlockKind.REFUSAL:
                return Refusal(text)
            case BlockKind.THINKING:
                return Thinking(text, self.signature)
            case BlockKind.REDACTED:
                return Redacted(text)
        return ToolCall(opened.id, opened.name, text, opened.custom)


class ResponsesAnswerWriter:
    """See the module's docstring."""

    content_type = b"text/event-stream; charset=utf-8"

    __slots__ = (
        "_context", "_finish", "_groups", "_id", "_is_refused", "_items", "_model", "_open", "_pages", "_tokens",
        "_tools", "losses", "sequence",
    )  # fmt: skip

    def __init__(self, context: AnswerContext, losses: Losses) -> None:
        self.losses = losses
        self.sequence = 0
        """The next event's number."""
        self._context = context
        self._groups = {tool.name: tool for tool in context.prompt.tools if tool.namespace}
        self._id = prefixed("", "resp_", context.request_id)
        self._model = context.model
        self._open: _Open | None = None
        self._items: list[Raw] = []
        self._tokens = Tokens()
        self._finish = Finished(StopReason.END)
        self._is_refused = False
        self._tools: dict[str, int] = {}
        """Where the items of server tools stand that run, by the calls' ids."""
        self._pages: list[WebPage] = []
        """What those tools brought."""

    def write(self, event: Event) -> bytes:
        match event:
            case Grew(text=text):
                return self._grow(text)
            case Opened():
                return self._close("completed") + self._start(event)
            case Signed(signature=signature) if self._open is not None:
                self._open.signature = signature
            case Began():
                return self._begin(event)
            case Counted(tokens=tokens):
                self._tokens.update(tokens)
            case Finished():
                return self._end_items(event)
            case Failed(error=error):
                return self.fail(error)
            case ToolBegan(call=call):
                return self._close("completed") + self._begin_tool(call)
            case ToolEnded(call=call):
                return self._close("completed") + self._end_tool(call)
            case ToolsListed(listing=listing):
                return self._list_tools(listing)
            case Ended():
                return self._end()
        return b""

    def fail(self, error: StokerError) -> bytes:
        position = self.position()
        self.sequence += 2 if position.has_begun else 3
        return error_event(error, Dialect.RESPONSES, self._context.request_id, position)

    def position(self) -> StreamPosition:
        """How far the stream has come. Its response has the items that are done."""
        return StreamPosition(self.sequence, self._response("in_progress", self._items), self.sequence > 0)

    def write_whole(self, answer: Answer) -> dict[str, Any]:
        self._id = prefixed(answer.id, "resp_", self._context.request_id)
        self._model = answer.model or self._context.model
        self._tokens = answer.tokens
        self._finish = Finished(answer.stop, answer.sequence)
        self._is_refused = any(isinstance(block, Refusal) for block in answer.blocks)
        self._note_stop()
        last = len(answer.blocks) - 1
        items: list[dict[str, Any]] = []
        for at, block in enumerate(answer.blocks):
            if isinstance(block, ServerCall):
                items += self._tool_items(block)
                continue
            if isinstance(block, McpListing):
                items.append(_listing(block))
                continue
            id = f"{_shape(block).prefix}{self._context.request_id}_{at}"
            items.append(self._item(block, id, self._status(at == last)))
        return self._response(self._status(True), items)

    # -- events --------------------------------------------------------------------------------------------------------

    def _begin(self, event: Began) -> bytes:
        self._id = prefixed(event.id, "resp_", self._context.request_id)
        self._model = event.model or self._context.model
        if event.tokens is not None:
            self._tokens.update(event.tokens)
        response = Raw(encode(self._response("in_progress", [])))
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def _start(self, event: Opened) -> bytes:
        at = len(self._items)
        block = self._open = _Open(event, f"{_shape(event).prefix}{self._context.request_id}_{at}", at)
        self._is_refused = self._is_refused or event.kind is BlockKind.REFUSAL
        item = self._item(block.said(), block.id, "in_progress")
        out = self._event("response.output_item.added", output_index=at, item=_begun(item))
        if block.shape.in_part:
            out += self._event("response.content_part.added", **block.place, part=_part(block.shape, ""))
        return out

    def _grow(self, text: str) -> bytes:
        block = self._open
        if block is None:
            return b""
        block.texts.append(text)
        if not block.shape.event:
            return b""
        self.sequence += 1
        return block.head + encode(text) + block.tail % (self.sequence - 1)

    def _close(self, status: str) -> bytes:
        block = self._open
        if block is None:
            return b""
        out = b""
        if block.opened.kind is BlockKind.CALL and not block.opened.custom and not block.texts:
            out = self._grow("{}")  # a call without arguments has none of them, not no text
        shape, text, at = block.shape, "".join(block.texts), len(self._items)
        part = self._cited(_part(shape, text)) if shape.in_part else {}
        for index, one in enumerate(part.get("annotations", ())):
            kind = "response.output_text.annotation.added"
            out += self._event(kind, **block.place, annotation_index=index, annotation=one)
        if shape.event:
            whole: dict[str, Any] = {shape.field: text}
            if block.opened.kind is BlockKind.TEXT:
                whole["logprobs"] = []
            elif block.opened.kind is BlockKind.CALL:
                whole["name"] = block.opened.name
            out += self._event(f"response.{shape.event}.done", **block.place, **whole)
        if shape.in_part:
            out += self._event("response.content_part.done", **block.place, part=part)
        item = Raw(encode(self._item(block.said(), block.id, status)))
        self._items.append(item)
        self._open = None
        return out + self._event("response.output_item.done", output_index=at, item=item)

    def _end_items(self, event: Finished) -> bytes:
        self._finish = event
        self._note_stop()
        return self._close(self._status(True))

    def _end(self) -> bytes:
        out = self._close(self._status(True))
        status = self._status(True)
        return out + self._event(f"response.{status}", response=self._response(status, self._items))

    def _event(self, kind: str, **fields: Any) -> bytes:
        payload = {"type": kind, **fields, "sequence_number": self.sequence}
        self.sequence += 1
        # schemas are repeated as the client wrote them: a line break between their tokens would end the event
        data = encode(payload).replace(b"\n", b" ").replace(b"\r", b" ")
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)

    # -- objects -------------------------------------------------------------------------------------------------------

    def _status(self, is_last: bool) -> str:
        stop = self._finish.stop
        is_cut = stop in CUT and not (stop is StopReason.FILTERED and self._is_refused)
        return "incomplete" if is_cut and is_last else "completed"

    def _note_stop(self) -> None:
        if self._finish.sequence is not None:
            self.losses.add("stop_string")

    def _response(self, status: str, items: list[Any]) -> dict[str, Any]:
        context = self._context
        fields = echo(context.prompt)
        fields["output"] = items
        if status != "in_progress" and is_known(self._tokens):
            fields["usage"] = usage_of(self._tokens)
        if status == "completed":
            fields["completed_at"] = context.created if context.wall is None else int(context.wall())
        elif status == "incomplete":
            fields["incomplete_details"] = {"reason": CUT[self._finish.stop]}
        return response_object(self._id, context.created, self._model, status, fields)

    def _item(self, said: AnswerBlock, id: str, status: str) -> dict[str, Any]:
        match said:
            case Thinking(text=text, signature=signature):
                sealed = self._sealed(text, signature)
                return {**_reasoning(id, sealed, status), "content": [_part(_shape(said), text)]}
            case Redacted(data=data):
                return _reasoning(id, self._context.signer.seal(self._model, "", redacted=data), status)
            case ToolCall():
                return _call(said, id, status) | self._group(said.name)
            case ServerCall():
                return self._tool_item(said)
            case McpListing():
                return _listing(said)
        content = [self._cited(_part(_shape(said), said.text))]
        return {"id": id, "type": "message", "status": status, "role": "assistant", "content": content}

    def _cited(self, part: dict[str, Any]) -> dict[str, Any]:
        if self._pages and "annotations" in part:
            found = citations(part["text"], self._pages)
            part["annotations"] = [{"type": "url_citation", **one} for one in found]
        return part

    # -- server tools --------------------------------------------------------------------------------------------------

    def _begin_tool(self, call: ServerCall) -> bytes:
        at = self._tools[call.id] = len(self._items)
        item = self._tool_item(call, "in_progress")
        self._items.append(Raw(encode(item)))
        place = {"item_id": item["id"], "output_index": at}
        out = self._event("response.output_item.added", output_index=at, item=item)
        if call.kind is ServerToolKind.MCP:
            out += self._event("response.mcp_call.in_progress", **place)
            out += self._event("response.mcp_call_arguments.delta", **place, delta=call.arguments)
            return out + self._event("response.mcp_call_arguments.done", **place, arguments=call.arguments)
        out += self._event("response.web_search_call.in_progress", **place)
        return out + self._event("response.web_search_call.searching", **place)

    def _end_tool(self, call: ServerCall) -> bytes:
        """The item is done, and another one follows, with what it brought: sealed, since clients send that back."""
        if call.is_waiting:
            return self._whole_item(self._tool_item(call))
        at = self._tools.pop(call.id)
        item, *seals = self._tool_items(call)
        self._items[at] = Raw(encode(item))
        if call.kind is ServerToolKind.MCP:
            end = "failed" if call.error else "completed"
            out = self._event(f"response.mcp_call.{end}", item_id=item["id"], output_index=at)
            return out + self._event("response.output_item.done", output_index=at, item=item)
        out = self._event("response.web_search_call.completed", item_id=item["id"], output_index=at)
        out += self._event("response.output_item.done", output_index=at, item=item)
        return out + b"".join(self._whole_item(seal) for seal in seals)

    def _list_tools(self, listing: McpListing) -> bytes:
        item, at = _listing(listing), len(self._items)
        self._items.append(Raw(encode(item)))
        place = {"item_id": item["id"], "output_index": at}
        out = self._event("response.output_item.added", output_index=at, item={**item, "tools": []})
        out += self._event("response.mcp_list_tools.in_progress", **place)
        out += self._event(f"response.mcp_list_tools.{'failed' if listing.error else 'completed'}", **place)
        return out + self._event("response.output_item.done", output_index=at, item=item)

    def _whole_item(self, item: dict[str, Any]) -> bytes:
        at = len(self._items)
        self._items.append(Raw(encode(item)))
        out = self._event("response.output_item.added", output_index=at, item=_begun(item))
        return out + self._event("response.output_item.done", output_index=at, item=item)

    def _tool_items(self, call: ServerCall) -> list[dict[str, Any]]:
        if call.kind is ServerToolKind.MCP:  # its item holds what it brought
            return [self._tool_item(call)]
        self._pages += call.pages
        return [self._tool_item(call), self._tool_seal(call)]

    def _tool_item(self, call: ServerCall, status: str = "") -> dict[str, Any]:
        if call.kind is ServerToolKind.MCP:
            return _mcp_item(call, status)
        arguments = loose(call.arguments.encode())
        said: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        action: dict[str, Any] = {"type": "open_page", "url": str(said.get("url", ""))}
        more: dict[str, Any] = {}
        if call.kind is ServerToolKind.SEARCH:
            query = str(said.get("query", ""))
            action = {"type": "search", "query": query, "queries": [query]}
            if SOURCES in self._context.prompt.include:
                action["sources"] = [{"type": "url", "url": page.url} for page in call.pages]
            if RESULTS in self._context.prompt.include and not status:
                more["results"] = [{"url": one.url, "title": one.title, "snippet": one.text} for one in call.pages]
        status = status or ("failed" if call.error else "completed")
        return {"id": f"ws_{call.id}", "type": "web_search_call", "status": status, "action": action, **more}

    def _tool_seal(self, call: ServerCall) -> dict[str, Any]:
        kept = encode({"call": call.id, "pages": call.pages, "error": call.error}).decode()
        sealed = self._context.signer.seal(self._model, "", redacted=kept, maker=SEALED_BY_TOOLS)
        return _reasoning(f"rs_{call.id}", sealed, "completed")

    def _sealed(self, text: str, signature: str) -> str:
        """What comes back of thinking: with its maker, who alone takes the signature. OpenAI's own is passed on."""
        upstream = self._context.upstream
        maker = "" if upstream is None else maker_of(signature, upstream)
        if maker and upstream is Dialect.RESPONSES:
            return signature
        return self._context.signer.seal(self._model, text, signature, maker=maker)

    def _group(self, name: str) -> dict[str, Any]:
        tool = self._groups.get(name)
        return {} if tool is None else {"name": own_name(tool), "namespace": tool.namespace}


def echo(prompt: Prompt) -> dict[str, Any]:
    """What a response repeats of its request, in this dialect's words. What was not asked for is left out."""
    settings, reasoning, choice = prompt.settings, prompt.reasoning, prompt.tool_choice
    found: dict[str, Any] = {name: settings[name] for name in _REPEATED if name in settings}
    if prompt.turns and is_instructions(prompt.turns[0]):
        found["instructions"] = instructions_of(prompt.turns[0])
    if prompt.max_tokens is not None:
        found["max_output_tokens"] = prompt.max_tokens
    if prompt.parallel_calls is False:
        found["parallel_tool_calls"] = False
    if reasoning is not None:
        found["reasoning"] = {"effort": reasoning.effort, "summary": "auto" if reasoning.shown else None}
    if prompt.format is not None or "verbosity" in settings:
        found["text"] = _text_of(prompt)
    if choice is not None:
        found["tool_choice"] = choice_of(choice, {tool.name for tool in prompt.tools if tool.custom})
    if prompt.tools:
        found["tools"] = [tool_of(tool) for tool in prompt.tools]
    return found | prompt.echoed


def _text_of(prompt: Prompt) -> dict[str, Any]:
    format: dict[str, Any] = {"type": "text"} if prompt.format is None else format_of(prompt.format)
    if format["type"] == "json_schema":
        format = {"description": None, "strict": False, **format}
    verbosity = prompt.settings.get("verbosity")
    return {"format": format} if verbosity is None else {"format": format, "verbosity": verbosity}


def usage_of(tokens: Tokens) -> dict[str, Any]:
    """Both totals are known. The dialect wants numbers for the details: one that nobody counted is 0."""
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached or 0, "cache_write_tokens": tokens.written or 0},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning or 0},
        "total_tokens": (tokens.input or 0) + (tokens.output or 0),
    }


def _shape(block: Opened | AnswerBlock) -> _Shape:
    match block:
        case Opened(kind=BlockKind.CALL, custom=True) | ToolCall(custom=True):
            return _CUSTOM
        case Opened(kind=kind):
            return _SHAPES[kind]
    return _SHAPES[_KINDS[type(block)]]


def _mcp_item(call: ServerCall, status: str) -> dict[str, Any]:
    named = {"server_label": call.server, "name": call.name, "arguments": call.arguments}
    if call.is_waiting:
        return {"id": f"mcpr_{call.id}", "type": "mcp_approval_request", **named}
    error: dict[str, Any] | None = None
    if call.error:
        error = {"type": "mcp_protocol_error", "code": _INTERNAL_ERROR, "message": call.text or call.error}
        if call.error == TOOL_SAID_ERROR:
            content = [{"type": "text", "text": call.text}]
            error = {"type": "mcp_tool_execution_error", "content": content}
    output = None if call.error or status else call.text
    status = status or ("failed" if call.error else "completed")
    return {"id": f"mcp_{call.id}", "type": "mcp_call", "status": status, **named, "output": output, "error": error,
            "approval_request_id": call.approval or None}  # fmt: skip


def _listing(listing: McpListing) -> dict[str, Any]:
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema,
         "annotations": {"read_only": tool.read_only}}
        for tool in listing.tools
    ]  # fmt: skip
    return {"id": f"mcpl_{listing.id}", "type": "mcp_list_tools", "server_label": listing.server, "tools": tools,
            "error": listing.error or None}  # fmt: skip


def _part(shape: _Shape, text: str) -> dict[str, Any]:
    more: dict[str, Any] = {"annotations": [], "logprobs": []} if shape is _SHAPES[BlockKind.TEXT] else {}
    return {"type": shape.event, shape.field: text, **more}


def _reasoning(id: str, sealed: str, status: str) -> dict[str, Any]:
    return {"id": id, "type": "reasoning", "status": status, "summary": [], "encrypted_content": sealed}


def _call(call: ToolCall, id: str, status: str) -> dict[str, Any]:
    out: dict[str, Any] = {"id": id, "status": status, "call_id": call.id or f"call_{id}", "name": call.name}
    if call.custom:
        return out | {"type": "custom_tool_call", "input": call.arguments}
    return out | {"type": "function_call", "arguments": call.arguments or "{}"}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """The item before anything of it was said. What is sealed comes with its end: the schema knows no null for it."""
    empty: dict[str, Any] = {"content": [], "arguments": ""}
    return {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}
