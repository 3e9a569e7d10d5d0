"""What makes two requests the same conversation, and what keeps two callers apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.conversation import DIGITS, identity
from stoker.domain.dialect import Dialect

SECRET = bytes(32)
SYSTEM = {"role": "system", "content": "Be brief."}
FIRST = {"role": "user", "content": "Hello."}
LATER = [{"role": "assistant", "content": "Hi."}, {"role": "user", "content": "And now?"}]


def of(
    body: Any, dialect: Dialect = Dialect.CHAT, key: str = "ann", launch: str = "one", secret: bytes = SECRET
) -> Any:
    return identity(secret, launch, key, dialect, json.dumps(body).encode())


def test_a_conversation_keeps_its_identity_as_it_grows() -> None:
    beginning = of({"model": "m", "messages": [SYSTEM, FIRST]})
    assert beginning is not None
    assert len(beginning) == DIGITS
    assert of({"model": "m", "messages": [SYSTEM, FIRST, *LATER], "temperature": 1}) == beginning


def test_another_beginning_is_another_conversation() -> None:
    beginning = of({"messages": [SYSTEM, FIRST]})
    assert of({"messages": [FIRST]}) != beginning
    assert of({"messages": [SYSTEM, {"role": "user", "content": "Hello!"}]}) != beginning
    assert of({"messages": [{"role": "developer", "content": "Be brief."}, FIRST]}) != beginning


def test_key_launch_secret_and_dialect_are_part_of_it() -> None:
    body = {"messages": [FIRST]}
    found = {
        of(body),
        of(body, key="bob"),
        of(body, launch="two"),
        of(body, secret=b"1" * 32),
        of(body, dialect=Dialect.MESSAGES),
    }
    assert len(found) == 5


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "Hello."}],
        [{"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}],
        [{"type": "input_text", "text": "Hello."}],
    ],
)
def test_a_mark_for_a_cache_that_moves_on_changes_nothing(content: Any) -> None:
    plain = of({"system": "Be brief.", "messages": [FIRST]}, Dialect.MESSAGES)
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    body = {"system": system, "messages": [{"role": "user", "content": content}, *LATER]}
    assert of(body, Dialect.MESSAGES) == plain


def test_the_instructions_of_messages_and_responses_count() -> None:
    for dialect, name, said in (
        (Dialect.MESSAGES, "system", {"messages": [FIRST]}),
        (Dialect.RESPONSES, "instructions", {"input": [FIRST]}),
        (Dialect.RESPONSES, "instructions", {"input": "Hello."}),
    ):
        assert of({**said, name: "a"}, dialect) != of({**said, name: "b"}, dialect) != of(said, dialect)


def test_an_input_that_is_plain_text_begins_like_one_message() -> None:
    assert of({"input": "Hello."}, Dialect.RESPONSES) == of({"input": [FIRST, *LATER]}, Dialect.RESPONSES)


def test_two_pictures_are_two_conversations() -> None:
    def picture(data: str) -> dict[str, Any]:
        part = {"type": "image_url", "image_url": {"url": data}, "cache_control": {"type": "ephemeral"}}
        return {"messages": [{"role": "user", "content": [part]}]}

    assert of(picture("a")) != of(picture("b"))
    bare = {"messages": [{"role": "user", "content": [{"image_url": {"url": "a"}, "type": "image_url"}]}]}
    assert of(picture("a")) == of(bare)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (Dialect.COMPLETIONS, {"prompt": "Hello."}),
        (Dialect.CHAT, {"messages": [SYSTEM]}),
        (Dialect.CHAT, {"messages": "Hello."}),
        (Dialect.CHAT, {"messages": ["Hello."]}),
        (Dialect.CHAT, {}),
        (Dialect.MESSAGES, {"system": "x", "messages": []}),
        (Dialect.RESPONSES, {"input": 7}),
        (Dialect.RESPONSES, {"input": []}),
    ],
)
def test_what_shows_no_beginning_is_no_conversation(dialect: Dialect, body: Any) -> None:
    assert of(body, dialect) is None


@given(st.text(), st.text(), st.text(), st.text())
def test_where_the_key_ends_and_the_words_begin_is_never_in_doubt(key: str, words: str, other: str, said: str) -> None:
    def beginning(key: str, words: str) -> Any:
        return of({"messages": [{"role": "user", "content": words}]}, key=key)

    assert (beginning(key, words) == beginning(other, said)) == ((key, words) == (other, said))
