"""Which dialect a serve is asked in: its own where it speaks the client's, else the one that loses least."""

from __future__ import annotations

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.serve import Serve, Translation
from stoker.request.decide.dialects import dialect_for

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


def serve(*spoken: Dialect, always: tuple[Dialect, ...] = ()) -> Serve:
    return Serve("s", dialects=frozenset(spoken), translation=Translation(always=frozenset(always)))


@pytest.mark.parametrize("asked", [CHAT, MESSAGES, RESPONSES, Dialect.COMPLETIONS, Dialect.EMBEDDINGS])
def test_what_the_serve_speaks_passes_through(asked: Dialect) -> None:
    assert dialect_for(serve(asked, CHAT), asked, "/p") is asked


@pytest.mark.parametrize("asked", [one for one in Dialect if one.spec.instead])
def test_what_it_does_not_speak_is_translated_to_the_first_that_it_does(asked: Dialect) -> None:
    for at, instead in enumerate(asked.spec.instead):
        assert dialect_for(serve(*asked.spec.instead[at:]), asked, "/p") is instead


def test_a_dialect_that_it_speaks_badly_is_translated_if_it_speaks_another() -> None:
    assert dialect_for(serve(CHAT, MESSAGES, always=(MESSAGES,)), MESSAGES, "/p") is CHAT
    assert dialect_for(serve(MESSAGES, always=(MESSAGES,)), MESSAGES, "/p") is MESSAGES
    assert dialect_for(serve(CHAT, MESSAGES, RESPONSES, always=(MESSAGES, CHAT)), MESSAGES, "/p") is RESPONSES


def test_what_it_speaks_badly_is_better_than_nothing() -> None:
    only = serve(RESPONSES, always=(RESPONSES,))
    assert dialect_for(only, Dialect.COMPLETIONS, "/p") is RESPONSES


def test_what_the_serve_was_found_to_speak_counts_more_than_what_it_may() -> None:
    assert dialect_for(serve(CHAT), MESSAGES, "/p", frozenset({MESSAGES})) is MESSAGES


def test_a_serve_that_speaks_nothing_of_use_says_what_it_speaks() -> None:
    with pytest.raises(ClientError, match="speaks chat, messages") as caught:
        dialect_for(serve(MESSAGES, CHAT), Dialect.RERANK, "/v1/rerank")
    assert (caught.value.status, caught.value.code) == (400, "dialect_not_spoken")
    with pytest.raises(ClientError, match="speaks nothing"):
        dialect_for(serve(), CHAT, "/v1/chat/completions")
