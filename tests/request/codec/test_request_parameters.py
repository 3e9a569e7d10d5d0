"""A serve's request parameters change the named fields alone; every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.request_parameters import RequestParameters
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.codec.edits import apply_parameters

NAMES = st.sampled_from(["temperature", "max_tokens", "id_slot", "chat_template_kwargs", "stop", "top-k.2"])
VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.lists(st.integers(0, 9), max_size=2)
GIVEN = VALUES.filter(lambda value: value is not None)
TABLES = st.builds(
    RequestParameters,
    st.dictionaries(NAMES, GIVEN, max_size=3),
    st.dictionaries(NAMES, GIVEN, max_size=3),
    st.lists(NAMES, max_size=3, unique=True).map(tuple),
)
SPACE = st.text(alphabet=" \t\r\n", max_size=2)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A body in any spacing, its names sometimes escaped; and what it means."""
    fields = {**draw(st.dictionaries(NAMES, VALUES, max_size=5)), "model": "m", "messages": [{"temperature": 3}]}
    parts = []
    for name in draw(st.permutations(list(fields))):
        key = json.dumps(name)
        if draw(st.booleans()):
            key = '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"'
        parts.append(f"{draw(SPACE)}{key}{draw(SPACE)}:{draw(SPACE)}{json.dumps(fields[name])}{draw(SPACE)}")
    return ("{" + ",".join(parts) + "}").encode(), fields


@given(bodies(), TABLES)
def test_drop_then_default_then_set(made: tuple[bytes, dict[str, Any]], parameters: RequestParameters) -> None:
    body, fields = made
    found, after, notes = apply_parameters(body, read_body_fields(body), parameters)
    expected = {name: value for name, value in fields.items() if name not in parameters.drop}
    for name, value in parameters.default.items():
        if expected.get(name) is None or name == "id_slot":  # the client's own never reaches an engine
            expected[name] = value
    expected |= parameters.set
    pairs = json.loads(found, object_pairs_hook=lambda inner: inner)
    assert len(pairs) == len(expected), "nothing is there twice"
    assert json.loads(found) == expected
    changed = {note.partition(":")[2] for note in notes}
    differs = {name for name in {*fields, *expected} if fields.get(name, ...) != expected.get(name, ...)}
    assert differs <= changed <= parameters.names().keys(), "a value that is written differently is noted, too"
    assert found == body or notes
    again = read_body_fields(found)
    if notes:
        assert (after.max_tokens, after.model_at) == (again.max_tokens, None)
        assert set(after.private) == set(again.private) - parameters.names().keys()


BODY = b'{ "model" : "m", "seed":1, "top_p":1,"seed": 2 }'


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (RequestParameters(drop=("seed",)), b'{ "model" : "m",  "top_p":1 }'),
        (RequestParameters({"seed": 3}), b'{ "model" : "m",  "top_p":1,"seed": 3 }'),
        (RequestParameters({"a": {"b": [1.5, True]}}), b'{"a":{"b":[1.5,true]},' + BODY[1:]),
    ],
)  # fmt: skip
def test_a_field_that_was_given_twice_is_changed_everywhere(parameters: RequestParameters, expected: bytes) -> None:
    found, _, notes = apply_parameters(BODY, read_body_fields(BODY), parameters)
    assert json.loads(found) == json.loads(expected)
    assert found.count(b"seed") == expected.count(b"seed")
    assert len(notes) == 1


def test_what_is_as_it_should_be_already_keeps_its_bytes_and_fields() -> None:
    body = b'{"model": "m", "temperature": 1, "seed": 5}'
    fields = read_body_fields(body)
    found, after, notes = apply_parameters(body, fields, RequestParameters({"temperature": 1}, {"seed": 6}, ("top_k",)))
    assert (found, notes) == (body, ())
    assert after is fields
