"""The only changes to a body are the promised ones; every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.domain.dialect import Dialect
from stoker.request.codec.body_fields import ENGINE_PRIVATE, read_body_fields
from stoker.request.codec.edits import LARGE, Edited, edit

SPACE = st.text(alphabet=" \t\r\n", max_size=3)
NAMES = st.sampled_from(["messages", "temperature", "model_x", "a", "", "Ä", 'mo"del', "stream_optionz", "\\"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    | st.sampled_from(["model", '"model":', '"stream_options"', "{", "}", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.just("model"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def edited(body: bytes, dialect: Dialect = Dialect.CHAT, served: str = "m") -> Edited:
    return edit(body, read_body_fields(body), dialect, served)


def compact(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A JSON object with a model, in any order and spacing, its names sometimes escaped; and what it means."""
    fields = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    fields["model"] = draw(st.text(min_size=1, max_size=6))
    for name in draw(st.sets(st.sampled_from(ENGINE_PRIVATE), max_size=3)):
        fields[name] = draw(VALUES)
    if draw(st.booleans()):
        fields["stream"] = draw(st.booleans())
    if draw(st.booleans()):
        fields["stream_options"] = draw(
            st.none() | st.fixed_dictionaries({}, optional={"include_usage": st.booleans(), "x": VALUES})
        )
    ascii_only = draw(st.booleans())
    parts = []
    for name in draw(st.permutations(list(fields))):
        key = json.dumps(name, ensure_ascii=ascii_only)
        if name.isascii() and name.isalpha() and draw(st.integers(0, 5)) == 0:
            key = '"' + "".join(f"\\u{ord(c):04x}" for c in name) + '"'
        gaps = [draw(SPACE) for _ in range(4)]
        value = json.dumps(fields[name], ensure_ascii=ascii_only)
        parts.append(f"{gaps[0]}{key}{gaps[1]}:{gaps[2]}{value}{gaps[3]}")
    return ("{" + ",".join(parts) + "}").encode(errors="surrogatepass"), fields


@given(bodies(), st.sampled_from(list(Dialect)), st.text(min_size=1, max_size=6))
def test_the_edited_body_means_the_same_but_for_the_promised_changes(
    made: tuple[bytes, dict[str, Any]], dialect: Dialect, served: str
) -> None:
    body, fields = made
    result = edited(body, dialect, served)
    expected = {name: value for name, value in fields.items() if name not in ENGINE_PRIVATE}
    expected["model"] = served
    options = fields.get("stream_options")
    asks = (
        bool(fields.get("stream")) and dialect in (Dialect.CHAT, Dialect.COMPLETIONS)
        and not (options or {}).get("include_usage", False)
    )  # fmt: skip
    if asks:
        expected["stream_options"] = {**(options or {}), "include_usage": True}
    pairs = json.loads(result.whole(), object_pairs_hook=lambda found: found)
    assert len(pairs) == len(expected), "nothing is there twice"
    assert json.loads(result.whole()) == expected
    assert result.remove_usage == asks
    changes = {f"dropped:{name}" for name in fields if name in ENGINE_PRIVATE}
    changes |= {"model"} if fields["model"] != served else set()
    changes |= {"include_usage"} if asks else set()
    assert set(result.changes) == changes


@given(bodies())
def test_without_a_reason_not_a_byte_changes(made: tuple[bytes, dict[str, Any]]) -> None:
    body, fields = made
    if any(name in fields for name in ENGINE_PRIVATE):
        return
    assert edited(body, Dialect.MESSAGES, fields["model"]).whole() is body


@given(bodies(), st.text(min_size=1, max_size=6))
def test_around_the_model_every_byte_stays(made: tuple[bytes, dict[str, Any]], served: str) -> None:
    body, fields = made
    if any(name in fields for name in ENGINE_PRIVATE) or fields["model"] == served:
        return
    result = edited(body, Dialect.MESSAGES, served).whole()
    name = json.dumps(served, ensure_ascii=False).encode()
    places = [at for at in range(len(result)) if result.startswith(name, at)]
    was = len(body) - (len(result) - len(name))
    assert any(result[:at] == body[:at] and result[at + len(name) :] == body[at + was :] for at in places)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"id_slot":1,"model":"m"}', b'{"model":"m"}'),
        (b'{ "id_slot" : 1 ,\n "model":"m"}', b'{ "model":"m"}'),
        (b'{"a":1,\t"id_slot":[1,{"b":2}] , "model":"m"}', b'{"a":1,\t"model":"m"}'),
        (b'{"model":"m","id_slot":"x\\""}', b'{"model":"m"}'),
        (b'{"model":"m" , "id_slot" : null \n}', b'{"model":"m"  \n}'),
        (b'{"id_slot":1,"model":"m","lora_path":"p"}', b'{"model":"m"}'),
        (b'{"model":"m","id_slot":1,"lora_path":"p"}', b'{"model":"m"}'),
        (b'{"model":"m","a":{"id_slot":1},"id_slot":2}', b'{"model":"m","a":{"id_slot":1}}'),
        (b'{"model":"m","a":"id_slot","id_sl\\u006ft":2}', b'{"model":"m","a":"id_slot"}'),
    ],
)
def test_a_dropped_field_takes_its_comma_along(body: bytes, expected: bytes) -> None:
    result = edited(body)
    assert result.whole() == expected
    assert "dropped:id_slot" in result.changes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": True}),
        ({"include_usage": "yes", "x": [1]}, {"include_usage": True, "x": [1]}),
        ("text", {"include_usage": True}),
    ],
)
def test_usage_is_asked_for_in_the_options_that_are_there(options: object, expected: object) -> None:
    body = json.dumps({"a": {"stream_options": 1}, "model": "m", "stream": True, "stream_options": options}).encode()
    result = edited(body)
    assert json.loads(result.whole())["stream_options"] == expected
    assert result.whole().count(b'"stream_options"') == 2
    assert result.remove_usage


def test_an_escaped_spelling_of_the_options_is_not_put_there_twice() -> None:
    result = edited(b'{"model":"m","stream":true,"stream_option\\u0073":{"include_usage":false}}')
    assert [name for name, _ in json.loads(result.whole(), object_pairs_hook=list)].count("stream_options") == 1
    assert json.loads(result.whole())["stream_options"] == {"include_usage": True}


def test_a_client_that_asked_for_usage_keeps_it() -> None:
    result = edited(b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}')
    assert (result.changes, result.remove_usage) == ((), False)


def test_options_further_down_are_not_the_options() -> None:
    result = edited(b' {"x":{"stream_options":{"include_usage":true}},"model":"m","stream":true}')
    assert result.whole().startswith(b' {"stream_options":{"include_usage":true},"x":')
    assert result.remove_usage


@pytest.mark.parametrize("dialect", [Dialect.MESSAGES, Dialect.RESPONSES, Dialect.EMBEDDINGS, Dialect.RERANK])
def test_other_dialects_are_not_asked(dialect: Dialect) -> None:
    assert not edited(b'{"model":"m","stream":true}', dialect).remove_usage


@given(
    st.permutations(["fill", "model", "stream_options", "id_slot", "lora_path", "stream", "messages"]),
    st.sets(st.sampled_from(["stream_options", "id_slot", "lora_path", "stream"])),
    st.sampled_from([None, {}, {"x": 1}, {"include_usage": False}, {"include_usage": True}]),
    st.sampled_from(["m", "served"]),
    st.none() | st.integers(0, 9),
)
@example(
    ["fill", "stream", "model", "stream_options", "id_slot", "lora_path", "messages"], set(), {"x": 1}, "served", 3
)
def test_a_large_body_is_sent_in_pieces_with_its_changes(
    order: list[str], left_out: set[str], options: dict[str, object] | None, served: str, sequence: int | None
) -> None:
    fields: dict[str, Any] = {
        "fill": "x" * LARGE, "model": "m", "stream_options": options, "id_slot": 7, "lora_path": "/p", "stream": True,
        "messages": [{"content": '"model": "m"'}],
    }  # fmt: skip
    sent = {name: fields[name] for name in order if name not in left_out}
    asks = "stream" in sent and (sent.get("stream_options") or {}) != {"include_usage": True}
    changes = [f"dropped:{name}" for name in ("lora_path", "id_slot") if name in sent]
    changes += ["model"] * (served != "m") + ["include_usage"] * asks + ["id_slot"] * (sequence is not None)

    expected: dict[str, Any] = {} if sequence is None else {"id_slot": sequence}
    if asks and "stream_options" not in sent:
        expected["stream_options"] = {"include_usage": True}
    expected |= {name: value for name, value in sent.items() if name not in ("id_slot", "lora_path")}
    expected["model"] = served
    if asks:
        expected["stream_options"] = {**(expected["stream_options"] or {}), "include_usage": True}

    body = compact(sent)
    result = edit(body, read_body_fields(body), Dialect.CHAT, served, sequence)
    assert result.whole() == compact(expected)
    assert (result.size, result.changes, result.remove_usage) == (len(compact(expected)), tuple(changes), asks)
    assert isinstance(result.body, list) == (asks or served != "m" or sequence is not None)
