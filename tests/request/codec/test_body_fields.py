"""What a body says is read exactly, and nothing ambiguous, deep or broken gets past."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linear import assert_linear

from stoker.domain.errors import ClientError
from stoker.request.codec.body_fields import (
    ENGINE_PRIVATE,
    IMAGE_KEYS,
    UNIQUE,
    find,
    locate,
    may_hold,
    read_body_fields,
)


def refused(body: bytes) -> ClientError:
    with pytest.raises(ClientError) as caught:
        read_body_fields(body)
    assert caught.value.status == 400
    return caught.value


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


def nested(depth: int, bracket: str = "[]") -> bytes:
    """A body whose deepest value is `depth` brackets down, the body's own included."""
    inner = bracket[0] * (depth - 1) + bracket[1] * (depth - 1)
    if bracket == "{}":
        inner = '{"a":' * (depth - 2) + "{}" + "}" * (depth - 2)
    return b'{"model":"m","x":%b}' % inner.encode()


@pytest.mark.parametrize("key", UNIQUE)
def test_each_field_that_decides_may_stand_there_once(key: str) -> None:
    with pytest.raises(ClientError, match=f"'{key}' appears [23] times"):
        read_body_fields(b'{"model":"a","%b":null,"%b":null}' % (key.encode(), key.encode()))


@pytest.mark.parametrize("marks", [0, 20, 100, 5_000])
@pytest.mark.parametrize("size", [100, 5_000, 300_000])
def test_a_second_name_is_seen_behind_any_length_of_text_and_any_number_of_quotation_marks(
    size: int, marks: int
) -> None:
    texts = json.dumps(["x" * (size // (marks or 1))] * (marks // 2) or "x" * size).encode()
    refused(b'{"stream":"model","model":"a","x":%b,"model":"b"}' % texts)
    assert not read_body_fields(b'{"model":"a","x":%b}' % texts).may_name_images
    assert read_body_fields(b'{"model":"a","x":%b,"y":{"url":"u"}}' % texts).may_name_images


@pytest.mark.parametrize("key", IMAGE_KEYS)
def test_each_key_of_an_address_is_seen(key: str) -> None:
    assert read_body_fields(b'{"model":"a","x":{"%b":1}}' % key.encode()).may_name_images
    assert not read_body_fields(b'{"model":"a","x":{"%bs":1}}' % key.encode()).may_name_images


def test_the_few_fields_are_read() -> None:
    top = read_body_fields(body(stream=True, max_tokens=5, stream_options={"include_usage": True}))
    assert (top.model, top.stream, top.max_tokens) == ("m", True, 5)
    assert top.stream_options == {"include_usage": True}


@pytest.mark.parametrize(
    "broken",
    [b"", b" ", b"[]", b'"model"', b"null", b"{", b'{"model":"m"} x', b'{"model":"m"}{}', b'{"model":"m",}', b"\x00",
     b'\xef\xbb\xbf{"model":"m"}', b'{"model":"m","x":NaN}', b'{"model":"m","x":Infinity}', b'{"model":"m","x":01}',
     b'{"model":"m","x":"\x01"}', b'{"model":"m","x":"\\ud800"}', b"{'model':'m'}", b'{"model":"m","x":"\xff"}',
     b'{"model":"\xff"}', b'{"\xff":1,"model":"m"}', b'{"model":"m","lora_path":"\xff"}',
     b'{"model":"m","x":"\xe2\x82"}'],
)  # fmt: skip
def test_what_is_not_a_json_object_in_utf8_is_refused(broken: bytes) -> None:
    assert refused(broken).code == "bad_json"


def test_a_character_may_lie_across_the_pieces_in_which_utf8_is_checked() -> None:
    text = "x" * ((1 << 20) - len('{"model":"m","x":"') - 1) + "€"
    assert (
        read_body_fields(
            json.dumps({"model": "m", "x": text}, ensure_ascii=False, separators=(",", ":")).encode()
        ).model
        == "m"
    )


def test_the_error_holds_nothing_of_the_body() -> None:
    assert "geheim" not in refused(b'{"model":"m","x":"geheim" "geheim"}').message
    assert "geheim" not in refused(b'{"model":{"geheim":1}}').message


@pytest.mark.parametrize(
    ("model", "found"),
    [(None, "is missing"), ("", "is empty"), (1, "not a number"), (1.5, "not a number"), (True, "not a boolean"),
     (["m"], "not an array"), ({"a": 1}, "not an object")],
)  # fmt: skip
def test_a_model_that_is_no_name_is_refused(model: object, found: str) -> None:
    error = refused(json.dumps({"model": model}).encode())
    assert error.code == "bad_model"
    assert error.param == "model"
    assert found in error.message


def test_a_body_without_a_model_is_refused_even_if_the_word_is_in_it() -> None:
    assert refused(b'{"object":"model","x":{"model":"m"}}').code == "bad_model"


@pytest.mark.parametrize(
    ("value", "found"),
    [(1, "a number"), ("yes", "a string"), ("", "a string"), ([], "an array"), ({}, "an object")],
)
def test_a_stream_that_is_no_boolean_is_refused(value: object, found: str) -> None:
    error = refused(body(stream=value))
    assert error.param == "stream"
    assert error.message == f"'stream' must be true or false, not {found}"


def test_stream_null_means_false() -> None:
    assert read_body_fields(body(stream=None)).stream is False


@pytest.mark.parametrize(
    ("fields", "budget"),
    [({}, None), ({"max_tokens": 3}, 3), ({"max_completion_tokens": 4, "max_tokens": 3}, 4),
     ({"max_output_tokens": 5}, 5), ({"max_tokens": True}, None), ({"max_tokens": "9"}, None),
     ({"max_tokens": 10**400}, 10**400)],
)  # fmt: skip
def test_the_output_budget_is_the_first_number_given(fields: dict[str, Any], budget: int | None) -> None:
    assert read_body_fields(body(**fields)).output_budget() == budget


# -- twice ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNIQUE)
def test_a_field_that_decides_may_stand_there_once(name: str) -> None:
    error = refused(b'{"model":"m","%b":1,"%b":2}' % (name.encode(), name.encode()))
    assert error.code == "duplicate_field"
    assert error.param == name


@pytest.mark.parametrize("name", ENGINE_PRIVATE)
def test_a_field_that_is_dropped_may_stand_there_once(name: str) -> None:
    """Else the second one would reach the engine."""
    assert refused(b'{"%b":1,"model":"m","%b":2}' % (name.encode(), name.encode())).code == "duplicate_field"


@pytest.mark.parametrize("spelt", [b"mod\\u0065l", b"\\u006d\\u006F\\u0064\\u0065\\u006c", b"m\\u006Fdel"])
def test_an_escaped_spelling_is_the_same_field(spelt: bytes) -> None:
    assert read_body_fields(b'{"%b":"m"}' % spelt).model == "m"
    assert refused(b'{"model":"a","%b":"b"}' % spelt).code == "duplicate_field"
    assert refused(b'{"%b":"a","%b":"b"}' % (spelt, spelt)).code == "duplicate_field"


def test_an_escaped_spelling_of_a_dropped_field_is_the_same_field() -> None:
    assert read_body_fields(b'{"model":"m","lora_p\\u0061th":"x"}').private == ("lora_path",)
    assert refused(b'{"model":"m","lora_path":1,"lora_p\\u0061th":"x"}').code == "duplicate_field"


def test_the_same_name_further_down_or_in_text_is_no_repetition() -> None:
    text = 'say "model": "x" and \\ "stream" and {"model"}'
    deep = read_body_fields(
        body(messages=[{"content": text, "model": "inner"}], tools=[{"model": {"model": 1}, "stream": 2}])
    )
    assert deep.model == "m"


def test_private_parameters_are_those_that_are_there_null_included() -> None:
    assert read_body_fields(body()).private == ()
    assert read_body_fields(body(id_slot=0, chat_template=None, vllm_xargs={"a": [1]})).private == (
        "chat_template", "vllm_xargs", "id_slot",
    )  # fmt: skip


# -- deep ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bracket", ["[]", "{}"])
@pytest.mark.parametrize("depth", [3, 12, 13, 63, 64])
def test_64_levels_pass(depth: int, bracket: str) -> None:
    assert read_body_fields(nested(depth, bracket)).model == "m"


@pytest.mark.parametrize("bracket", ["[]", "{}"])
@pytest.mark.parametrize("depth", [65, 66, 500, 10_000, 100_000])
def test_more_than_64_levels_are_refused(depth: int, bracket: str) -> None:
    assert refused(nested(depth, bracket)).code == "too_deep"


def test_brackets_in_text_and_side_by_side_are_not_depth() -> None:
    assert read_body_fields(body(a="[" * 500, b=[[]] * 500, c='\\"[{')).model == "m"


@given(
    st.recursive(
        st.sampled_from([1, "[", "]{", '"', "\\", None]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from('a"[{\\'), inner, max_size=3),
        max_leaves=20,
    ),
    st.integers(50, 66),
)
def test_depth_is_counted_exactly(value: Any, around: int) -> None:
    def depth(of: Any) -> int:
        inner = of.values() if isinstance(of, dict) else of if isinstance(of, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    for _ in range(around):
        value = [1, value]
    document = json.dumps({"model": "m", "x": value, "y": "[" * 70}).encode()
    if 1 + depth(value) <= 64:
        assert read_body_fields(document).model == "m"
    else:
        assert refused(document).code == "too_deep"


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(lambda size: b"{[" * 40 + b'\\"' * (size // 2), id="quotes-that-never-close"),
        pytest.param(lambda size: b'{"a":' + b"[" * size, id="open-brackets"),
        pytest.param(lambda size: b'{"model":"m","x":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}", id="deep"),
        pytest.param(lambda size: b'{"model":"' + b"\\" * (size | 1), id="backslashes"),
        pytest.param(
            lambda size: b'{"model":"m","x":[' + b'"model",' * (size // 8) + b"1", id="many-keys-in-broken-json"
        ),
    ],
)
def test_hostile_bodies_cost_linear_time(hostile: Callable[[int], bytes]) -> None:
    def read(body: bytes) -> None:
        with pytest.raises(ClientError):
            read_body_fields(body)

    assert_linear(hostile, read, 16_000_000)


# -- where ---------------------------------------------------------------------------------------------------------

PLACES = [
    b'{"model":"m"}',
    b'{ "a" : { "model" : 1 } , "model" : "m" , "b":2}',
    b'{"a":"\\"model\\":","model":"m"}',
    b'{"a":"model","model":\n"m"}',
    b'{"a":["model",{"model":"x"}],"mod\\u0065l":"m"}',
]


@pytest.mark.parametrize("text", PLACES)
def test_the_model_is_found_at_the_top_level(text: bytes) -> None:
    top = read_body_fields(text)
    key, start, end = find(text, "model", top.model_at)
    assert json.loads(text[key : text.index(b":", key)]) == "model"
    assert text[start:end] == b'"m"'


def test_a_body_cannot_say_where_its_model_is() -> None:
    assert read_body_fields(b'{"(model_at)":3,"model":"m"}').model_at == 16


def test_values_of_every_kind_are_found_whole() -> None:
    text = b'{"model":"m","a":-1.5e3 ,"b":true,"c":[1,"]",{"x":[]}],"d":{"}":"{"},"e":"\\"","f":null}'
    for name, value in json.loads(text).items():
        _, start, end = find(text, name)
        assert json.loads(text[start:end]) == value


def test_what_is_not_there_is_not_found() -> None:
    assert locate(b'{"model":"m"}', "seed") is None
    with pytest.raises(KeyError):
        find(b'{"model":"m"}', "seed")


def test_a_place_that_was_wrong_is_looked_for_again() -> None:
    assert find(b'{"x":"model","model":"m"}', "model", at=5)[1:] == (21, 24)


def test_broken_text_is_never_scanned_past_its_end() -> None:
    for text, name in ((b'{"a":"x', "a"), (b'{"a":[1', "a")):
        with pytest.raises(KeyError):
            find(text, name)


def test_a_field_that_may_be_there_is_known_by_its_spelling() -> None:
    assert may_hold(b'{"stream_options":1}', "stream_options")
    assert may_hold(b'{"stream_option\\u0073":1}', "stream_options")
    assert not may_hold(b'{"stream":1}', "stream_options")


@given(
    st.dictionaries(st.text('amodel"\\é', max_size=6), st.sampled_from(["model", '"model":', 1, {"model": "x"}, []])),
    st.permutations(["first", "model", "last"]),
)
def test_the_model_of_a_long_body_is_found_at_the_top_level(others: dict[str, Any], order: list[str]) -> None:
    given = {"first": others, "model": "m", "last": "x" * 5_000}
    text = json.dumps({**others, **{name: given[name] for name in order}}, separators=(",", ":")).encode()
    key, start, end = find(text, "model", read_body_fields(text).model_at)
    assert text[:key].count(b'"model":"m"') == 0
    assert (text[key : key + 8], text[start:end]) == (b'"model":', b'"m"')


@pytest.mark.parametrize("blank", [b"", b" "])
@pytest.mark.parametrize("name", [*UNIQUE, *ENGINE_PRIVATE])
def test_a_field_that_decides_may_stand_in_a_long_body_once(name: str, blank: bytes) -> None:
    long = b'"x":"%b"' % (b"x" * 5_000)
    twice = b'"%b":%b1' % (name.encode(), blank)
    error = refused(b'{%b,"model":"m",%b,%b}' % (twice, long, twice))
    assert (error.code, error.param) == ("duplicate_field", name)


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "web_search_call", "mcp_call", "function_call"])
@pytest.mark.parametrize("text", ["", "word " * 5000, "a_b " * 100, '"q" ' * 5000, '"q" a_b ' * 5000])
def test_a_call_in_the_history_is_seen_wherever_it_stands(kind: str, text: str) -> None:
    said = {"role": "user", "content": text}
    document = {"model": "m", "max_tokens": 5, "messages": [said, {"type": kind}]}
    for separators in ((",", ":"), (", ", ": ")):
        body = json.dumps(document, separators=separators).encode()
        assert read_body_fields(body).may_hold_calls
        assert not read_body_fields(body.replace(kind.encode(), b"text")).may_hold_calls
