"""A serve that takes several slots at once: all are cleared in one decision, and it is not kept waiting for ever."""

from __future__ import annotations

import pytest
from tests.request.lease.stage import Stage, replicated, serve

QUICK = {"min_residency": 0.0, "linger": 0.0}


def two_gpus(*others: str, memory: int | None = None, size: int | None = None, **policy: float) -> Stage:
    """`huge` takes both GPUs; `others`: `"a@gpu0"` for a serve in one of them."""
    small = [serve(name.partition("@")[0], slot=name.partition("@")[2], memory=memory and 1) for name in others]
    huge = serve("huge", slot="gpu0+gpu1", memory=size)
    return Stage(huge, *small, slots="gpu0 gpu1", memory=memory, **{**QUICK, **policy})


def test_it_loads_where_both_are_free() -> None:
    stage = two_gpus()
    waiting = stage.request("huge")
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("huge", ())]
    stage.ready()
    assert waiting in stage.granted


def test_those_of_both_slots_stop_in_one_swap() -> None:
    stage = two_gpus("a@gpu0", "b@gpu1")
    stage.load("a")
    stage.load("b")
    stage.request("huge")
    assert [(swap.target, set(swap.victims)) for swap in stage.swaps] == [("huge", {"a", "b"})]


def test_nobody_stops_before_both_can() -> None:
    stage = two_gpus("a@gpu0", "b@gpu1")
    stage.load("a")
    stage.load("b")
    busy = stage.request("b")
    stage.request("huge")
    assert not stage.swaps
    assert stage.phase("a") == "ready"
    stage.served(busy, "b")
    assert [set(swap.victims) for swap in stage.swaps] == [{"a", "b"}]


def test_a_small_one_stops_it_for_one_slot_and_the_other_is_free_then() -> None:
    stage = two_gpus("a@gpu0", "b@gpu1")
    stage.load("huge")
    first = stage.request("a")
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("a", ("huge",))]
    second = stage.request("b")
    assert len(stage.swaps) == 1, "it is stopped once"
    stage.ready()
    stage.ready()
    assert {first, second} <= set(stage.granted)


def test_a_victim_in_both_slots_is_stopped_once() -> None:
    stage = Stage(serve("huge", slot="gpu0+gpu1"), serve("other", slot="gpu1+gpu0"), slots="gpu0 gpu1", **QUICK)
    stage.load("other")
    stage.request("huge")
    assert [swap.victims for swap in stage.swaps] == [("other",)]


def test_each_slot_bears_an_equal_part_of_its_memory() -> None:
    stage = two_gpus("a@gpu0", "b@gpu1", memory=4, size=6)
    for name in ("a", "b", "huge"):
        stage.load(name)
    assert {stage.phase(name) for name in ("a", "b", "huge")} == {"ready"}
    assert [slot_state.used for slot_state in stage.scheduler.slots.values()] == [4, 4]


def test_what_can_never_fit_is_refused() -> None:
    stage = two_gpus("a@gpu0", memory=4, size=9)
    waiting = stage.request("huge")
    assert "needs" in stage.refused[waiting].message
    assert "gpu0" in stage.refused[waiting].message


def test_unloading_it_frees_both() -> None:
    stage = two_gpus("a@gpu0", "b@gpu1")
    stage.load("huge")
    stage.unload("huge")
    stage.ready()
    assert [len(slot_state.swaps) for slot_state in stage.scheduler.slots.values()] == [0, 0]
    stage.load("a")
    stage.load("b")
    assert {stage.phase("a"), stage.phase("b")} == {"ready"}


def test_a_swap_that_nobody_needs_any_more_is_called_off_in_both() -> None:
    stage = two_gpus("a@gpu0", "b@gpu1", max_wait=1.0)
    stage.load("a")
    stage.load("b")
    stage.request("a")
    waiting = stage.request("huge")
    stage.to(2)
    assert stage.phase("b") == "draining"
    stage.leaves(waiting, "huge")
    assert {stage.phase("a"), stage.phase("b")} == {"ready"}
    assert [len(slot_state.swaps) for slot_state in stage.scheduler.slots.values()] == [0, 0]
    assert stage.phase("huge") == "stopped"


def test_slots_that_are_cleared_in_turn_for_others_do_not_keep_it_waiting_for_ever() -> None:
    """In one slot or the other a swap is always under way; but past `max_wait` nobody else gets one there."""
    stage = two_gpus("a@gpu0", "b@gpu0", "c@gpu1", "d@gpu1", max_wait=10.0)
    stage.load("a")
    stage.load("c")
    waiting = {name: stage.request(name) for name in ("b", "d")}
    huge = stage.request("huge")
    while huge not in stage.granted and stage.now < 60:
        stage.to(stage.now + 1)
        target = stage.swaps[0].target
        if target in waiting:
            other = {"a": "b", "b": "a", "c": "d", "d": "c"}[target]
            waiting[other] = stage.request(other)
        stage.ready()
        if target in waiting:
            stage.served(waiting.pop(target), target)
    assert stage.now < 15


@pytest.mark.parametrize("order", ["gpu0+gpu1", "gpu1+gpu0"])
def test_two_that_overlap_take_turns(order: str) -> None:
    stage = Stage(
        serve("left", slot="gpu0+gpu1"), serve("right", slot="gpu1+gpu2"), serve("all", slot=f"gpu2+{order}"),
        slots="gpu0 gpu1 gpu2", **QUICK,
    )  # fmt: skip
    waiting = {name: stage.request(name) for name in ("left", "right", "all")}
    for _ in range(6):
        stage.to(stage.now + 1)
        if stage.swaps:
            stage.ready()
        for name, id in waiting.items():
            if id in stage.granted and stage.phase(name) == "ready":
                stage.served(id, name)
    assert set(waiting.values()) <= set(stage.granted)


def test_a_replica_may_take_two_slots() -> None:
    stage = Stage(
        *replicated("pair", "gpu0+gpu1 gpu2+gpu3"), serve("a", slot="gpu1"), slots="gpu0 gpu1 gpu2 gpu3", **QUICK
    )
    stage.load("a")
    stage.join("pair")
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("pair@gpu2+gpu3", ())]
