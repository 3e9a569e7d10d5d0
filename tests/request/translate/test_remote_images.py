"""Images by their address: found where an engine would look, replaced by themselves, and nothing else touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.pass_through import adapt_body, refuse_remote
from stoker.request.translate.remote_images import addresses, image_parts, inlined, may_hold, remote_in

URL = "https://img.example/a.png?key=1"
OTHER = "http://img.example/b.png"
DATA = "data:image/png;base64,iVBORw0KGgo="
FOUND = {URL: ("image/png", "iVBORw0KGgo="), OTHER: ("image/gif", "R0lGODdh")}
CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


def chat(*parts: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": list(parts)}]}).encode()


def messages(*blocks: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": list(blocks)}]}).encode()


def responses(*parts: Any) -> bytes:
    return json.dumps({"model": "m", "input": [{"role": "user", "content": list(parts)}]}).encode()


def source(url: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "url", "url": url}, "cache_control": {"type": "ephemeral"}}


B64 = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


@pytest.mark.parametrize(
    ("dialect", "write", "part", "becomes"),
    [
        (CHAT, chat, {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
         {"type": "image_url", "image_url": {"url": DATA, "detail": "low"}}),
        (CHAT, chat, {"type": "image_url", "image_url": URL}, {"type": "image_url", "image_url": DATA}),
        (CHAT, chat, {"image_url": {"url": URL}}, {"image_url": {"url": DATA}}),
        (RESPONSES, responses, {"type": "input_image", "image_url": URL}, {"type": "input_image", "image_url": DATA}),
        (RESPONSES, responses, {"type": "function_call_output", "output": [{"type": "input_image", "image_url": URL}]},
         {"type": "function_call_output", "output": [{"type": "input_image", "image_url": DATA}]}),
        (MESSAGES, messages, source(URL), source(URL) | {"source": B64}),
        (MESSAGES, messages, {"type": "image", "source": URL}, {"type": "image", "source": DATA}),
        (MESSAGES, messages, {"type": "tool_result", "content": [{"type": "text", "text": URL}, source(URL)]},
         {"type": "tool_result", "content": [{"type": "text", "text": URL}, source(URL) | {"source": B64}]}),
    ],
)  # fmt: skip
def test_an_image_takes_its_addresss_place(
    dialect: Dialect, write: Callable[[Any], bytes], part: Any, becomes: Any
) -> None:
    body = write(part)
    assert addresses(dialect, body) == [URL]
    done = inlined(dialect, body, FOUND)
    assert json.loads(done) == json.loads(write(becomes))
    assert addresses(dialect, done) == []


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (CHAT, chat({"type": "image_url", "image_url": {"url": DATA}})),
        (CHAT, chat({"type": "image_url", "image_url": {"url": DATA.replace("data", "DATA")}})),
        (CHAT, chat({"type": "image_url", "image_url": {"url": "iVBORw0KGgo="}})),
        (CHAT, chat({"type": "image_url", "image_url": {"url": 1}})),
        (CHAT, chat({"type": "image_url"}, {"type": ["image_url"], "image_url": URL}, {"type": "text", "url": URL})),
        (CHAT, chat({"type": "text", "text": f'{{"type": "image_url", "image_url": "{URL}"}}'})),
        (CHAT, b'{"messages":"https:","x":{"type":"image_url","image_url":"https://a/b"}}'),
        (CHAT, b'{"x":{"type":"image_url","image_url":"https://a/b"}}'),
        (CHAT, b'["type","image_url",{"image_url":"https://a/b"}]'),
        (CHAT, b'{"url":"https://a/b"'),
        (CHAT, b'{"messages":[{"url":"https://a/b"},3,"x",null]}'),
        (Dialect.EMBEDDINGS, chat({"type": "image_url", "image_url": URL})),
        (MESSAGES, messages({"type": "tool_use", "input": source(URL)})),
        (CHAT, chat({"function": {"name": "f", "arguments": {"type": "image_url", "image_url": URL}}})),
    ],
)
def test_what_is_no_remote_image_is_left_alone(dialect: Dialect, body: bytes) -> None:
    assert addresses(dialect, body) == []
    assert inlined(dialect, body, FOUND) is body


def test_addresses_are_given_once_and_in_their_order() -> None:
    body = chat(*({"type": "image_url", "image_url": {"url": url}} for url in (OTHER, URL, URL)))
    assert addresses(CHAT, body) == [OTHER, URL]
    assert addresses(CHAT, inlined(CHAT, body, {URL: FOUND[URL]})) == [OTHER], "what was not fetched stays"


def test_what_is_not_concerned_keeps_its_bytes() -> None:
    first, last = b'{ "role":"user","content": "\\u00e9 1.50" }', b'{"content":[{"type":"image_url","image_url":"x"}]}'
    image = b'{"content":[{"type":"image_url","image_url":"%s"}]}' % URL.encode()
    body = b'{"a": 1.0e2,\n"messages":[%s, %s, %s],"b": [ ]}' % (first, image, last)
    want = b'{"a":1.0e2,"messages":[%s,%s,%s],"b":[ ]}' % (first, image.replace(URL.encode(), DATA.encode()), last)
    assert inlined(CHAT, body, FOUND) == want


@pytest.mark.parametrize(
    "text",
    [
        b'"image_url":"HTTPS://a/b"',
        b'"image_url" : "\\u0068ttps:\\/\\/a/b"',
        b'"im\\u0061ge_url":"https://a/b"',
        b'"image_url":{"\\u0075rl":"https://a/b"}',
        b'"image_url":" \\nhttps://a/b"',
        b'"image_url":"ht\\ttp://a/b"',
        b'"image_url":"http:/a/b"',
        b'"source":"http://a"',
    ],
)
def test_no_way_of_writing_hides_an_address(text: bytes) -> None:
    body = b'{"model":"m","messages":[{"content":[{"type":"image_url",%s}]}]}' % text
    assert may_hold(body)
    assert len(addresses(CHAT, body)) == 1
    with pytest.raises(ClientError) as error:
        adapt_body(body, Capabilities(CHAT))
    assert error.value.code == "image_url_refused"


def test_a_refusal_says_where_the_address_stands() -> None:
    for part, where in (
        ({"type": "image_url", "image_url": {"url": URL}}, "image_url.url"),
        ({"type": "input_image", "image_url": URL}, "image_url"),
        (source(URL), "source.url"),
    ):
        with pytest.raises(ClientError) as error:
            refuse_remote({"a": [1, {"b": part}]})
        assert error.value.param == where
    refuse_remote({"type": ["string", "null"], "tools": [{"type": {}, "url": URL}]})


def test_nesting_has_no_bound_here() -> None:
    value: Any = {"type": "image", "source": URL}
    for _ in range(100_000):
        value = [value]
    assert [remote_in(part) for part in image_parts(value)] == [[("source", URL)]]


urls = st.sampled_from((URL, OTHER, "HTTP://x", " https://y", DATA, "file:///x", "")) | st.text(max_size=8)
holders = (
    urls | st.fixed_dictionaries({"url": urls}, optional={"type": st.text(max_size=3)}) | st.none() | st.integers()
)
kinds = st.sampled_from(("image_url", "input_image", "image", "text", "tool_use")) | st.none() | st.lists(st.text())
parts = st.fixed_dictionaries({}, optional={"type": kinds, "image_url": holders, "source": holders, "input": holders})
values = st.recursive(
    parts | st.text(max_size=5) | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(("content", "output", "input", "arguments", "type", "x")), inner, max_size=4)
    ),
    max_leaves=12,
)
bodies = st.dictionaries(st.sampled_from(("messages", "input", "system", "x")), values, max_size=3).map(json.dumps)
dialects = st.sampled_from(list(Dialect))


@given(dialects, bodies.map(str.encode))
def test_what_is_fetched_leaves_no_address(dialect: Dialect, body: bytes) -> None:
    given_urls = addresses(dialect, body)
    assert len(given_urls) == len(set(given_urls))
    done = inlined(dialect, body, dict.fromkeys(given_urls, ("image/png", "iVBORw0KGgo=")))
    assert addresses(dialect, done) == []
    assert (done is body) == (given_urls == [])
    assert json.loads(done).keys() == json.loads(body).keys()


@given(dialects, st.binary(max_size=60), bodies, st.integers(0, 200))
def test_no_body_makes_the_search_fail(dialect: Dialect, noise: bytes, body: str, cut: int) -> None:
    for text in (noise, body.encode()[:cut] + noise, b'{"url":"x","messages":[' + noise + b"]}"):
        assert isinstance(addresses(dialect, text), list)
    assert addresses(CHAT, b'{"url":"x","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}") == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "video_url", "video_url": {"url": "http://169.254.169.254/v.mp4"}},
        {"type": "audio_url", "audio_url": {"url": "https://a.example/a.wav"}},
        {"type": "input_file", "file_url": "https://a.example/a.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://a.example/a.pdf"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image_url", "image_url": "F\nile:///etc/passwd"},
        {"type": "image", "source": {"type": "url", "url": "ftp://a.example/a.png"}},
    ],
)
def test_no_file_that_an_engine_would_get_from_elsewhere_goes_through(part: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as caught:
        adapt_body(chat(part), Capabilities(CHAT))
    assert caught.value.code == "image_url_refused"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": DATA}},
        {"type": "text", "text": '"url": "file:///etc/passwd"'},
        {"type": "document", "source": {"type": "text", "data": "file: it"}},
        {"type": "tool_use", "name": "get", "input": {"video_url": "https://a.example/"}},
        {"video_url": None, "source": 3},
    ],
)
def test_what_comes_with_the_request_and_what_a_tool_is_told_goes_through(part: dict[str, Any]) -> None:
    body = chat(part)
    assert adapt_body(body, Capabilities(CHAT)) == (body, ())
