"""What is kept is bounded: the oldest goes, and one large body takes its share only."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.linear import assert_linear

from stoker_capture.redaction import hidden, shown_headers
from stoker_capture.store import OVERHEAD, Capture, CaptureStore

LIMIT = 2**20


def kept(store: CaptureStore) -> list[str]:
    return [request for request, _ in store.newest()]


def opened(store: CaptureStore, request: str, size: int = 1000) -> Capture:
    capture = store.open(request, None)
    capture.request.write(b"a" * size)
    return capture


@pytest.fixture
def store() -> CaptureStore:
    found = CaptureStore()
    found.resize(LIMIT)
    return found


def test_the_oldest_goes_when_the_memory_is_full(store: CaptureStore) -> None:
    for number in range(1000):
        opened(store, str(number))
        assert store.used <= LIMIT
    assert len(store) == LIMIT // (OVERHEAD + 1000)
    assert kept(store)[0] == "999"


def test_a_large_body_is_cut_and_pushes_nothing_else_out(store: CaptureStore) -> None:
    for number in range(100):
        opened(store, str(number))
    giant = opened(store, "giant", 100 * LIMIT)
    for _ in range(1000):
        giant.answer.write(b"b" * LIMIT)
    for _ in range(1000):
        giant.call("a").answer.write(b"c" * LIMIT)
    assert "99" in kept(store)
    assert "0" in kept(store)
    assert (len(giant.request.body), giant.request.size, giant.request.is_cut) == (LIMIT // 16, 100 * LIMIT, True)
    assert giant.bytes <= LIMIT // 4
    assert giant.more_calls + len(giant.calls) == 1000


@pytest.mark.parametrize("headers", [[], [(f"x-{number}", "a") for number in range(100)]], ids=["line", "headers"])
def test_lines_and_headers_count_as_much_as_they_take(store: CaptureStore, headers: list[tuple[str, str]]) -> None:
    def fill() -> None:
        for number in range(1000):
            capture = store.open(str(number), None)
            for message in (capture.request, capture.call("a").request, capture.answer):
                message.begin(f"GET /{number}?" + "q" * 60_000, [(name, value) for name, value in headers])

    tracemalloc.start()
    try:
        fill()
        assert tracemalloc.get_traced_memory()[0] < 1.5 * LIMIT
    finally:
        tracemalloc.stop()
    assert store.used <= LIMIT
    newest = next(iter(store.newest()))[1].request
    assert newest.headers == headers
    assert newest.line.startswith("GET /999?qqq")


def test_a_status_is_kept_where_the_room_of_a_request_is_full(store: CaptureStore) -> None:
    capture = opened(store, "a")
    for _ in range(9):
        capture.call("a").answer.write(b"c" * LIMIT)
    capture.answer.begin("200", [("a", "b")])
    assert (capture.answer.line, capture.answer.headers) == ("200", [])


def test_what_comes_for_a_request_that_has_gone_is_dropped(store: CaptureStore) -> None:
    capture = opened(store, "old")
    call = capture.call("a")
    for number in range(1000):
        opened(store, str(number))
    call.answer.write(b"late" * 100)
    capture.answer.begin("200", [("a", "b")])
    capture.answer.write(b"late")
    assert not call.answer.body
    assert not capture.answer.body
    assert not capture.request.body
    assert store.used <= LIMIT


def test_a_second_request_with_the_same_id_replaces_the_first(store: CaptureStore) -> None:
    opened(store, "same", 5000)
    second = opened(store, "same", 10)
    assert store.get("same") is second
    assert store.used == OVERHEAD + 10


def test_switched_off_the_memory_is_free(store: CaptureStore) -> None:
    capture = opened(store, "a")
    store.resize(0)
    capture.request.write(b"more")
    assert (store.used, len(store), bytes(capture.request.body)) == (0, 0, b"")


# -- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"api_key": "s3cret", "model": "a"}',
        '{"metadata":{"OPENAI_API_KEY" : "s3cret"}}',
        '{"access_token":"s3cret\\"s3cret\\\\"}',
        '{"arguments": "{\\"password\\": \\"s3cret\\", \\"x\\": 1}"}',
        '{"a": "{\\"b\\": \\"{\\\\\\"client_secret\\\\\\": \\\\\\"s3cret\\\\\\"}\\"}"}',
        'data: {"authorization": "Bearer s3cret"}\n\n',
        '{"api_key": "s3cret',
        "use sk-abcdefghijs3cret012 please",
        'curl -H "Authorization: Bearer s3cret-0123456789"',
        '{"api_keys": ["s3cret", "x", 5, "s3cret"], "a": 1}',
        '{"api_keys": [\n  "a\\"]s3cret",\n  "s3cret"\n]}',
        '{"arguments": "{\\"keys\\": [\\"s3cret\\", \\"s3cret\\"]}"}',
        '{"keys": ["s3cret',
        '{"name": "Authorization", "value": "Basic s3cret"}',
        '{"key":"x-api-key","value":"s3cret"}',
        '{"a": "{\\"name\\": \\"cookie\\", \\"value\\": \\"s3cret\\"}"}',
        '{"Cookie": "session=s3cret; a=b"}',
        '{"url": "https://a.example/x?api_key=s3cret&b=c"}',
        '{"url": "https://a.example/x?b=c\\u0026token=s3cret"}',
    ],
)
def test_what_looks_like_a_secret_is_hidden_however_deep(text: str) -> None:
    assert "s3cret" not in hidden(text)
    assert "[redacted]" in hidden(text)


def test_all_else_stays_as_it_is() -> None:
    text = '{"model": "a", "max_tokens": 5, "messages": [{"content": "the key: \\"x\\" of a token"}], "keys": []}'
    assert hidden(text) == text
    assert hidden('{"api_key": "a", "b": "c"}') == '{"api_key": "[redacted]", "b": "c"}'
    assert hidden('{"password": 12, "b": "c"}') == '{"password": "[redacted]", "b": "c"}'
    assert hidden('{"keys": [1, "a"], "b": "c"}') == '{"keys": ["[redacted]"], "b": "c"}'
    assert hidden('{"keys": [ {"id": 1}]}') == '{"keys": [ {"id": 1}]}'
    assert hidden('{"name": "a", "value": "b", "url": "/x?y=1&z=2"}') == (
        '{"name": "a", "value": "b", "url": "/x?y=1&z=2"}'
    )


def test_headers_and_parameters_that_carry_keys_are_hidden() -> None:
    secret = (b"Authorization", b"x-api-key", b"cookie", b"Set-Cookie", b"X-Forwarded-Authorization")
    given = [*((name, b"x") for name in secret), (b"accept", b"*/*"), (b"referer", b"https://a.example/?a=1&token=x")]
    assert shown_headers(given) == [
        *((name.decode().lower(), "[redacted]") for name in secret),
        ("accept", "*/*"),
        ("referer", "https://a.example/?a=1&token=[redacted]"),
    ]
    assert hidden("/v1/models?key=abc&limit=3&api_key=d") == "/v1/models?key=[redacted]&limit=3&api_key=[redacted]"


@pytest.mark.parametrize("before", range(-40, 41))
def test_a_secret_is_hidden_wherever_in_a_long_text_it_stands(before: int) -> None:
    filler = "a" * (64 * 1024 + before - 20)
    secrets = '{"api_key": "s3cret", "u": "/x?b=c&api_key=s3cret", "t": "sk-0123456789s3cret"}'
    assert hidden(filler + secrets) == filler + hidden(secrets)


@pytest.mark.parametrize(
    "piece",
    [
        '"',
        '\\"',
        "key",
        '"key":"',
        '{"a_key": "\\\\',
        "Bearer ",
        "sk-",
        "a" * 50 + '"',
        '"key":[',
        '"key":["",',
        "&key=",
        '"name":"key",',
    ],
)
def test_hiding_takes_linear_time(piece: str) -> None:
    assert_linear(lambda size: piece * size, hidden, 20_000)
