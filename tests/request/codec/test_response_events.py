"""Messages of the Responses API over WebSocket: requests that they make, and what replies become."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import ClientError
from stoker.request.codec.response_events import error_message, events_of, read_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def message(**fields: Any) -> bytes:
    return json.dumps({"type": "response.create", **fields}).encode()


def test_a_message_is_the_body_of_a_streamed_request() -> None:
    body = read_message(message(model="a", input="x", stream=False, stream_id=None), 100)
    assert json.loads(body or b"") == {"model": "a", "input": "x", "stream": True}


@given(st.dictionaries(st.text().filter(lambda name: name not in ("type", "stream", "stream_id")), JSON))
def test_every_other_field_is_kept(fields: dict[str, Any]) -> None:
    body = read_message(message(**fields), 10_000)
    assert json.loads(body or b"") == {**fields, "stream": True}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ClientError):
        read_message(data, 100)
    error_message(500, (), data)
    events_of(data)


def test_a_message_with_too_many_values_is_not_decoded() -> None:
    with pytest.raises(ClientError) as refused:
        read_message(message(input=[0] * 200), 100)
    assert refused.value.code == "too_many_values"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error": {"message": "no", "code": "c", "param": "p", "type": "t"}}', ("no", "c", "p", "t")),
        (b'{"error": "no"}', ("no", None, None, "api_error")),
        (b'{"message": "no"}', ("no", None, None, "api_error")),
        (b"no", ("no", None, None, "api_error")),
        (b"[1]", ("[1]", None, None, "api_error")),
    ],
)
def test_a_refusal_says_in_one_form_what_it_said(body: bytes, shown: tuple[Any, ...]) -> None:
    headers = [(b"retry-after", b"3"), (b"set-cookie", b"a secret")]
    told = json.loads(error_message(429, headers, body))
    assert (told["type"], told["status"], told["headers"]) == ("error", 429, {"retry-after": "3"})
    assert tuple(told["error"][name] for name in ("message", "code", "param", "type")) == shown


def test_a_refusal_that_belongs_to_no_request_names_none() -> None:
    told = json.loads(error_message(400, [(b"x-request-id", b"")], b'{"error":{"message":"m"}}'))
    assert told["headers"] == {}


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_a_whole_response_has_the_events_of_its_stream(status: str) -> None:
    whole = {"id": "resp_1", "status": status, "output": [{"type": "message", "id": "m"}], "usage": {"total_tokens": 1}}
    events = [json.loads(event) for event in events_of(json.dumps(whole).encode()) or ()]
    assert [event["type"] for event in events] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.output_item.done",
        f"response.{status}",
    ]  # fmt: skip
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3, 4]
    assert events[-1]["response"] == whole
    assert (events[0]["response"]["output"], events[0]["response"]["status"]) == ([], "in_progress")


@pytest.mark.parametrize("whole", [b"{}", b"<html>", b'{"status": "queued", "output": []}', b'{"status": "completed"}'])
def test_what_is_no_response_that_has_ended_has_no_events(whole: bytes) -> None:
    assert events_of(whole) is None
