"""Sessions decide when models take turns: by what they will do next, and by what a swap costs them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.request.lease.stage import Stage, serve

from stoker.domain.lease import FairShare
from stoker.domain.session import Session
from stoker.domain.usage import ServeUsage
from stoker.request.lease.sessions import FORGOTTEN_AFTER, LOOP_WAITS, SWAP_WORTH, GapMemory, slowdown
from stoker.request.lease.state import MOST_OF_SERVE
from stoker.request.lease.timing import MIN_MAX_WAIT

SWAP_TIME = 10.0
MAX_WAIT = 40.0


def a_session(name: str = "s", parent: Session | None = None) -> Session:
    return Session(name, "agent", parent=parent)


def ask(stage: Stage, name: str, session: Session | None) -> int:
    return stage.request(name, share=FairShare("agent", session=session))


def answered(stage: Stage, id: int, name: str, session: Session, calls: bool) -> None:
    state = stage.scheduler.serves[name]
    state.note_answer(session, ServeUsage(name, calls_tool=calls))
    stage.served(id, name)


def in_a_loop(*names: str, **policy: object) -> tuple[Stage, Session]:
    """`a` was loaded, in 10 s, for a session whose answer has just called a tool."""
    stage, session = Stage(*map(serve, names or "ab"), **policy), a_session()  # type: ignore[arg-type]
    id = ask(stage, "a", session)
    stage.ready(after=SWAP_TIME)
    stage.to(stage.now + 1.0)
    answered(stage, id, "a", session, calls=True)
    return stage, session


def left_after(stage: Stage, name: str = "a") -> float:
    """For how many seconds it stays, from now on."""
    began = stage.now
    while stage.phase(name) == "ready":
        assert stage.wake is not None
        stage.to(stage.wake)
    return stage.now - began


def test_a_model_stays_for_a_session_that_is_about_to_return() -> None:
    stage, _ = in_a_loop()
    ask(stage, "b", a_session("other"))
    stage.to(stage.now + 3.0)
    assert stage.phase("a") == "ready"


def test_a_model_leaves_at_once_after_the_last_answer_of_a_session_that_nobody_expects_back_soon() -> None:
    stage, session = in_a_loop()
    stage.to(stage.now + 0.5)
    last, waiting = ask(stage, "a", session), ask(stage, "b", a_session("other"))
    stage.to(stage.now + 8.0)
    answered(stage, last, "a", session, calls=False)
    assert left_after(stage) < SWAP_TIME
    assert waiting not in stage.refused


def test_a_session_that_stays_away_longer_than_loops_do_is_not_waited_for() -> None:
    stage, _ = in_a_loop()
    ask(stage, "b", a_session("other"))
    assert left_after(stage) < MAX_WAIT / 2


def test_a_request_that_belongs_to_no_loop_waits_no_longer_than_max_wait() -> None:
    stage, session = in_a_loop()
    ask(stage, "b", None)
    for _ in range(50):
        id = ask(stage, "a", session)
        stage.to(stage.now + 1.0)
        if stage.phase("a") != "ready":
            break
        answered(stage, id, "a", session, calls=True)
    assert stage.now - (SWAP_TIME + 1.0) == pytest.approx(MIN_MAX_WAIT, abs=1.0)


def in_turns(stage: Stage, session: Session, most: float) -> float:
    """The session goes on with its loop, 0.1 s between turns of 0.9 s. Returns after how many seconds `a` had to
    leave."""
    began = stage.now
    while stage.now - began < most:
        id = ask(stage, "a", session)
        stage.to(stage.now + 0.9)
        if stage.phase("a") != "ready":
            break
        answered(stage, id, "a", session, calls=True)
        stage.to(stage.now + 0.1)
    return stage.now - began


def waiting_in_loop(stage: Stage, name: str = "other") -> Session:
    """A session that called a tool a moment ago goes on at `b`."""
    other = a_session(name)
    other.turns, other.in_loop, other.began_at = 1, True, 0.0
    ask(stage, "b", other)
    return other


def test_a_request_in_a_loop_waits_until_that_has_cost_more_than_the_swap_does() -> None:
    stage, session = in_a_loop()
    waiting_in_loop(stage)
    kept = in_turns(stage, session, 2000.0)
    assert MAX_WAIT * 2 < kept < 2 * SWAP_WORTH * SWAP_TIME


def test_many_that_wait_need_not_wait_as_long_as_one() -> None:
    stage, session = in_a_loop()
    for number in range(4):
        waiting_in_loop(stage, f"s{number}")
    many = in_turns(stage, session, 2000.0)
    stage, session = in_a_loop()
    waiting_in_loop(stage)
    assert many < in_turns(stage, session, 2000.0) / 2


def test_no_request_in_a_loop_waits_without_end() -> None:
    stage, _ = in_a_loop(swap_timeout=1e6)
    for number in range(40):  # so much is running that the swap would cost more than anybody waits
        busy = a_session(f"busy{number}")
        busy.in_loop = True
        stage.request("a", share=FairShare("agent", session=busy))
    waiting_in_loop(stage)
    for _ in range(101):
        stage.to(stage.now + LOOP_WAITS * MAX_WAIT / 100)
    assert stage.phase("a") != "ready"


def test_a_configured_max_wait_holds_for_loops_too() -> None:
    stage, session = in_a_loop(max_wait=20.0)
    waiting_in_loop(stage)
    assert in_turns(stage, session, 2000.0) == pytest.approx(20.0, abs=1.0)


def test_the_time_to_read_prompts_again_is_a_part_of_what_a_swap_costs() -> None:
    def kept(reads: float | None) -> float:
        stage, session = in_a_loop(swap_timeout=1e6)
        state = stage.scheduler.serves["a"]
        state.reading.learn(ServeUsage("a", 10_000, 1, 0, reading_seconds=reads))
        state.note_answer(session, ServeUsage("a", 10_000, 0, 10_000, calls_tool=True))
        for number in range(4):
            waiting_in_loop(stage, f"s{number}")
        return in_turns(stage, session, 5000.0)

    assert kept(20.0) > 1.5 * kept(None)


def test_a_subagent_is_as_patient_as_its_parent_and_counts_with_it() -> None:
    parent = a_session("parent")
    parent.turns, parent.in_loop, parent.began_at, parent.waited = 3, True, 0.0, 30.0
    child = a_session("child", parent)
    assert slowdown(child, 100.0, 1.0) == slowdown(parent, 100.0, 1.0) > 1
    stage, session = in_a_loop()
    ask(stage, "b", child)
    assert in_turns(stage, session, 2000.0) > 1.5 * MAX_WAIT


def test_a_request_without_a_session_is_scheduled_as_if_there_were_none() -> None:
    stage = Stage(serve("a"), serve("b"))
    id = stage.request("a")
    stage.ready(after=SWAP_TIME)
    stage.served(id, "a")
    stage.request("b")
    assert stage.phase("a") == "stopping"


def test_where_min_residency_or_linger_is_configured_it_decides() -> None:
    stage, session = in_a_loop(linger=0.0)
    ask(stage, "b", a_session("other"))
    assert stage.phase("a") == "stopping"
    assert session.loaded is not None


# -- gaps --------------------------------------------------------------------------------------------------------


def ended(now: float, in_loop: bool = True) -> Session:
    session = a_session()
    session.ended_at, session.in_loop = now, in_loop
    return session


def test_before_anything_is_known_the_published_gaps_count() -> None:
    gaps = GapMemory()
    assert gaps.chance(ended(0.0), 0.0, 1.0) == pytest.approx(0.86, abs=0.01)
    assert gaps.chance(ended(0.0), 0.0, 10.0) == pytest.approx(0.95, abs=0.01)


def test_an_agent_whose_tools_take_long_is_waited_for_longer() -> None:
    gaps = GapMemory()
    assert gaps.chance(ended(0.0), 15.0, 20.0) < 0.5
    for _ in range(100):
        gaps.add(ended(0.0), 25.0)
    assert gaps.chance(ended(0.0), 15.0, 20.0) > 0.5


def test_what_follows_an_answer_is_learned_apart() -> None:
    gaps = GapMemory()
    for _ in range(100):
        gaps.add(ended(0.0, in_loop=False), 0.5)
    assert gaps.chance(ended(0.0, in_loop=False), 0.0, 1.0) > 0.8
    assert gaps.chance(ended(0.0), 15.0, 20.0) < 0.5


@given(st.lists(st.floats(0, 1e4)), st.floats(0, 1e4), st.floats(0, 1e3), st.booleans())
def test_a_chance_is_one(learned: list[float], gap: float, within: float, in_loop: bool) -> None:
    gaps = GapMemory()
    for one in learned:
        gaps.add(ended(0.0, in_loop), one)
    chance = gaps.chance(ended(0.0, in_loop), gap, within)
    assert 0.0 <= chance <= 1.0 + 1e-9
    if gap >= FORGOTTEN_AFTER:
        assert chance == 0.0


def test_a_serve_remembers_a_bounded_number_of_sessions() -> None:
    stage = Stage(serve("a", max_active=10_000))
    for number in range(MOST_OF_SERVE + 10):
        ask(stage, "a", a_session(str(number)))
    assert len(stage.scheduler.serves["a"].sessions) == MOST_OF_SERVE
