"""By what a request's session is known, and what is remembered of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.prompt_chain import PromptChain
from stoker.domain.session import Session
from stoker.exchange.sessions import MOST, Sessions
from stoker.request.codec.body_fields import read_body_fields


def found(
    sessions: Sessions, headers: dict[bytes, bytes] | None = None, key: str = "ann", **body: Any
) -> Session | None:
    fields = read_body_fields(json.dumps({"model": "m", **body}).encode())
    return sessions.of_request(headers or {}, fields, key)


@pytest.mark.parametrize(
    ("headers", "body", "source"),
    [
        ({b"session_id": b"1"}, {"prompt_cache_key": "2"}, "session_id"),
        ({b"x-stoker-session": b"1", b"session_id": b"2"}, {}, "x-stoker-session"),
        ({}, {"metadata": {"user_id": "u"}, "prompt_cache_key": "2"}, "metadata.user_id"),
        ({}, {"prompt_cache_key": "2", "conversation": "c"}, "prompt_cache_key"),
        ({}, {"conversation": "conv_1"}, "conversation"),
        ({}, {"conversation": {"id": "conv_1"}}, "conversation"),
    ],
)
def test_the_first_name_that_a_request_has_names_its_session(
    headers: dict[bytes, bytes], body: dict[str, Any], source: str
) -> None:
    sessions = Sessions()
    session = found(sessions, headers, **body)
    assert session is not None
    assert session.source == source
    assert found(sessions, headers, **body) is session
    assert found(sessions, headers, key="bob", **body) is not session


@pytest.mark.parametrize("body", [{}, {"metadata": {"user_id": 7}}, {"metadata": ["x"]}, {"conversation": None},
                                  {"prompt_cache_key": {"a": 1}}, {"metadata": None, "conversation": {}}])  # fmt: skip
def test_what_names_no_session_stands_alone(body: dict[str, Any]) -> None:
    assert found(Sessions(), **body) is None


def test_a_header_says_whose_subagent_it_is() -> None:
    sessions = Sessions()
    parent = found(sessions, {b"x-session-id": b"main"})
    child = found(sessions, {b"x-session-id": b"sub", b"x-parent-session-id": b"main"})
    assert child is not None
    assert child is not parent
    assert child.root is parent
    own = found(sessions, {b"x-session-id": b"odd", b"x-parent-session-id": b"odd"})
    assert own is not None
    assert own.root is own


def test_a_subagent_of_subagents_counts_with_the_first_and_keeps_no_chain_in_memory() -> None:
    sessions = Sessions()
    first = latest = found(sessions, {b"x-session-id": b"0"})
    for number in range(1, 2 * MOST):
        headers = {b"x-session-id": b"%d" % number, b"x-parent-session-id": b"%d" % (number - 1)}
        latest = found(sessions, headers)
    assert latest is not None
    assert latest.root is first


def chain(*hashes: int) -> PromptChain:
    return PromptChain(hashes, tuple(range(1, len(hashes) + 1)))


def test_a_prompt_that_begins_with_the_whole_of_an_earlier_one_goes_on_with_its_session() -> None:
    sessions = Sessions()
    first = sessions.of_prompt(chain(1, 2), "ann")
    other = sessions.of_prompt(chain(1, 7), "ann")
    assert sessions.of_prompt(chain(1, 2, 3, 4), "ann") is first is not other
    assert sessions.of_prompt(chain(1, 7, 8), "ann") is other
    assert sessions.of_prompt(chain(1, 2, 3, 4, 5), "ann") is first


def test_a_session_says_nothing_of_what_names_it() -> None:
    session = found(Sessions(), {b"session_id": b"a-secret-name"})
    assert session is not None
    assert "secret" not in session.id
    assert found(Sessions(), {b"session_id": b"a-secret-name"}).id != session.id  # type: ignore[union-attr]


def test_those_that_asked_longest_ago_are_forgotten_first() -> None:
    sessions = Sessions()
    named, prompted = found(sessions, {b"session_id": b"first"}), sessions.of_prompt(chain(1, 2), "ann")
    again = found(sessions, {b"session_id": b"again"})
    for number in range(MOST):
        found(sessions, {b"session_id": b"%d" % number})
        found(sessions, {b"session_id": b"again"})
        sessions.of_prompt(chain(number, number + 10**6), "ann")
    assert found(sessions, {b"session_id": b"again"}) is again
    assert found(sessions, {b"session_id": b"first"}) is not named
    assert sessions.of_prompt(chain(1, 2, 3), "ann") is not prompted


def test_one_key_with_many_sessions_loses_its_own_and_nobody_elses() -> None:
    sessions = Sessions()
    named, prompted = found(sessions, {b"session_id": b"1"}, key="bob"), sessions.of_prompt(chain(1, 2), "bob")
    for number in range(MOST + 10):
        found(sessions, {b"session_id": b"%d" % number})
        sessions.of_prompt(chain(number, number + 10**6), "ann")
    assert found(sessions, {b"session_id": b"1"}, key="bob") is named
    assert sessions.of_prompt(chain(1, 2, 3), "bob") is prompted
    assert sessions._named._count == MOST == sessions._prompted._count  # noqa: SLF001


def test_single_requests_displace_no_session_that_is_named() -> None:
    sessions = Sessions()
    named = found(sessions, {b"session_id": b"1"})
    for number in range(MOST + 10):
        sessions.of_prompt(chain(number, number + 10**6), "ann")
    assert found(sessions, {b"session_id": b"1"}) is named
