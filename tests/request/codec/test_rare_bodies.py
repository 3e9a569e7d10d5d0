"""What bodies and frames rarely look like."""

from __future__ import annotations

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import CapacityError, ClientError, UpstreamError
from stoker.request.codec import sse, upstream_errors
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.codec.edits import edit
from stoker.request.codec.own_replies import stream_headers


@pytest.mark.parametrize("spelt", [b'"model":"a"', b'"model" : "a"', b'"model":  "a"', b'"model":"\\u0061"'])
def test_the_models_name_is_changed_however_it_is_spelt(spelt: bytes) -> None:
    body = b'{"x":1,' + spelt + b',"messages":[]}'
    edited = edit(body, read_body_fields(body), Dialect.CHAT, "served")
    assert edited.body == body[: body.index(b'"', body.index(b":", 7) + 1)] + b'"served","messages":[]}'


def test_the_sequence_of_a_conversation_is_put_in_front() -> None:
    body = b'{"model":"served","messages":[]}'
    edited = edit(body, read_body_fields(body), Dialect.CHAT, "served", sequence=3)
    assert (edited.body, edited.changes) == (b'{"id_slot":3,"model":"served","messages":[]}', ("id_slot",))


def test_many_brackets_in_a_long_body_are_counted_only_as_far_as_it_takes() -> None:
    body = b'{"model":"a","x":"' + b"[" * 200 + b" " * 5000 + b'"}'
    assert read_body_fields(body).model == "a"


def test_a_frame_that_is_far_too_large_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_FRAME", 16)
    splitter = sse.FrameSplitter()
    assert splitter.feed(b"data: 0123456789") == []
    assert splitter.feed(b"0123456789") == []
    assert splitter.feed(b"data: {}\n\n") == [b"{}"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "invalid_request_error", "message": "no"}, ClientError),
        ({"type": "overloaded_error", "message": "no"}, CapacityError),
        ({"type": "invalid_request_error"}, UpstreamError),
    ],
)
def test_an_error_frame_means_what_its_type_says(error: dict[str, str], kind: type[Exception]) -> None:
    assert isinstance(upstream_errors.as_error({"error": error}), kind)


def test_ollamas_streams_are_lines_and_all_others_events() -> None:
    assert dict(stream_headers(Dialect.OLLAMA_CHAT))[b"content-type"] == b"application/x-ndjson"
    assert dict(stream_headers(None))[b"content-type"].startswith(b"text/event-stream")
