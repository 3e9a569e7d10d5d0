"""OpenAI's legacy Completions (https://platform.openai.com/docs/api-reference/completions). Only clients speak it here.

A request's one prompt is what the user says, and the model answers it. A serve that speaks completions itself gets the
bytes as they are. Here the prompt meets a chat template, so what only makes sense without one (`suffix`, `echo`, token
arrays) is refused instead of answered wrongly. Of an answer, text alone goes out, whatever else the model did.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    StopReason,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import Block, Prompt, Redacted, Refusal, Role, Text, Thinking, ToolCall, Turn
from stoker.request.translate.chat.write_answer import ChunkWriter
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode, has_unknown_field, shaped
from stoker.request.translate.neutral.protocols import AnswerContext

DEFAULT_LIMIT = 16
"""Tokens of an answer where the client names no limit: the dialect's own default."""


class _Request(msgspec.Struct):
    model: str
    prompt: Any = None
    suffix: str | None = None
    echo: bool | None = None
    best_of: int | None = None
    n: int | None = None
    logprobs: int | bool | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    temperature: float | int | None = None
    top_p: float | int | None = None
    top_k: int | None = None
    min_p: float | int | None = None
    seed: int | None = None
    frequency_penalty: float | int | None = None
    presence_penalty: float | int | None = None
    repetition_penalty: float | int | None = None
    logit_bias: dict[str, Any] | None = None
    user: str | None = None


SETTINGS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "logit_bias", "user",
)  # fmt: skip
"""Settings that completions have, by the same names."""
_request = msgspec.json.Decoder(_Request)


def read_prompt(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400."""
    request = shaped(_request, body, "")
    if has_unknown_field(body, _Request):
        losses.add("unknown_field")
    _refuse(request)
    if request.logprobs is not None and request.logprobs is not False:  # 0 asks for those of the chosen tokens
        losses.add("logprobs")
    text = _text(request.prompt)
    blocks: list[Block] = [Text(text)] if text else []
    return Prompt(
        dialect=Dialect.COMPLETIONS,
        model=request.model,
        turns=[Turn(Role.USER, blocks)],
        max_tokens=DEFAULT_LIMIT if request.max_tokens is None else request.max_tokens,
        stop=[request.stop] if isinstance(request.stop, str) else request.stop or [],
        stream=bool(request.stream),
        wants_usage=bool((request.stream_options or {}).get("include_usage")),
        settings={name: value for name in SETTINGS if (value := getattr(request, name)) is not None},
    )


def _refuse(request: _Request) -> None:
    if request.suffix:
        raise _error("suffix", "needs a serve that speaks completions: this model answers in chat turns")
    if request.echo:
        raise _error("echo", "needs a serve that speaks completions: this model cannot repeat the prompt in its answer")
    for name in ("n", "best_of"):
        if getattr(request, name) not in (None, 1):
            raise _error(name, "must be 1 for this model: its serve gives one answer")


def _text(prompt: Any) -> str:
    """1. a string; 2. a list of one string; 3. several prompts, 4. tokens, 5. anything else: refused."""
    if isinstance(prompt, str):
        return prompt  # 1
    if not isinstance(prompt, list) or not prompt:
        raise _error("prompt", "must be a string, or a list of one string")  # 5
    first = prompt[0]
    if isinstance(first, str) and len(prompt) == 1:
        return first  # 2
    if isinstance(first, str):
        raise _error("prompt", f"holds {len(prompt)} prompts: send one prompt per request")  # 3
    if type(first) is int or isinstance(first, list):
        raise _error("prompt", "contains token ids: send text, because token ids mean nothing to another engine")  # 4
    raise _error("prompt", "must be a string, or a list of one string")  # 5


def _error(name: str, text: str) -> ClientError:
    return ClientError(f"'{name}' {text}", code="bad_field", param=name)


STOPS = {
    StopReason.END: "stop",
    StopReason.SEQUENCE: "stop",
    StopReason.PAUSED: "stop",
    StopReason.CALLS: "stop",
    StopReason.LENGTH: "length",
    StopReason.CONTEXT: "length",
    StopReason.FILTERED: "content_filter",
}
_LOST = {
    BlockKind.THINKING: "thinking",
    BlockKind.REDACTED: "thinking_redacted",
    BlockKind.CALL: "call",
    BlockKind.REFUSAL: "refusal",
}
"""What of a block is lost: a refusal its name, the others all."""
_KINDS = {
    Text: BlockKind.TEXT, Refusal: BlockKind.REFUSAL, Thinking: BlockKind.THINKING, Redacted: BlockKind.REDACTED,
    ToolCall: BlockKind.CALL,
}  # fmt: skip
_SAID = (BlockKind.TEXT, BlockKind.REFUSAL)
_CHUNK = b'%b"choices":[{"index":0,"text":%b,"logprobs":null,"finish_reason":%b}]%b}\n\n'


class CompletionsAnswerWriter(ChunkWriter):
    dialect, id_prefix = Dialect.COMPLETIONS, "cmpl-"
    whole_kind = chunk_kind = "text_completion"

    __slots__ = ("_is_said",)

    def __init__(self, context: AnswerContext, losses: Losses) -> None:
        super().__init__(context, losses)
        self._is_said = False
        """The open block is text."""

    def write(self, event: Event) -> bytes:
        match event:
            case Grew(text=text):
                return self._chunk(text) if self._is_said else b""
            case Opened(kind=kind):
                self._open(kind)
            case Began():
                self._begin(event)
            case Counted(tokens=tokens):
                self._tokens.update(tokens)
            case Finished():
                self._on_finished(event)
            case Failed(error=error):
                return self.fail(error)
            case Ended():
                return self._end(self._chunk("", STOPS[self._stop]))
        return b""

    def write_whole(self, answer: Answer) -> dict[str, Any]:
        texts: list[str] = []
        for block in answer.blocks:
            self._open(_KINDS[type(block)])
            if isinstance(block, Text | Refusal):
                texts.append(block.text)
        text, reason = "".join(texts), STOPS[answer.stop]
        return self._whole(answer, {"index": 0, "text": text, "logprobs": None, "finish_reason": reason})

    def _open(self, kind: BlockKind) -> None:
        self._is_said = kind in _SAID
        if kind in _LOST:
            self.losses.add(_LOST[kind])

    def _chunk(self, text: str, finish: str | None = None) -> bytes:
        return _CHUNK % (self._head, encode(text), encode(finish), self._tail)
