"""The reply on its way to a client whose response is stored: however its bytes are cut, the client reads the same."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker.request.stored_responses.capture import ResponseCapture

MAX = 10_000
SSE = [(b"content-type", b"text/event-stream")]
JSON = [(b"content-type", b"application/json")]
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}


class Client:
    """What reached it."""

    on_resume: Callable[[], None] | None = None
    is_paused = False

    def __init__(self) -> None:
        self.received = b""
        self.end = ""

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None: ...

    def write(self, data: bytes) -> None:
        self.received += data

    def finish(self, last: bytes = b"") -> None:
        self.received += last
        self.end = "finished"

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        self.received, self.end = body, "finished"

    def break_off(self) -> None:
        self.end = "broken off"

    def close_after(self) -> None: ...


def event(kind: str, line_end: str = "\n", **fields: Any) -> bytes:
    return f"event: {kind}{line_end}data: {json.dumps({'type': kind, **fields})}{line_end * 2}".encode()


def response(status: str, output: list[Any]) -> dict[str, Any]:
    return {"id": "resp_of_the_serve", "status": status, "output": output, "store": False}


def stream(line_end: str = "\n", output: list[Any] | None = None, last: str = "response.completed") -> bytes:
    return b"".join(
        [
            event("response.created", line_end, response=response("in_progress", [])),
            event("response.output_text.delta", line_end, delta='the word "response" in it'),
            event("response.output_item.done", line_end, item=ITEM),
            event(last, line_end, response=response("completed", [ITEM] if output is None else output)),
            b"data: [DONE]\n\n",
        ]
    )


def capture(client: Client) -> ResponseCapture:
    return ResponseCapture(client, {"id": "resp_ours", "store": True}, MAX)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def payloads(received: bytes) -> list[Any]:
    lines = [line[6:] for line in received.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


@given(st.lists(st.integers(0, 2000), max_size=20), st.sampled_from(["\n", "\r\n"]))
def test_a_stream_has_our_id_and_its_end_waits_for_the_release(cuts: list[int], line_end: str) -> None:
    client = Client()
    captured = capture(client)
    captured.start(200, SSE)
    for piece in pieces(stream(line_end), cuts):
        captured.write(piece)
    captured.finish()
    kinds = [one["type"] for one in payloads(client.received)]
    assert kinds == ["response.created", "response.output_text.delta", "response.output_item.done"]
    assert client.end == ""
    captured.release()
    first, *_, last = payloads(client.received)
    assert (first["response"]["id"], last["response"]["id"]) == ("resp_ours", "resp_ours")
    assert (last["response"]["store"], last["response"]["output"]) == (True, [ITEM])
    assert client.received.endswith(b"data: [DONE]\n\n")
    assert client.end == "finished"


def test_what_could_not_be_stored_says_so() -> None:
    client = Client()
    captured = capture(client)
    captured.start(200, SSE)
    captured.write(stream())
    captured.finish()
    captured.release({"store": False})
    assert payloads(client.received)[-1]["response"]["store"] is False


def test_items_that_the_last_event_leaves_out_come_from_the_events_before() -> None:
    captured = capture(Client())
    captured.start(200, SSE)
    captured.write(stream(output=[]))
    assert captured.response is not None
    assert json.loads(bytes(captured.response["output"])) == [ITEM]


def test_an_incomplete_response_is_stored_and_a_failed_one_is_not() -> None:
    for last, is_stored in (("response.incomplete", True), ("response.failed", False), ("error", False)):
        client = Client()
        captured = capture(client)
        captured.start(200, SSE)
        captured.write(stream(last=last))
        captured.finish()
        assert (captured.response is not None) is is_stored, last
        assert (client.end == "finished") is not is_stored, last


def test_a_stream_without_its_last_event_passes_and_nothing_is_stored() -> None:
    client = Client()
    captured = capture(client)
    captured.start(200, SSE)
    cut_off = stream()[:400]
    captured.write(cut_off)
    captured.finish()
    assert captured.response is None
    assert client.end == "finished"


def test_a_reply_that_breaks_off_is_not_stored() -> None:
    client = Client()
    captured = capture(client)
    captured.start(200, SSE)
    captured.write(stream()[:-14])
    captured.break_off()
    assert captured.response is None
    captured.release()
    assert client.end == "broken off"


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_bytes_that_are_no_events_pass_unchanged(data: bytes, cuts: list[int]) -> None:
    data = data.replace(b"\r", b"").replace(b'"response"', b"")
    client = Client()
    captured = capture(client)
    captured.start(200, SSE)
    for piece in pieces(data, cuts):
        captured.write(piece)
    captured.finish()
    assert (client.received, captured.response) == (data, None)


def test_an_event_beyond_the_bound_passes_and_is_not_stored() -> None:
    client = Client()
    captured = capture(client)
    captured.start(200, SSE)
    large = event("response.completed", response=response("completed", [{"text": "x" * 3 * MAX}]))
    for piece in pieces(large, list(range(0, len(large), 1000))):
        captured.write(piece)
    captured.finish()
    assert (client.received, captured.response, client.end) == (large, None, "finished")


def test_only_a_200_that_is_not_compressed_is_read() -> None:
    for status, headers in ((500, SSE), (200, [*SSE, (b"content-encoding", b"gzip")])):
        client = Client()
        captured = capture(client)
        captured.start(status, headers)
        captured.write(stream())
        captured.finish()
        assert (client.received, captured.response) == (stream(), None)


def test_a_whole_reply_is_held_until_the_release() -> None:
    client = Client()
    captured = capture(client)
    captured.reply(200, JSON, json.dumps(response("completed", [ITEM])).encode())
    assert client.received == b""
    captured.release()
    assert json.loads(client.received) == {**response("completed", [ITEM]), "id": "resp_ours", "store": True}


def test_a_whole_reply_that_is_no_finished_response_passes() -> None:
    for status, body in ((400, b'{"error":{}}'), (200, b"[1]"), (200, b"\xff"), (200, b'{"status":"in_progress"}')):
        client = Client()
        captured = capture(client)
        captured.reply(status, JSON, body)
        assert (client.received, captured.response) == (body, None)
