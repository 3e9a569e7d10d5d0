"""`idle_serve`: a slot returns to its default model when it is idle, and never at the cost of a request."""

from __future__ import annotations

import pytest
from tests.request.lease.stage import Stage, serve

from stoker.domain.serve import Serve, Slot, Status

AT_ONCE = {"min_residency": 0.0, "linger": 0.0, "max_wait": 1.0}


def stage_of(*serves: Serve, memory: int | None = None) -> Stage:
    return Stage(*(serves or (serve("home"), serve("b"), serve("c"))), memory=memory, idle_serve="home", **AT_ONCE)


def visit(stage: Stage, name: str) -> None:
    """A request is served by a serve that has to be loaded first."""
    id = stage.request(name)
    stage.ready(1.0)
    assert id in stage.granted
    stage.served(id, name)


def test_a_slot_returns_to_its_idle_serve_after_the_last_request() -> None:
    stage = stage_of()
    stage.load("home")
    visit(stage, "b")
    stage.to(stage.now + 59.0)
    assert stage.swaps == []
    stage.to(stage.now + 1.0)
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("home", ("b",))]
    stage.ready(1.0)
    stage.to(stage.now + 1000.0)
    assert (stage.phase("home"), stage.swaps) == ("ready", [])


def test_each_request_starts_the_time_anew() -> None:
    stage = stage_of()
    visit(stage, "b")
    stage.to(stage.now + 50.0)
    stage.served(stage.request("b"), "b")
    stage.to(stage.now + 59.0)
    assert stage.phase("b") == "ready"
    stage.to(stage.now + 1.0)
    assert stage.phase("home") == "starting"


def test_a_running_request_keeps_the_slot() -> None:
    stage = stage_of()
    visit(stage, "b")
    running = stage.request("b")
    stage.to(stage.now + 1000.0)
    assert stage.phase("b") == "ready"
    stage.served(running, "b")
    stage.to(stage.now + 60.0)
    assert stage.phase("home") == "starting"


def test_a_request_for_another_model_takes_the_slot_from_the_return() -> None:
    stage = stage_of()
    visit(stage, "b")
    stage.to(stage.now + 60.0)
    assert stage.phase("home") == "starting"
    waiting = stage.request("c")
    assert stage.cancelled == [stage.swaps[0].swap_id]
    stage.ready(cancelled=True)
    stage.ready(1.0)
    assert waiting in stage.granted


def test_a_request_for_the_serve_that_is_being_replaced_takes_the_slot_from_the_return() -> None:
    stage = stage_of()
    visit(stage, "b")
    stage.to(stage.now + 60.0)
    assert stage.phase("home") == "starting"
    waiting = stage.request("b")
    assert stage.cancelled == [stage.swaps[0].swap_id]
    stage.ready(cancelled=True)
    stage.ready(1.0)
    assert waiting in stage.granted


@pytest.mark.parametrize("act", ["switch", "unload"])
def test_what_an_operator_chose_stays(act: str) -> None:
    stage = stage_of()
    visit(stage, "b")
    if act == "switch":
        stage.load("c")
    else:
        stage.unload("b")
        stage.ready()
    stage.to(stage.now + 1000.0)
    assert stage.phase("home") == "stopped"
    assert stage.swaps == []


def test_an_idle_unload_before_it_leaves_the_slot_empty_until_the_return() -> None:
    stage = stage_of(serve("home"), serve("b", idle_unload=10.0))
    visit(stage, "b")
    stage.to(stage.now + 10.0)
    stage.ready()
    assert stage.phase("b") == "stopped"
    stage.to(stage.now + 50.0)
    assert stage.phase("home") == "starting"


def fail_for(stage: Stage, seconds: int) -> int:
    """Let every start of `home` fail, and every other one succeed. Returns how often `home` was started."""
    starts = 0
    for _ in range(seconds):
        stage.to(stage.now + 1.0)
        while stage.swaps:
            if stage.swaps[0].target == "home":
                starts += 1
                stage.fails()
            else:
                stage.ready()
    return starts


def test_each_failed_start_doubles_the_time_until_the_resident_is_stopped_again() -> None:
    stage = stage_of()
    visit(stage, "b")
    assert fail_for(stage, 3600) == 5  # after 60 s, and 2, 4, 8 and 16 min
    assert stage.phase("b") == "ready"


def test_an_idle_serve_that_fails_for_days_is_tried_once_an_hour() -> None:
    stage = stage_of()
    visit(stage, "b")
    fail_for(stage, 3 * 3600)
    assert 1 <= fail_for(stage, 4 * 3600) <= 4


@pytest.mark.parametrize("by", ["reload", "success"])
def test_the_delay_after_failed_starts_ends_with(by: str) -> None:
    stage = stage_of()
    visit(stage, "b")
    fail_for(stage, 3600)
    if by == "reload":
        slots = [slot_state.slot for slot_state in stage.scheduler.slots.values()]
        serves = [state.serve for state in stage.scheduler.serves.values()]
        stage.take(stage.scheduler.on_reload(slots, serves, stage.now))
    else:
        stage.load("home")
        visit(stage, "b")
    stage.to(stage.now + 60.0)
    assert stage.phase("home") == "starting"


@pytest.mark.parametrize("status", [Status.REJECTED, Status.BLOCKED])
def test_no_resident_is_stopped_for_an_idle_serve_that_needs_force(status: Status) -> None:
    stage = stage_of(serve("home", status=status), serve("b"))
    visit(stage, "b")
    stage.to(stage.now + 1000.0)
    assert (stage.phase("b"), stage.swaps) == ("ready", [])


def test_an_idle_serve_that_no_longer_needs_force_is_returned_to() -> None:
    stage = stage_of(serve("home", status=Status.BLOCKED), serve("b"))
    visit(stage, "b")
    stage.to(stage.now + 1000.0)
    slots = [slot_state.slot for slot_state in stage.scheduler.slots.values()]
    stage.take(stage.scheduler.on_reload(slots, [serve("home"), serve("b")], stage.now))
    assert stage.phase("home") == "starting"


def test_no_resident_is_stopped_for_a_parked_idle_serve() -> None:
    stage = stage_of()
    stage.take(stage.scheduler.on_park("home", 0.0, "wedged"))
    visit(stage, "b")
    stage.to(stage.now + 1000.0)
    assert (stage.phase("b"), stage.swaps) == ("ready", [])


def returned() -> Stage:
    """A slot that has returned to `home`, at this moment. Every serve is protected for 100 s, and lingers for 2 s."""
    stage = Stage(serve("home"), serve("b"), idle_serve="home", min_residency=100.0, linger=2.0, max_wait=1000.0)
    visit(stage, "b")
    stage.to(stage.now + 60.0)
    stage.ready(1.0)
    assert stage.phase("home") == "ready"
    return stage


def test_an_idle_serve_that_nobody_has_used_yet_gives_way_at_once() -> None:
    stage = returned()
    stage.request("b")
    assert [swap.target for swap in stage.swaps] == ["b"]


def test_an_idle_serve_that_came_back_and_was_used_is_protected() -> None:
    stage = returned()
    stage.served(stage.request("home"), "home")
    stage.request("b")
    assert stage.swaps == []
    stage.to(stage.now + 100.0)
    assert [swap.target for swap in stage.swaps] == ["b"]


def test_an_idle_serve_that_is_in_use_is_protected() -> None:
    stage = returned()
    stage.request("home")
    stage.request("b")
    stage.to(stage.now + 99.0)
    assert stage.swaps == []


def test_an_idle_serve_that_a_request_loaded_is_protected() -> None:
    stage = returned()
    visit(stage, "b")
    stage.to(stage.now + 10.0)
    id = stage.request("home")
    stage.to(stage.now + 90.0)
    stage.leaves(id, "home")
    stage.ready(1.0)
    assert stage.phase("home") == "ready"
    stage.request("b")
    assert stage.swaps == []


def test_an_idle_serve_stays_unprotected_if_its_eviction_fails() -> None:
    stage = returned()
    stage.request("b")
    stage.fails()
    stage.ready(1.0)
    assert stage.phase("home") == "ready"
    stage.request("b")
    stage.to(stage.now + 1.0)
    assert [swap.target for swap in stage.swaps] == ["b"]


def preloaded(*serves: Serve, memory: int | None = None) -> Stage:
    """A slot in which `b` was preloaded, and nobody has used it."""
    stage = stage_of(*serves, memory=memory)
    stage.preload("b")
    stage.ready(1.0)
    return stage


def test_a_preloaded_serve_stays_until_somebody_has_used_it() -> None:
    stage = preloaded()
    stage.to(stage.now + 1000.0)
    assert (stage.phase("b"), stage.swaps) == ("ready", [])
    stage.served(stage.request("b"), "b")
    stage.to(stage.now + 59.0)
    assert stage.phase("b") == "ready"
    stage.to(stage.now + 1.0)
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("home", ("b",))]


def test_a_preloaded_serve_stays_after_a_restart_too() -> None:
    stage = preloaded()
    stage.take(stage.scheduler.on_restart("b", stage.now, "wedged"))
    stage.ready()
    stage.ready(1.0)
    stage.to(stage.now + 1000.0)
    assert (stage.phase("b"), stage.swaps) == ("ready", [])


def test_a_preloaded_serve_that_was_used_before_a_restart_is_replaced() -> None:
    stage = preloaded()
    stage.served(stage.request("b"), "b")
    stage.take(stage.scheduler.on_restart("b", stage.now, "wedged"))
    stage.ready()
    stage.ready(1.0)
    stage.to(stage.now + 60.0)
    assert [swap.target for swap in stage.swaps] == ["home"]


def test_each_preload_counts_anew() -> None:
    stage = preloaded()
    stage.served(stage.request("b"), "b")
    stage.unload("b")
    stage.ready()
    stage.to(stage.now + 1.0)
    stage.preload("b")
    stage.ready(1.0)
    stage.to(stage.now + 1000.0)
    assert (stage.phase("b"), stage.swaps) == ("ready", [])


def test_a_preloaded_serve_stays_where_the_idle_serve_fits_beside_it() -> None:
    stage = preloaded(serve("home", memory=10), serve("b", memory=10), memory=20)
    stage.to(stage.now + 60.0)
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("home", ())]


def test_where_it_fits_beside_the_others_nobody_is_stopped() -> None:
    sizes = (serve("home", memory=10), serve("b", memory=10), serve("c", memory=20))
    stage = stage_of(*sizes, memory=20)
    visit(stage, "c")
    stage.to(stage.now + 1.0)
    visit(stage, "b")
    stage.to(stage.now + 60.0)
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("home", ())]


def test_a_reload_without_it_ends_the_return() -> None:
    stage = stage_of()
    visit(stage, "b")
    serves = [state.serve for state in stage.scheduler.serves.values()]
    stage.take(stage.scheduler.on_reload([Slot("gpu", swap=stage.scheduler.slots["gpu"].slot.swap)], serves, stage.now))
    stage.to(stage.now + 1000.0)
    assert stage.phase("b") == "ready"
