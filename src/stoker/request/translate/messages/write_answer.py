"""An answer as a message, or its events.

`message_start`, then blocks numbered from 0, one open at a time, then one `message_delta` with all that is known of
usage, and `message_stop`. Every block of thinking is signed. Arguments that do not begin as an object are held until
their block closes, and then sent as one that does.
"""

from __future__ import annotations

from typing import Any

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Closed,
    Counted,
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
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking
from stoker.domain.server_tools import McpListing, ServerCall, ServerToolKind, WebPage
from stoker.request.codec.own_replies import error_event
from stoker.request.translate.neutral.calls import as_object, is_plain_start, spelt_id
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, encode
from stoker.request.translate.neutral.protocols import AnswerContext, prefixed
from stoker.request.translate.neutral.thinking import Signature, maker_of

STOPS = {
    StopReason.END: "end_turn",
    StopReason.SEQUENCE: "stop_sequence",
    StopReason.PAUSED: "pause_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.CONTEXT: "model_context_window_exceeded",
    StopReason.CALLS: "tool_use",
    StopReason.FILTERED: "refusal",
}
_OPENINGS = {
    BlockKind.TEXT: b'{"type":"text","text":""}', BlockKind.REFUSAL: b'{"type":"text","text":""}',
    BlockKind.THINKING: b'{"type":"thinking","thinking":"","signature":""}',
}  # fmt: skip
_DELTAS = {
    BlockKind.TEXT: b'{"type":"text_delta","text":%b}', BlockKind.REFUSAL: b'{"type":"text_delta","text":%b}',
    BlockKind.THINKING: b'{"type":"thinking_delta","thinking":%b}',
    BlockKind.CALL: b'{"type":"input_json_delta","partial_json":%b}',
}  # fmt: skip
_START = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'


class MessagesAnswerWriter:
    """See the module's docstring."""

    content_type = b"text/event-stream; charset=utf-8"

    __slots__ = (
        "_context", "_finish", "_given_signature", "_held", "_is_plain", "_is_refused", "_kind", "_model", "_signature",
        "_tokens", "_tool_uses", "losses",
    )  # fmt: skip

    def __init__(self, context: AnswerContext, losses: Losses) -> None:
        self.losses = losses
        self._context = context
        self._model = context.model
        self._kind = BlockKind.TEXT
        self._held: list[str] | None = None
        """A call's arguments, while it is not sure that they are an object; what is redacted, until it is whole."""
        self._is_plain: bool | None = None
        """Whether the call's arguments begin as an object; None: they have not begun."""
        self._signature: Signature | None = None
        self._given_signature = ""
        self._tokens = Tokens(input=context.input_tokens)
        self._finish = Finished(StopReason.END)
        self._is_refused = False
        self._tool_uses: dict[str, int] | None = None
        """Calls of server tools that worked, as usage counts them; None: none was called."""

    def write(self, event: Event) -> bytes:
        match event:
            case Grew(at=at, text=text):
                return self._grow(at, text)
            case Opened():
                return self._open(event)
            case Closed(at=at):
                return self._close(at)
            case Signed(signature=signature):
                self._given_signature = signature
            case Began():
                return self._begin(event)
            case Counted(tokens=tokens):
                self._tokens.update(tokens)
            case Finished():
                self._finish = event
            case Failed(error=error):
                return self.fail(error)
            case ToolBegan(at=at, call=call):
                return self._begin_tool(at, call)
            case ToolEnded(at=at, call=call):
                return _START % (at, encode(self._tool_result(call))) + _STOP % at
            case ToolsListed():
                return b""  # Messages has no block for it
            case _:
                return self._end()
        return b""

    def fail(self, error: StokerError) -> bytes:
        return error_event(error, Dialect.MESSAGES, self._context.request_id)

    def write_whole(self, answer: Answer) -> dict[str, Any]:
        self._model = answer.model or self._context.model
        self._tokens.update(answer.tokens)
        content: list[dict[str, Any]] = []
        cut = answer.stop in (StopReason.LENGTH, StopReason.CONTEXT)
        for block in answer.blocks:
            match block:
                case Text(text=text):
                    content.append({"type": "text", "text": text})
                case Refusal(text=text):
                    self._is_refused = True
                    content.append({"type": "text", "text": text})
                case Thinking(text=text, signature=signature):
                    signature = self._signed(signature) or self._context.signer.sign(self._model, text)
                    content.append({"type": "thinking", "thinking": text, "signature": signature})
                case Redacted(data=data):
                    content.append({"type": "redacted_thinking", "data": data})
                case ServerCall():
                    content += (_tool_use(block, Raw(block.arguments.encode())), self._tool_result(block))
                case McpListing():
                    pass
                case _:
                    given = as_object(block.arguments, self.losses, whole=not cut)
                    content.append({"type": "tool_use", "id": spelt_id(block.id), "name": block.name, "input": given})
        return {
            "id": prefixed(answer.id, "msg_", self._context.request_id),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": self._stop(answer.stop),
            "stop_sequence": answer.sequence,
            "usage": self._usage(),
        }

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _begin(self, event: Began) -> bytes:
        self._model = event.model or self._context.model
        if event.tokens is not None:
            self._tokens.update(event.tokens)
        message: dict[str, Any] = {
            "id": prefixed(event.id, "msg_", self._context.request_id),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_of(self._tokens),
        }
        return _named({"type": "message_start", "message": message})

    def _open(self, event: Opened) -> bytes:
        self._kind = event.kind
        match event.kind:
            case BlockKind.CALL:
                self._held, self._is_plain = [], None
                block = {"type": "tool_use", "id": spelt_id(event.id), "name": event.name, "input": {}}
                return _START % (event.at, encode(block))
            case BlockKind.REDACTED:  # its data stands in the start
                self._held = []
                return b""
            case BlockKind.THINKING:
                self._signature, self._given_signature = self._context.signer.begin(self._model), ""
            case BlockKind.REFUSAL:
                self._is_refused = True
        return _START % (event.at, _OPENINGS[event.kind])

    def _grow(self, at: int, text: str) -> bytes:
        match self._kind:
            case BlockKind.REDACTED if self._held is not None:
                self._held.append(text)
                return b""
            case BlockKind.THINKING if self._signature is not None:
                self._signature.update(text)
            case BlockKind.CALL if self._held is not None:
                self._held.append(text)
                if self._is_plain is None:
                    self._is_plain = is_plain_start(text)
                if not self._is_plain:
                    return b""
                text, self._held = "".join(self._held), None
        return _DELTA % (at, _DELTAS[self._kind] % encode(text))

    def _close(self, at: int) -> bytes:
        out = b""
        if self._kind is BlockKind.THINKING and self._signature is not None:
            signature = self._signed(self._given_signature) or self._signature.finish(self._model)
            out = _DELTA % (at, encode({"type": "signature_delta", "signature": signature}))
        elif self._kind is BlockKind.REDACTED and self._held is not None:
            out = _START % (at, encode({"type": "redacted_thinking", "data": "".join(self._held)}))
        elif self._kind is BlockKind.CALL and self._held:
            given = bytes(as_object("".join(self._held), self.losses)).decode()
            out = _DELTA % (at, _DELTAS[BlockKind.CALL] % encode(given))
        self._held = self._signature = None
        return out + _STOP % at

    def _signed(self, signature: str) -> str:
        """The signature as the client keeps it: that of another vendor is sealed, so that it goes back to that one."""
        upstream = self._context.upstream
        if not signature or upstream is None or upstream is Dialect.MESSAGES:
            return signature
        return self._context.signer.seal(self._model, "", signature, maker=maker_of(signature, upstream))

    def _end(self) -> bytes:
        delta = {"stop_reason": self._stop(self._finish.stop), "stop_sequence": self._finish.sequence}
        event = {"type": "message_delta", "delta": delta, "usage": self._usage()}
        return _named(event) + b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    def _usage(self) -> dict[str, Any]:
        used = {} if self._tool_uses is None else {"server_tool_use": self._tool_uses}
        return {**usage_of(self._tokens), **used}

    # -- server tools ------------------------------------------------------------------------------------------------

    def _begin_tool(self, at: int, call: ServerCall) -> bytes:
        start = _START % (at, encode(_tool_use(call, {})))
        return start + _DELTA % (at, _DELTAS[BlockKind.CALL] % encode(call.arguments)) + _STOP % at

    def _tool_result(self, call: ServerCall) -> dict[str, Any]:
        """The block with what came of it. What a search found goes sealed, as with Anthropic: clients send it back."""
        if call.kind is ServerToolKind.MCP:
            text = {"type": "text", "text": call.text or call.error}
            return {"type": "mcp_tool_result", "tool_use_id": _tool_id(call), "is_error": bool(call.error),
                    "content": [text]}  # fmt: skip
        uses = self._tool_uses = self._tool_uses or {"web_search_requests": 0, "web_fetch_requests": 0}
        name = call.kind.value
        uses[f"{name}_requests"] += not call.error
        result: dict[str, Any] = {"type": f"{name}_tool_result", "tool_use_id": _tool_id(call)}
        if call.error:
            content: Any = {"type": f"{name}_tool_result_error", "error_code": call.error}
        elif call.kind is ServerToolKind.SEARCH:
            content = [
                {
                    "type": "web_search_result",
                    "url": page.url,
                    "title": page.title,
                    "encrypted_content": self._context.signer.seal(self._model, page.text),
                    "page_age": page.age or None,
                }
                for page in call.pages
            ]
        else:
            page = call.pages[0] if call.pages else WebPage("")
            source = {"type": "text", "media_type": "text/plain", "data": page.text}
            document = {"type": "document", "title": page.title or None, "source": source, "citations": None}
            content = {"type": "web_fetch_result", "url": page.url, "retrieved_at": page.age or None,
                       "content": document}  # fmt: skip
        return {**result, "content": content, "caller": {"type": "direct"}}

    def _stop(self, stop: StopReason) -> str:
        return STOPS[StopReason.FILTERED if self._is_refused and stop is StopReason.END else stop]


def _tool_id(call: ServerCall) -> str:
    return f"{'mcptoolu' if call.kind is ServerToolKind.MCP else 'srvtoolu'}_{call.id}"


def _tool_use(call: ServerCall, input: Any) -> dict[str, Any]:
    if call.kind is ServerToolKind.MCP:
        named = {"type": "mcp_tool_use", "id": _tool_id(call), "name": call.name, "server_name": call.server}
        return {**named, "input": input}
    kind = {"type": "server_tool_use", "id": _tool_id(call), "name": call.kind.value}
    return {**kind, "input": input, "caller": {"type": "direct"}}


def usage_of(tokens: Tokens) -> dict[str, Any]:
    """As Messages counts: the input is what was neither cached nor written to the cache. The dialect wants numbers for
    both totals: one that nobody counted is 0; what may be null is.
    """
    fresh = (tokens.input or 0) - (tokens.cached or 0) - (tokens.written or 0)
    out: dict[str, Any] = {
        "input_tokens": max(fresh, 0),
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output or 0,
    }
    if tokens.reasoning is not None:
        out["output_tokens_details"] = {"thinking_tokens": tokens.reasoning}
    return out


def _named(event: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode(event))
