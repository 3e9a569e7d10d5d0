"""One request's way through the translation, for a test: what a client asked, and what it gets for a world's answer."""

from __future__ import annotations

import json
from typing import Any

from tests.request.translate.properties.translation_worlds import OWN, SHORT

from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.request.codec.own_replies import error_event
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator, Written, read_prompt

SIGNER = ThinkingSigner((b"a key",))
_TURN = {"messages": [{"role": "user", "content": "u"}]}
_ASKING: dict[Dialect, dict[str, Any]] = {
    Dialect.CHAT: {**_TURN, "stream_options": {"include_usage": True}},
    Dialect.MESSAGES: {**_TURN, "max_tokens": 9},
    Dialect.RESPONSES: {"input": "u", "instructions": "i"},
    Dialect.COMPLETIONS: {"prompt": "u", "stream_options": {"include_usage": True}},
    Dialect.OLLAMA_CHAT: _TURN,
    Dialect.OLLAMA_GENERATE: {"prompt": "u"},
}
CLIENTS = tuple(_ASKING)


def translator(upstream: Dialect, client: Dialect, **more: Any) -> AnswerTranslator:
    """`more` is asked too, or instead."""
    body = json.dumps({"model": "m", "stream": True, **_ASKING[client], **more}).encode()
    prompt, _ = read_prompt(client, body)
    written = Written(prompt, b"", {SHORT: OWN}, Losses())
    return AnswerTranslator(upstream, written, AnswerContext(prompt, "req_1", 1_700_000_000, SIGNER, "m"))


def through(client: Dialect, translator: AnswerTranslator, pieces: list[bytes]) -> bytes:
    """All that the client is sent, when the upstream then closes; with its one error, if that was no proper end."""
    out = b"".join([translator.feed(piece) for piece in pieces])
    is_over = translator.has_ended()
    out += translator.take_rest()
    if is_over:
        return out
    error = UpstreamError("it broke off", code="upstream_broke")
    return out + error_event(error, client, "req_1", translator.position())
