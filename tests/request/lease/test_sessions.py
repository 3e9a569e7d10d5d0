"""Sessions decide when models take turns: by what they will do next, and by what a swap costs them."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.request.lease.stage import Stage, replicated, serve

from stoker.domain.key import Priority
from stoker.domain.lease import FairShare
from stoker.domain.session import FORGOTTEN_AFTER, PROMPT, Session
from stoker.domain.usage import ServeUsage
from stoker.request.lease.sessions import LOOP_WAITS, MOST_SLOWDOWN, SWAP_WORTH, GapMemory, slowdown
from stoker.request.lease.state import MOST_OF_SERVE, ReadingSpeed
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


def single(number: int) -> Session:
    """What a request looks like that is the only one with its prompt."""
    return Session(str(number), "job", source=PROMPT)


def test_nothing_is_kept_for_single_requests_that_are_over_however_many_there_were() -> None:
    stage = Stage(serve("a"), serve("b"))
    for name in "ab":
        stage.scheduler.serves[name].note_swap_time(20.0)
    for number in range(200):
        id = ask(stage, "a", session := single(number))
        if stage.swaps:
            stage.ready(after=20.0)
        stage.to(stage.now + 0.5)
        answered(stage, id, "a", session, calls=False)
    ask(stage, "b", None)
    assert stage.phase("a") == "stopping"


def test_small_chances_of_many_sessions_add_up_to_no_more_than_the_largest() -> None:
    def kept(sessions: int) -> float:
        stage = Stage(serve("a", max_active=100), serve("b"))
        ids = {ask(stage, "a", one): one for one in [a_session(str(number)) for number in range(sessions)]}
        stage.ready(after=SWAP_TIME)
        for id, session in ids.items():
            answered(stage, id, "a", session, calls=False)
        ask(stage, "b", a_session("other"))
        return left_after(stage)

    assert kept(80) == pytest.approx(kept(1), abs=0.1)


@pytest.mark.parametrize("has_sessions", [False, True])
def test_many_requests_do_not_cut_short_what_min_residency_protects(has_sessions: bool) -> None:
    stage = Stage(serve("a", max_active=8), serve("b"))
    for name in "ab":
        stage.scheduler.serves[name].note_swap_time(SWAP_TIME)
    for number in range(4):
        ask(stage, "a", a_session(str(number)) if has_sessions else None)
    stage.ready(after=SWAP_TIME)
    stage.to(stage.now + 1.0)
    for _ in range(8):
        ask(stage, "b", None)
    assert left_after(stage) == pytest.approx(2 * SWAP_TIME - 1.0)


def test_a_background_request_that_gives_way_is_no_reason_to_wait() -> None:
    stage, session = in_a_loop()
    stage.to(stage.now + 300.0)
    background = FairShare("nightly", Priority.BACKGROUND)
    id = stage.request("a", share=background)
    stage.allow_preemption(id, "a", Priority.BACKGROUND)
    ask(stage, "b", None)
    assert left_after(stage) < 1.0
    assert session.loaded is not None


def test_while_a_serve_of_two_slots_waits_for_a_session_its_empty_slot_serves_others() -> None:
    stage = Stage(serve("a", slot="gpu0"), serve("c", slot="gpu0+gpu1"), serve("d", slot="gpu1"), slots="gpu0 gpu1")
    for name in "cd":
        stage.scheduler.serves[name].note_swap_time(5.0)
    session = a_session()
    ask(stage, "a", session)
    stage.ready(after=200.0)
    other = a_session("other")
    other.turns, other.in_loop, other.began_at = 1, True, 0.0
    ask(stage, "c", other)
    stage.to(stage.now + 25.0)
    assert stage.phase("a") == "ready"
    ask(stage, "d", None)
    assert stage.phase("d") == "starting"


def test_a_session_that_waits_for_another_model_is_no_reason_to_keep_the_one_it_left() -> None:
    stage, session = in_a_loop()
    ask(stage, "b", session)
    assert stage.phase("a") == "stopping"


def test_a_refused_request_does_not_move_its_session() -> None:
    stage, session = in_a_loop()
    stage.scheduler.serves["b"].parked = "it flaps"
    assert ask(stage, "b", session) in stage.refused
    assert session.loaded is stage.scheduler.serves["a"]


def test_a_session_goes_with_its_request_to_another_replica() -> None:
    stage = Stage(*replicated("a", "gpu0 gpu1", replicas=2, max_active=1), slots="gpu0 gpu1")
    ids = {}
    for name in ("a@gpu0", "a@gpu1"):
        stage.switch(name)
        stage.ready(after=SWAP_TIME)
        ids[name] = ask(stage, name, None)
    session = a_session()
    id = ask(stage, "a@gpu0", session)
    stage.served(ids["a@gpu1"], "a@gpu1")
    assert id in stage.granted
    assert session.loaded is stage.scheduler.serves["a@gpu1"]


def test_sessions_that_wait_in_parallel_do_not_weigh_without_bound() -> None:
    parent = a_session("parent")
    parent.began_at, parent.waited = 0.0, 64 * 300.0
    assert slowdown(a_session("child", parent), 400.0, 1.0) == MOST_SLOWDOWN


def test_the_time_of_a_parent_begins_with_its_first_subagent() -> None:
    stage, parent = Stage(serve("a")), a_session("parent")
    ask(stage, "a", a_session("child", parent))
    stage.ready(after=SWAP_TIME)
    assert parent.began_at == 0.0


def test_a_request_beside_a_loop_does_not_end_it() -> None:
    stage, session = in_a_loop()
    state = stage.scheduler.serves["a"]
    state.note_answer(session, ServeUsage("a", 50_000, 100, calls_tool=True))
    state.note_answer(session, ServeUsage("a", 300, 10))
    assert (session.in_loop, session.tokens) == (True, 50_100)
    state.note_answer(session, ServeUsage("a", 50_200, 100))
    assert not session.in_loop


def test_a_turn_that_nothing_answered_leaves_no_loop() -> None:
    stage, session = in_a_loop()
    stage.scheduler.serves["a"].note_answer(session, None)
    assert not session.in_loop


def test_reading_again_counts_for_a_few_swaps_at_most() -> None:
    def kept(reads: float) -> float:
        stage, session = in_a_loop(swap_timeout=1e6)
        state = stage.scheduler.serves["a"]
        state.reading.learn(ServeUsage("a", 10_000, 1, 0, reading_seconds=reads))
        state.note_answer(session, ServeUsage("a", 10_000, 0, 10_000, calls_tool=True))
        for number in range(30):
            waiting_in_loop(stage, f"s{number}")
        return in_turns(stage, session, 5000.0)

    assert kept(30.0) == kept(3000.0)


def test_how_fast_a_serve_reads_is_not_learned_from_small_rests_of_cached_prompts() -> None:
    speed = ReadingSpeed()
    speed.learn(ServeUsage("a", 100_000, 1, 99_400, reading_seconds=3.0))
    assert speed.seconds(100_000) == 0.0
    speed.learn(ServeUsage("a", 100_000, 1, 0, reading_seconds=50.0))
    assert speed.seconds(100_000) == pytest.approx(50.0)


def test_a_serve_that_is_gone_is_not_kept_by_its_sessions() -> None:
    stage, session = in_a_loop()
    state = stage.scheduler.state
    state.remove_serve(state.serves["a"])
    assert session.loaded is None


@given(
    starts=st.tuples(st.sampled_from([1.0, 10.0, 200.0]), st.sampled_from([0.5, 10.0, 70.0])),
    loops=st.integers(2, 6),
    tokens=st.sampled_from([0, 5_000, 200_000]),
    per_token=st.sampled_from([1e-5, 1e-3, 1e-1]),
    kind=st.sampled_from(["plain", "session", "loop"]),
    swap_timeout=st.sampled_from([None, 300.0]),
)
@settings(max_examples=examples(150, 30), deadline=None, phases=[Phase.generate])
def test_no_request_is_starved_by_sessions_that_never_pause(
    starts: tuple[float, float], loops: int, tokens: int, per_token: float, kind: str, swap_timeout: float | None
) -> None:
    """The bound is `max_wait`, and in a loop LOOP_WAITS times that or half of the `swap_timeout`, if that is less."""
    stage = Stage(serve("a", max_active=loops), serve("b"), swap_timeout=swap_timeout)
    a, b = stage.scheduler.serves["a"], stage.scheduler.serves["b"]
    b.note_swap_time(starts[1])
    sessions = [a_session(str(number)) for number in range(loops)]
    held = [ask(stage, "a", session) for session in sessions]
    stage.ready(after=starts[0])
    waiting = a_session("waiting")
    waiting.turns, waiting.in_loop, waiting.began_at = (1, True, 0.0) if kind == "loop" else (0, False, None)
    id, began = ask(stage, "b", None if kind == "plain" else waiting), stage.now
    most = max(MIN_MAX_WAIT, 4 * starts[1])
    if kind == "loop":
        most = max(most, min(LOOP_WAITS * most, (b.queue[id].deadline - began) / 2))
    step, turn = max(most / 200, 0.05), 0
    while b.phase.value == "stopped":
        assert id not in stage.refused
        assert stage.now - began <= most + step
        stage.to(stage.now + step)
        if b.phase.value == "stopped":  # the others run, so `a` is never idle
            index = turn % loops
            usage = ServeUsage("a", tokens, 10, 0, calls_tool=True, reading_seconds=tokens * per_token)
            a.note_answer(sessions[index], usage)
            stage.served(held[index], "a")
            held[index] = ask(stage, "a", sessions[index])
            turn += 1


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


def test_that_sessions_do_not_return_is_learned_once_each() -> None:
    stage = Stage(serve("a", max_active=100))
    gaps = stage.scheduler.state.gaps
    for number in range(50):
        id = ask(stage, "a", one := a_session(str(number)))
        if stage.swaps:
            stage.ready(after=SWAP_TIME)
        answered(stage, id, "a", one, calls=True)
    before = gaps.chance(ended(stage.now), stage.now, 10.0)
    stage.to(stage.now + FORGOTTEN_AFTER)
    ask(stage, "a", a_session("next"))
    after = gaps.chance(ended(stage.now), stage.now, 10.0)
    assert before > 0.9
    assert after < 0.5
    assert len(stage.scheduler.serves["a"].sessions) == 1
    ask(stage, "a", a_session("another"))
    assert gaps.chance(ended(stage.now), stage.now, 10.0) == after


def test_of_parallel_requests_of_a_session_no_gap_is_learned() -> None:
    stage, session = in_a_loop()
    gaps = stage.scheduler.state.gaps
    ask(stage, "a", session)
    before = gaps.chance(ended(0.0), 0.0, 30.0)
    stage.to(stage.now + 120.0)
    ask(stage, "a", session)
    assert gaps.chance(ended(0.0), 0.0, 30.0) == before


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
