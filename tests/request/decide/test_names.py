"""Every model name means one serve, for those who may use it."""

from __future__ import annotations

import pytest

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
