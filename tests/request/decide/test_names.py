"""Every model name means one serve, for those who may use it."""

from __future__ import annotations

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.serve import Serve
from stoker.request.decide.names import Names

FAST = Serve("fast", served_name="org/spark", aliases=("gpt-4o-mini",))
BIG = Serve("big")
NAMES = Names([FAST, BIG])


def everything(serve: Serve) -> bool:
    return True


def only_big(serve: Serve) -> bool:
    return serve is BIG


@pytest.mark.parametrize("name", ["fast", "org/spark", "gpt-4o-mini"])
def test_each_of_its_names_means_the_serve(name: str) -> None:
    assert NAMES.resolve(name, everything) is FAST


@pytest.mark.parametrize(
    ("asked", "hint"), [("fasst", "did you mean 'fast'?"), ("zzz", "GET /v1/models"), ("FAST" * 1000, "GET /v1/models")]
)
def test_an_unknown_name_is_404_with_the_nearest_one(asked: str, hint: str) -> None:
    with pytest.raises(ClientError) as caught:
        NAMES.resolve(asked, everything)
    assert (caught.value.status, caught.value.code, caught.value.param) == (404, "unknown_model", "model")
    assert hint in caught.value.message
    assert "?." not in caught.value.message
    assert len(caught.value.message) < 250


def test_who_may_not_use_a_serve_cannot_tell_that_it_is_there() -> None:
    def told(asked: str, names: Names) -> str:
        with pytest.raises(ClientError) as caught:
            names.resolve(asked, only_big)
        return caught.value.message

    assert told("fast", NAMES) == told("fast", Names([BIG]))
    assert told("fas", NAMES) == told("fas", Names([BIG]))


def test_the_list_holds_what_the_caller_may_use_in_order() -> None:
    assert NAMES.listed(everything) == [("fast", FAST), ("org/spark", FAST), ("gpt-4o-mini", FAST), ("big", BIG)]
    assert NAMES.listed(only_big) == [("big", BIG)]


HAIKU = Serve("haiku", alias_patterns=("claude-*haiku*",))
CLAUDE = Serve("claude", alias_patterns=("claude-*", "gpt-?", "*-mini"))
PINNED = Serve("pinned", aliases=("claude-haiku-4",), alias_patterns=("*-mini",))
PATTERNS = Names([CLAUDE, HAIKU, PINNED])


@pytest.mark.parametrize(
    ("model", "serve"),
    [
        ("claude-haiku-4-5", HAIKU),
        ("claude-3-5-haiku-latest", HAIKU),
        ("claude-haiku-4", PINNED),
        ("claude-", CLAUDE),
        ("claude-opus-4", CLAUDE),
        ("gpt-5", CLAUDE),
        ("gpt-5-mini", CLAUDE),
        ("haiku", HAIKU),
    ],
)
def test_exact_names_go_first_then_the_most_specific_pattern_then_the_order_of_the_file(
    model: str, serve: Serve
) -> None:
    assert PATTERNS.resolve(model, everything) is serve
    assert PATTERNS.means(model, everything)


@pytest.mark.parametrize("model", ["gpt-", "gpt-55", "Claude-haiku", "xclaude-haiku", "claude-" + "x" * 200, ""])
def test_what_no_pattern_matches_is_unknown(model: str) -> None:
    with pytest.raises(ClientError):
        PATTERNS.resolve(model, everything)


def test_a_matched_serve_that_the_caller_may_not_use_is_unknown() -> None:
    with pytest.raises(ClientError, match="no model is named"):
        PATTERNS.resolve("claude-haiku-4-5", lambda serve: serve is not HAIKU)


def test_patterns_are_no_names_to_list() -> None:
    assert [name for name, _ in PATTERNS.listed(everything)] == ["claude", "haiku", "pinned", "claude-haiku-4"]


def test_the_refusal_says_which_alias_would_help() -> None:
    def refusal(model: str, *serves: Serve) -> str:
        with pytest.raises(ClientError) as caught:
            Names(serves).resolve(model, everything)
        return caught.value.message

    chat = frozenset((Dialect.CHAT,))
    vectors = Serve("vectors", dialects=frozenset((Dialect.EMBEDDINGS,)))
    found = refusal("claude-haiku-4-5", vectors, Serve("small", dialects=chat), Serve("big", dialects=chat))
    assert 'aliases = ["claude-haiku-4-5"]' in found
    assert "serve 'small'" in found
    assert "serve 'big'" in refusal("bigg", Serve("small", dialects=chat), Serve("big", dialects=chat))
    assert "aliases" not in refusal("claude-haiku-4-5", vectors)
    with pytest.raises(ClientError) as caught:
        Names([Serve("small", dialects=chat)]).resolve("mendin", everything, ["mending"])
    assert "aliases" not in caught.value.message
    assert "aliases" not in refusal(" edge", Serve("small", dialects=chat))
