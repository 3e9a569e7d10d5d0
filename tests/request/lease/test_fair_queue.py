"""Places are shared by key: who floods waits for itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.request.lease.stage import Stage, serve

from stoker.domain.key import Priority
from stoker.domain.lease import FairShare
from stoker.request.lease.state import SlotTime

A, B = FairShare("a"), FairShare("b")
URGENT, IDLE = FairShare("urgent", Priority.INTERACTIVE), FairShare("idle", Priority.BACKGROUND)


def loaded(*serves: object, **policy: object) -> Stage:
    stage = Stage(*serves, **policy)  # type: ignore[arg-type]
    stage.load(serves[0].name)  # type: ignore[attr-defined]
    return stage


def ask(stage: Stage, share: FairShare, name: str = "m", body_bytes: int = 2000) -> int:
    return stage.request(name, share=share, body_bytes=body_bytes)


def test_the_key_that_asks_one_at_a_time_is_next_behind_a_flood() -> None:
    stage = loaded(serve("m", max_active=2, queue=300))
    running = [ask(stage, A) for _ in range(2)]
    flood = [ask(stage, A) for _ in range(200)]
    for _ in range(20):
        mine = ask(stage, B)
        assert mine not in stage.granted
        stage.served(running.pop(0), "m")
        assert stage.granted[-1] == mine, "the next free place"
        stage.served(mine, "m")
        running.append(stage.granted[-1])
    assert not stage.refused
    assert set(flood) & set(stage.granted), "places are not left free for it"


def test_a_full_queue_refuses_the_flood_and_not_the_other_key() -> None:
    stage = loaded(serve("m", max_active=1, queue=4))
    ask(stage, A)
    flood = [ask(stage, A) for _ in range(4)]
    mine = ask(stage, B)
    assert stage.refused.keys() == {flood[-1]}
    assert stage.refused[flood[-1]].code == "queue_full"
    late = ask(stage, A)
    assert late in stage.refused
    stage.served(stage.granted[-1], "m")
    assert stage.granted[-1] == mine


def test_weights_share_places_in_proportion() -> None:
    stage = loaded(serve("m", max_active=1, queue=200))
    heavy, light = FairShare("heavy", weight=3.0), FairShare("light")
    running = ask(stage, A)
    by_key = {ask(stage, heavy): "heavy" for _ in range(60)} | {ask(stage, light): "light" for _ in range(60)}
    served: list[str] = []
    for _ in range(40):
        stage.served(running, "m")
        running = stage.granted[-1]
        served.append(by_key[running])
    assert served.count("heavy") == 30


def test_interactive_goes_before_normal_before_background() -> None:
    stage = loaded(serve("m", max_active=1, queue=10))
    running = ask(stage, A)
    idle, normal, urgent = ask(stage, IDLE), ask(stage, B), ask(stage, URGENT)
    for expected in (urgent, normal, idle):
        stage.served(running, "m")
        running = stage.granted[-1]
        assert running == expected


def test_a_request_of_a_higher_priority_takes_the_place_of_one_that_may_be_preempted() -> None:
    stage = loaded(serve("m", max_active=1, queue=10))
    background = ask(stage, IDLE)
    stage.allow_preemption(background, "m", Priority.BACKGROUND)
    other = ask(stage, FairShare("other", Priority.BACKGROUND))
    assert stage.cut == []
    normal = ask(stage, A)
    assert (stage.cut, stage.granted[-1]) == ([background], normal)
    assert other not in stage.granted


def test_background_requests_never_cause_a_swap_while_the_resident_is_used() -> None:
    stage = loaded(serve("m"), serve("other"), max_wait=10.0, min_residency=0.0, linger=1.0, swap_timeout=1000.0)
    running = ask(stage, A)
    waiting = [ask(stage, IDLE, "other") for _ in range(20)]
    stage.to(stage.now + 500)
    assert stage.swaps == []
    stage.served(running, "m")
    stage.to(stage.now + 2)
    assert [swap.target for swap in stage.swaps] == ["other"]
    assert not stage.refused
    assert waiting


def test_background_requests_never_cause_a_swap_while_others_wait_in_the_slot() -> None:
    stage = loaded(serve("m"), serve("other"), serve("third"), min_residency=100.0, max_wait=1000.0, linger=1.0)
    ask(stage, IDLE, "other")
    stage.to(stage.now + 10)
    wanted = ask(stage, A, "third")
    stage.to(stage.now + 200)
    assert stage.swaps[-1].target == "third"
    stage.ready()
    assert wanted in stage.granted


def test_a_background_flood_on_the_resident_gives_way_to_a_request_for_another_model() -> None:
    stage = loaded(serve("m", max_active=2, queue=20), serve("other"), min_residency=0.0, linger=0.0, max_wait=1e6)
    running = [ask(stage, IDLE) for _ in range(2)]
    [ask(stage, IDLE) for _ in range(5)]
    wanted = ask(stage, A, "other")
    for id in running:
        stage.served(id, "m")
    late = ask(stage, IDLE)
    assert late not in stage.granted
    stage.to(stage.now + 1)
    assert stage.swaps[-1].target == "other"
    stage.ready()
    assert wanted in stage.granted


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 5)), min_size=1, max_size=40), st.data())
def test_seconds_of_a_slot_add_up_to_its_busy_time(steps: list[tuple[int, float]], data: st.DataObject) -> None:
    time, now, busy, charged = SlotTime(), 0.0, 0.0, 0.0
    held: list[float] = []
    for begin, seconds in steps:
        held += [time.enter(now) for _ in range(begin)]
        now += seconds
        busy += seconds if held else 0.0
        for _ in range(data.draw(st.integers(0, len(held)))):
            charged += time.leave(now, held.pop(data.draw(st.integers(0, len(held) - 1))))
    charged += sum(time.leave(now, entered) for entered in held)
    assert abs(charged - busy) < 1e-6
