"""What an engine is asked once it is ready: which dialects it has paths for, and what its template does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.engines import capabilities as module
from stoker.engines.capabilities import capabilities

ASKS = Serve("a", engine="openai", dialects=frozenset((Dialect.CHAT, Dialect.COMPLETIONS)), asks_dialects=True)
LLAMA = Serve("a", engine="llama.cpp")
Answers = Mapping[str, tuple[int, object]]


def asked(serve: Serve, answers: Answers) -> dict[str, Any]:
    """What is found at an engine with these paths; others are 404."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        status, document = answers.get(path, (404, {}))
        body = json.dumps(document(await _body(head, reader)) if isinstance(document, Callable) else document).encode()
        if status:
            writer.write(b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()

    async def run() -> dict[str, Any]:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        async with server:
            return dict(await capabilities(serve, Target("127.0.0.1", server.sockets[0].getsockname()[1])))

    return asyncio.run(run())


async def _body(head: bytes, reader: asyncio.StreamReader) -> Any:
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return json.loads(await reader.readexactly(int(length.partition(b":")[2])))


def test_a_path_that_is_not_there_is_a_dialect_less() -> None:
    found = asked(ASKS, {"/v1/chat/completions": (400, {}), "/v1/messages": (422, {}), "/v1/responses": (405, {})})
    assert found == {"speaks": "chat,completions,messages"}


def test_where_nothing_is_there_the_answers_tell_nothing() -> None:
    assert asked(ASKS, {}) == {}


def test_who_does_not_answer_is_not_asked_twice() -> None:
    assert asked(ASKS, {"/v1/chat/completions": (400, {}), "/v1/messages": (0, {}), "/v1/responses": (400, {})}) == {}


def test_who_said_what_it_speaks_is_not_asked() -> None:
    assert asked(Serve("a", engine="openai"), {"/v1/chat/completions": (400, {})}) == {}


def rendered(*order: int) -> Callable[[Any], dict[str, str]]:
    """A template that puts the turns in this order."""
    return lambda body: {"prompt": " ".join(body["messages"][at]["content"] for at in order)}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((200, rendered(0, 1, 2, 3)), "keep"),
        ((200, rendered(2, 0, 1, 3)), "append"),
        ((200, rendered(0, 1, 3)), "append"),
        ((500, {"error": "roles must alternate"}), "append"),
    ],
)
def test_a_template_is_asked_whether_it_has_system_turns_in_mid_conversation(answer: Any, kind: str) -> None:
    assert asked(LLAMA, {"/apply-template": answer}) == {"system_turns": kind}


def test_a_template_that_does_not_answer_in_time_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    assert asked(LLAMA, {"/apply-template": (0, {})}) == {}
