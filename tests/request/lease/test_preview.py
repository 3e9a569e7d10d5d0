"""What a switch would stop, and what fits beside what is loaded: the answers are those of the scheduler itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.request.lease.stage import Stage, replicated, serve

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Status
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.preview import loadable, preview_switch

GIB = 2**30


def preview(stage: Stage, name: str) -> Any:
    return preview_switch(stage.scheduler, name)


def names(stage: Stage) -> list[str]:
    return loadable(stage.scheduler)


def sized(name: str, size: int, **fields: Any) -> Any:
    return serve(name, memory=size * GIB, **fields)


def test_in_a_slot_with_memory_only_as_many_as_needed_and_never_a_pin() -> None:
    stage = Stage(sized("pin", 4, keep_loaded=True), sized("old", 4), sized("new", 4), sized("big", 6), memory=14 * GIB)
    stage.take(stage.scheduler.on_tick(0.0))
    stage.ready()
    stage.load("old", took=1.0)
    stage.to(10.0)
    stage.load("new", took=1.0)
    assert preview(stage, "big").victims == ("old",)
    assert preview(stage, "new").is_ready
    assert preview(stage, "new").victims == ()


def test_it_names_a_refusal_and_that_something_has_to_end_first() -> None:
    stage = Stage(sized("pin", 8, keep_loaded=True), sized("a", 4), sized("big", 9), memory=14 * GIB)
    stage.take(stage.scheduler.on_tick(0.0))
    stage.ready()
    assert preview(stage, "big").refusal.code == "no_fit"
    stage.switch("a")
    assert preview(stage, "a").waits
    stage.ready()
    stage.take(stage.scheduler.on_shutdown(stage.now))
    assert preview(stage, "big").refusal.code == "shutting_down"


def test_asking_changes_nothing() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    before = (stage.scheduler.state.wake, stage.scheduler.state.last_swap_id, stage.phase("a"), stage.phase("b"))
    assert preview(stage, "b").victims == ("a",)
    assert names(stage) == []
    assert stage.scheduler.on_tick(stage.now) == []
    assert (
        stage.scheduler.state.wake,
        stage.scheduler.state.last_swap_id,
        stage.phase("a"),
        stage.phase("b"),
    ) == before


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=3, max_size=6),
    order=st.lists(st.integers(0, 5), max_size=8),
    target=st.integers(0, 5),
    pinned=st.booleans(),
)
def test_whoever_it_names_is_who_stops(sizes: list[int], order: list[int], target: int, pinned: bool) -> None:
    serves = [sized(f"s{at}", size, keep_loaded=pinned and at == 0) for at, size in enumerate(sizes)]
    stage = Stage(*serves, memory=10 * GIB)
    stage.take(stage.scheduler.on_tick(0.0))
    while stage.swaps:
        stage.ready(1.0)
    for at in order:
        stage.to(stage.now + 5.0)
        stage.switch(f"s{at % len(sizes)}")
        while stage.swaps:
            stage.ready(1.0)
    name = f"s{target % len(sizes)}"
    told = preview(stage, name)
    id = stage.switch(name)
    if told.refusal is not None:
        assert stage.refused[id].code == told.refusal.code
    elif told.is_ready:
        assert id in stage.granted
    else:
        assert stage.swaps[0].victims == told.victims


def test_everything_that_fits_is_named_pins_first_and_nothing_is_counted_twice() -> None:
    stage = Stage(sized("a", 4), sized("b", 4), sized("c", 4), sized("d", 4), memory=12 * GIB, baseline="c")
    assert names(stage) == ["c", "a", "b"]
    stage.load("d")
    assert names(stage) == ["c", "a"]


def test_one_that_is_too_large_does_not_keep_a_smaller_one_out() -> None:
    stage = Stage(sized("a", 4), sized("huge", 20), sized("b", 4), memory=12 * GIB)
    assert names(stage) == ["a", "b"]


def test_sets_count_with_what_was_chosen_before() -> None:
    assert names(Stage(serve("a"), serve("b"), serve("c"), together="ac bc")) == ["a", "c"]


def test_of_a_serve_with_replicas_one_is_enough_and_a_serve_for_two_slots_needs_both() -> None:
    wide = serve("wide", slot="gpu0+gpu1")
    assert names(Stage(*replicated("many", "gpu0 gpu1", replicas=2), wide, slots="gpu0 gpu1")) == ["many@gpu0"]
    assert names(Stage(wide, *replicated("many", "gpu0 gpu1"), slots="gpu0 gpu1")) == ["wide"]


def test_rejected_parked_and_broken_serves_have_to_be_named() -> None:
    stage = Stage(serve("bad", slot=None, status=Status.REJECTED), serve("p", slot=None), serve("x", slot=None))
    stage.take(stage.scheduler.on_park("p", 0.0, "it flaps"))
    stage.take(stage.scheduler.on_cannot_load("x", 0.0, "cut off"))
    assert names(stage) == []


def test_production_comes_before_an_experiment() -> None:
    assert names(Stage(serve("try", status=Status.EXPERIMENT), serve("real"))) == ["real"]


def test_a_switch_that_may_stop_nothing_is_refused_if_something_has_changed_meanwhile() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    refused = stage.scheduler.on_switch(99, "b", stage.now, evict=False)
    stage.take(refused)
    assert stage.refused[99].code == "no_room"
    assert "a" in stage.refused[99].message
    assert "stoker slot switch b" in stage.refused[99].message
    assert stage.phase("a") == "ready"
    stage.unload("a")
    stage.ready()
    stage.take(stage.scheduler.on_switch(100, "b", stage.now, evict=False))
    assert stage.phase("b") == ServePhase.STARTING.value


def test_a_failed_start_is_tried_again_by_it() -> None:
    stage = Stage(serve("a"))
    stage.request("a")
    stage.ready(error=StartFailed("no"))
    assert names(stage) == ["a"]
