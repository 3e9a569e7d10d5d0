"""The probe client reads what servers send, and is never held up or filled up by them."""

from __future__ import annotations

import asyncio

import pytest

from stoker.domain.lease import Target
from stoker.http import client
from stoker.http.client import HttpResponse, NoResponse


def asked(reply: bytes, payload: object = None, timeout: float = 2.0, stay: bool = False) -> tuple[HttpResponse, bytes]:
    """What `ask` makes of `reply`, and the request that it sent."""
    seen: list[bytes] = []

    async def main() -> HttpResponse:
        leave = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.read(65536))
            writer.write(reply)
            if stay:
                await leave.wait()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            return await client.ask(Target("127.0.0.1", port, "/base", key="sesame"), "/x", payload, timeout)
        finally:
            leave.set()
            server.close()
            await asyncio.sleep(0)

    return asyncio.run(main()), b"".join(seen)


@pytest.mark.parametrize(
    "rest",
    [
        b'Content-Length: 8\r\n\r\n{"a": 1}',
        b'Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n5;x=y\r\n": 1}\r\n0\r\n\r\n',
        b'Content-Type: application/json\r\n\r\n{"a": 1}',
    ],
    ids=["length", "chunked", "until the end"],
)
def test_bodies_of_each_framing_are_read(rest: bytes) -> None:
    answer, request = asked(b"HTTP/1.1 200 OK\r\n" + rest)
    assert (answer.status, answer.json()) == (200, {"a": 1})
    assert request.startswith(b"GET /base/x HTTP/1.1\r\n")
    assert b"Authorization: Bearer sesame\r\n" in request


def test_a_payload_is_posted_as_json() -> None:
    answer, request = asked(b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", {"n": 1})
    assert (answer.status, answer.json()) == (503, None)
    assert request.startswith(b"POST /base/x HTTP/1.1\r\n")
    assert request.endswith(b'Content-Length: 8\r\n\r\n{"n": 1}')


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"", "does not speak HTTP"),
        (b"SSH-2.0-x\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "does not speak HTTP"),
    ],
)
def test_what_is_no_answer_says_why(reply: bytes, said: str) -> None:
    with pytest.raises(NoResponse, match=said):
        asked(reply)


def test_silence_ends_at_the_timeout() -> None:
    with pytest.raises(NoResponse, match=r"no answer within 0\.1 s"):
        asked(b"HTTP/1.1 200 OK\r\n", timeout=0.1, stay=True)


def test_a_huge_body_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BODY_LIMIT", 10)
    for rest in (b"Content-Length: 30\r\n\r\n", b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n1e\r\n"):
        answer, _ = asked(b"HTTP/1.1 200 OK\r\n" + rest + b"x" * 30, stay=True)
        assert answer.body == b"x" * 10
