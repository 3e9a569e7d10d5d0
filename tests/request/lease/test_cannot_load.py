"""A failure that time does not mend: the serve is not started again, and nothing is stopped for it, until its files or
its configuration change or somebody asks for it by name.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.request.lease.stage import Stage, replicated, serve

from stoker.domain.errors import LASTING, LASTING_HERE, StartFailed
from stoker.domain.serve import Slot
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.timing import BACKOFF_CAP

BAD = StartFailed("the weights are damaged", code="bad_weights")
BEFORE, AFTER = (("/m.gguf", 1, 10, 5),), (("/m.gguf", 2, 99, 6),)


def pair() -> Stage:
    """`good` is loaded; `bad` has failed once, and `good` is back."""
    stage = Stage(serve("good"), serve("bad"), linger=0.0, min_residency=0.0)
    stage.load("good")
    stage.request("bad")
    swap = stage.swaps.pop(0)
    stage.take(stage.scheduler.on_swap_done(swap.swap_id, stage.now, BAD, files=BEFORE))
    stage.ready()
    assert stage.phase("good") == "ready"
    return stage


def state_of(stage: Stage, name: str = "bad") -> object:
    return stage.scheduler.serves[name].cannot_load


def test_the_first_failure_is_reported_as_it_is_and_the_resident_comes_back() -> None:
    stage = pair()
    assert stage.refused[2].code == "bad_weights"
    assert state_of(stage) is not None


def test_further_requests_are_refused_at_once_and_stop_nothing_however_late_they_come() -> None:
    stage = pair()
    before = stage.scheduler.state.last_swap_id
    for _ in range(4):
        stage.to(stage.now + 10 * BACKOFF_CAP)
        refused = stage.refused[stage.request("bad")]
        assert refused.code == "cannot_load"
        assert "the weights are damaged" in refused.message
        assert "stoker serves up bad" in refused.message, "what to do when it is mended"
        assert refused.retry_after is None, "no wait would help"
        assert stage.request("good") in stage.granted
    assert stage.scheduler.state.last_swap_id == before


def test_a_preload_waits_until_it_may_load() -> None:
    stage = pair()
    stage.to(1000.0)
    stage.unload("good")
    stage.ready()
    stage.preload("bad")
    assert stage.swaps == []
    stage.take(stage.scheduler.on_may_load("bad", stage.now))
    assert [swap.target for swap in stage.swaps] == ["bad"]


def test_nobody_but_an_operator_starts_it_again() -> None:
    stage = pair()
    asked = stage.switch("bad")
    assert [swap.target for swap in stage.swaps] == ["bad"]
    stage.ready()
    assert asked in stage.granted
    assert state_of(stage) is None


def test_a_changed_file_lets_it_load_again_at_once() -> None:
    stage = pair()
    stage.take(stage.scheduler.on_may_load("bad", stage.now))
    assert state_of(stage) is None
    asked = stage.request("bad")
    assert asked not in stage.refused
    assert [swap.target for swap in stage.swaps] == ["bad"], "no back-off is left of the failure"


def test_a_reload_that_does_not_touch_it_changes_nothing_and_one_that_does_lets_it_load() -> None:
    stage = pair()
    serves = [serve("good"), serve("bad")]
    slots = [Slot("gpu", swap=stage.scheduler.slots["gpu"].slot.swap)]
    stage.take(stage.scheduler.on_reload(slots, [replace(serves[0], max_active=9), serves[1]], stage.now))
    assert stage.refused[stage.request("bad")].code == "cannot_load"
    stage.take(stage.scheduler.on_reload(slots, [serves[0], replace(serves[1], context=512)], stage.now))
    assert state_of(stage) is None
    assert stage.request("bad") not in stage.refused


def test_a_check_finds_it_without_a_swap_and_refuses_those_that_wait() -> None:
    stage = Stage(serve("good"), serve("bad"))
    stage.load("good")
    running = stage.request("good")
    waiting = stage.request("bad")
    assert waiting not in stage.refused
    stage.take(stage.scheduler.on_cannot_load("bad", stage.now, "the file ends inside its header"))
    assert stage.refused[waiting].code == "cannot_load"
    assert "the file ends inside its header" in stage.refused[waiting].message
    assert running not in stage.cut
    assert stage.phase("good") == "ready"
    assert stage.swaps == []


def test_a_failure_that_may_pass_only_backs_off() -> None:
    stage = Stage(serve("a"))
    for code in ("out_of_memory", "startup_memory", "device_lost", "device_fault", "port_taken", "start_failed"):
        asked = stage.request("a")
        swap = stage.swaps.pop(0)
        failed = StartFailed("no", code=code)
        stage.take(stage.scheduler.on_swap_done(swap.swap_id, stage.now, failed, files=BEFORE))
        assert stage.refused[asked].code == code
        assert state_of(stage, "a") is None, code
        stage.to(stage.now + BACKOFF_CAP)


@pytest.mark.parametrize("code", sorted(LASTING))
def test_every_failure_that_lasts_leaves_nothing_held(code: str) -> None:
    stage = Stage(serve("a"))
    asked = stage.request("a")
    swap = stage.swaps.pop(0)
    stage.take(stage.scheduler.on_swap_done(swap.swap_id, stage.now, StartFailed("no", code=code)))
    state = stage.scheduler.serves["a"]
    assert (state.phase, state.leases, state.queue, state.slot_state.swaps) == (ServePhase.STOPPED, {}, {}, {})
    assert stage.refused[asked].code == code, "a fallback for this cause is still found by it"


def test_a_cancelled_start_teaches_nothing() -> None:
    stage = Stage(serve("a"))
    stage.request("a")
    swap = stage.swaps.pop(0)
    stage.take(stage.scheduler.on_swap_done(swap.swap_id, stage.now, cancelled=True))
    assert state_of(stage, "a") is None


@pytest.mark.parametrize(
    ("code", "is_everywhere"), [("bad_weights", True), ("bad_option", True), ("unsupported_backend", False)]
)
def test_bad_weights_are_bad_in_every_slot_but_a_device_is_only_one_of_them(code: str, is_everywhere: bool) -> None:
    stage = Stage(*replicated("big", "gpu0 gpu1", replicas=2), serve("other", slot="gpu1"), slots="gpu0 gpu1")
    stage.load("other")
    asked = stage.join("big")
    swap = stage.swaps.pop(0)
    stage.take(stage.scheduler.on_swap_done(swap.swap_id, stage.now, StartFailed("no", code=code)))
    assert (asked in stage.refused) is is_everywhere, "it is not tried in the next slot, at the cost of its resident"
    assert (state_of(stage, "big@gpu1") is not None) is is_everywhere
    assert state_of(stage, "big@gpu0") is not None


def test_an_idle_slot_does_not_return_to_it() -> None:
    stage = Stage(serve("idle"), serve("other"), idle_serve="idle")
    stage.load("idle")
    asked = stage.request("other")
    stage.to(stage.now + 1000.0)
    stage.ready()
    stage.served(asked, "other")
    stage.take(stage.scheduler.on_cannot_load("idle", stage.now, "gone"))
    stage.to(stage.now + 1000.0)
    assert stage.swaps == []
    assert stage.phase("other") == "ready"


def test_what_concerns_one_device_lasts_too() -> None:
    assert LASTING_HERE < LASTING
