"""A plan: who is asked, and what follows a failure; the whole table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dialect import ENDPOINTS, Dialect
from stoker.domain.errors import REJECTED, CapacityError, ClientError, OutputLimitTooHigh, StokerError, UpstreamError
from stoker.domain.serve import FallbackCause, Serve
from stoker.request.decide.names import Names
from stoker.request.decide.plan import Next, PlanCandidate, Standing, after_failure, leaves, plan_for

CHAT = ENDPOINTS["/v1/chat/completions"]
SERVE = Serve("a")
TOO_MUCH = OutputLimitTooHigh(900, 1000)
GONE = UpstreamError("x", code="unreachable")
BUSY = CapacityError("x", code="upstream_busy")
BROKE = UpstreamError("x", code="upstream_broke")
WRONG = ClientError("x", status=400)


def standing(causes: tuple[FallbackCause, ...] | None = None, **state: Any) -> Standing:
    return Standing(PlanCandidate(SERVE, causes=causes), **state)


@pytest.mark.parametrize(
    ("error", "at", "following"),
    [
        (UpstreamError("x", code=REJECTED), standing(can_repair=True, has_begun=True), Next.REPAIR),
        (UpstreamError("x", code=REJECTED), standing(has_next=True), Next.CANDIDATE),
        (UpstreamError("x", code=REJECTED), standing(), Next.END),
        (GONE, standing(has_next=True), Next.AGAIN),
        (GONE, standing(has_begun=True), Next.AGAIN),
        (BUSY, standing(has_begun=True, must_go_on=True), Next.AGAIN),
        (BUSY, standing(has_begun=True, must_go_on=True, was_busy=True), Next.END),
        (BUSY, standing(has_begun=True), Next.END),
        (BUSY, standing(has_next=True), Next.CANDIDATE),
        (GONE, standing(has_replica=True), Next.REPLICA),
        (GONE, standing(was_unreachable=True), Next.END),
        (GONE, standing(was_unreachable=True, has_next=True), Next.CANDIDATE),
        (BROKE, standing(has_begun=True, has_next=True, has_replica=True), Next.END),
        (TOO_MUCH, standing(has_next=True, has_replica=True), Next.LESS_OUTPUT),
        (TOO_MUCH, standing(has_begun=True), Next.END),
        (TOO_MUCH, standing(was_lowered=True, has_next=True), Next.END),
        (BROKE, standing(has_replica=True, has_next=True), Next.REPLICA),
        (BROKE, standing(has_next=True), Next.CANDIDATE),
        (BROKE, standing((FallbackCause.BUSY,), has_next=True), Next.END),
        (BROKE, standing((FallbackCause.BUSY,), has_next=True, has_replica=True), Next.REPLICA),
        (CapacityError("x", code="queue_full"), standing((FallbackCause.BUSY,), has_next=True), Next.CANDIDATE),
        (WRONG, standing(has_next=True, has_replica=True), Next.END),
        (BROKE, standing(), Next.END),
    ],
)  # fmt: skip
def test_what_follows_a_failure(error: StokerError, at: Standing, following: Next) -> None:
    assert after_failure(error, at) is following
    assert leaves(error, at) is (following in (Next.REPLICA, Next.CANDIDATE))


def test_why_an_engine_exited_counts_more_than_how_its_connection_broke() -> None:
    at = standing((FallbackCause.MEMORY,), has_next=True)
    assert after_failure(BROKE, at) is Next.END
    assert after_failure(BROKE, at, "out_of_memory") is Next.CANDIDATE


ERRORS = st.sampled_from([UpstreamError, ClientError, CapacityError])
CODES = st.sampled_from(["unreachable", "upstream_broke", "queue_full", "cut", REJECTED, "draining", "x"])


@given(ERRORS, CODES, st.lists(st.booleans(), min_size=5, max_size=5))
def test_nobody_else_is_asked_once_the_client_has_a_part_of_an_answer_or_where_nobody_is_left(
    kind: type[StokerError], code: str, flags: list[bool]
) -> None:
    error, (has_next, has_replica, has_begun, lowered, unreachable) = kind("x", code=code), flags
    at = standing(None, has_next=has_next, has_replica=has_replica, has_begun=has_begun, was_lowered=lowered,
                  was_unreachable=unreachable)  # fmt: skip
    if has_begun or not (has_next or has_replica):
        assert not leaves(error, at)


def anybody(serve: Serve) -> bool:
    return True


def test_a_model_without_a_fallback_is_a_plan_of_one() -> None:
    assert plan_for(SERVE, Names([SERVE]), anybody, CHAT) == (PlanCandidate(SERVE),)


def test_a_fallback_is_the_second_candidate_for_the_causes_that_are_configured() -> None:
    big, small = Serve("big", fallback="small", fallback_on=(FallbackCause.BUSY,)), Serve("small")
    plan = plan_for(big, Names([big, small]), anybody, CHAT)
    assert plan == (PlanCandidate(big, causes=(FallbackCause.BUSY,)), PlanCandidate(small))


@pytest.mark.parametrize("why", ["not permitted", "speaks something else", "unknown"])
def test_a_fallback_that_could_not_answer_is_no_candidate(why: str) -> None:
    speaks = frozenset((Dialect.EMBEDDINGS if why == "speaks something else" else Dialect.CHAT,))
    big, small = Serve("big", fallback="small"), Serve("small", dialects=speaks)
    names = Names([big] if why == "unknown" else [big, small])
    may_use = (lambda serve: serve is big) if why == "not permitted" else anybody
    assert plan_for(big, names, may_use, CHAT) == (PlanCandidate(big),)


def test_a_fallback_that_a_key_may_not_use_costs_no_search_among_all_names() -> None:
    asked: list[str] = []

    def may_use(serve: Serve) -> bool:
        asked.append(serve.name)
        return False

    big = Serve("big", fallback="s3")
    assert plan_for(big, Names([big, *(Serve(f"s{number}") for number in range(50))]), may_use, CHAT) == (
        PlanCandidate(big),
    )
    assert asked == ["s3"]
