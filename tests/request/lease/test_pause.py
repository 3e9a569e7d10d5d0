"""A paused slot gives its device up: what is loaded there ends, nothing is loaded, and afterwards it comes back."""

from __future__ import annotations

from dataclasses import replace

from tests.request.lease.stage import Stage, replicated, serve

from stoker.domain.serve import Slot
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.commands import StartSwap
from stoker.request.lease.preview import Residency, preview_switch
from stoker.request.lease.scheduler import Scheduler
from stoker.request.lease.state import PauseCause


def test_running_requests_end_new_ones_are_refused_and_the_model_comes_back_after_the_pause() -> None:
    stage = Stage(serve("a", max_active=1), drain_timeout=30)
    stage.load("a")
    runs, waits = stage.request("a"), stage.request("a")
    stage.pause()
    late = stage.request("a")
    assert stage.phase("a") == "draining"
    for refused in (waits, late):
        error = stage.refused[refused]
        assert (error.status, error.code, error.retry_after) == (503, "slot_paused", 60.0)
        assert "a game runs" in error.message
        assert "stoker resume gpu" in error.message
    stage.served(runs, "a")
    stage.ready()
    assert (stage.phase("a"), stage.cut) == ("stopped", [])
    stage.to(1000)
    assert (stage.phase("a"), stage.swaps) == ("stopped", [])
    assert Residency(stage.scheduler.serves).unavailable_reason("a", stage.now) == "slot_paused"
    stage.resume()
    stage.ready()
    assert stage.phase("a") == "ready"
    assert stage.request("a") in stage.granted


def test_a_request_that_does_not_end_is_cut_when_the_drain_is_over() -> None:
    stage = Stage(serve("a"), drain_timeout=30)
    stage.load("a")
    runs = stage.request("a")
    stage.pause()
    stage.to(29)
    assert stage.cut == []
    stage.to(31)
    assert stage.cut == [runs]


def test_what_was_loaded_comes_back_not_what_was_about_to_replace_it() -> None:
    stage = Stage(serve("a"), serve("b"), drain_timeout=30, swap_after=0)
    stage.load("a")
    runs = stage.request("a")
    stage.switch("b")
    assert stage.phase("a") == "draining"
    stage.pause()
    stage.served(runs, "a")
    stage.ready()
    stage.resume()
    stage.ready()
    assert (stage.phase("a"), stage.phase("b")) == ("ready", "stopped")


def test_a_start_under_way_is_cancelled_and_begins_again_after_the_pause() -> None:
    stage = Stage(serve("a"))
    waits = stage.request("a")
    stage.pause()
    assert (stage.cancelled, stage.refused[waits].code) == ([1], "slot_paused")
    stage.ready(cancelled=True)
    stage.resume()
    stage.ready()
    assert stage.phase("a") == "ready"


def test_a_start_that_was_too_quick_to_cancel_ends_at_once() -> None:
    stage = Stage(serve("a"))
    stage.request("a")
    stage.pause()
    stage.ready()
    assert stage.phase("a") == "stopping"
    stage.ready()
    stage.resume()
    assert stage.phase("a") == "starting"


def test_a_slot_is_in_use_again_when_every_cause_is_over() -> None:
    stage = Stage(serve("a"))
    stage.load("a")
    stage.pause(cause=PauseCause.PROGRAM, reason="comfyui needs its devices")
    stage.ready()
    refused = stage.refused[stage.request("a")]
    assert "comfyui" in refused.message
    assert refused.retry_after == 15.0
    stage.pause()
    stage.resume(cause=PauseCause.PROGRAM)
    assert stage.phase("a") == "stopped"
    stage.resume()
    assert stage.phase("a") == "starting"


def test_requests_go_to_a_replica_in_another_slot() -> None:
    stage = Stage(*replicated("a", "gpu0 gpu1", max_active=1), slots="gpu0 gpu1", drain_timeout=30)
    first = stage.join("a")
    stage.ready()
    second = stage.join("a")
    stage.pause("gpu0")
    assert (stage.where[second], stage.phase("a@gpu1")) == ("a@gpu1", "starting")
    stage.served(first, "a@gpu0")
    third = stage.join("a")
    assert stage.where[third] == "a@gpu1"
    assert stage.refused == {}


def test_a_serve_that_takes_a_paused_slot_beside_others_ends_too() -> None:
    stage = Stage(serve("wide", slot="gpu0+gpu1"), serve("a", slot="gpu0"), slots="gpu0 gpu1")
    stage.load("wide")
    stage.pause("gpu1")
    stage.ready()
    assert stage.phase("wide") == "stopped"
    waits = stage.request("a")
    stage.ready()
    assert waits in stage.granted


def test_an_operator_cannot_load_into_a_paused_slot_and_what_he_unloads_stays_away() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    stage.pause()
    stage.ready()
    assert stage.refused[stage.switch("b")].code == "slot_paused"
    refusal = preview_switch(stage.scheduler, "b").refusal
    assert refusal is not None
    assert refusal.code == "slot_paused"
    stage.unload("a")
    stage.resume()
    assert stage.phase("a") == "stopped"


def test_who_waits_for_a_serve_that_a_reload_moves_into_a_paused_slot_is_refused() -> None:
    stage = Stage(serve("a", slot="gpu0"), slots="gpu0 gpu1")
    stage.pause("gpu1")
    waits = stage.request("a")
    slots = [slot_state.slot for slot_state in stage.scheduler.slots.values()]
    stage.take(stage.scheduler.on_reload(slots, [serve("a", slot="gpu1")], stage.now))
    stage.ready(cancelled=True)
    assert stage.refused[waits].code == "slot_paused"


def test_a_pause_that_is_remembered_ends_what_is_adopted_and_holds_in_slots_that_are_added() -> None:
    gpu0, gpu1 = Slot("gpu0"), Slot("gpu1")
    a, b = serve("a", slot="gpu0", keep_loaded=True), serve("b", slot="gpu1", keep_loaded=True)
    scheduler = Scheduler([gpu0], [a])
    scheduler.restore_pauses({}, "the machine sleeps")
    commands = scheduler.on_adopted("a", 0.0)
    assert any(isinstance(one, StartSwap) and one.victims == ("a",) for one in commands)
    commands = scheduler.on_reload([gpu0, gpu1], [a, b], 1.0)
    assert not any(isinstance(one, StartSwap) and one.target for one in commands)
    scheduler.on_resume("gpu1", PauseCause.OPERATOR, 2.0)
    assert scheduler.serves["b"].phase is ServePhase.STARTING


def test_a_slot_of_a_cluster_is_not_of_this_machine() -> None:
    far = replace(Slot("far"), cluster="lab")
    scheduler = Scheduler([far, Slot("gpu0")], [serve("a", slot="far"), serve("b", slot="gpu0")])
    scheduler.restore_pauses({}, "the machine sleeps")
    assert [state.is_paused for state in scheduler.serves.values()] == [False, True]


def test_before_the_machine_sleeps_requests_wait_for_the_end_of_the_pause_and_are_answered_then() -> None:
    stage = Stage(serve("a"))
    stage.load("a")
    stage.pause(cause=PauseCause.SUSPEND, reason="the machine is going to sleep")
    stage.ready()
    assert stage.phase("a") == "stopped"
    waits = stage.request("a")
    assert waits not in stage.refused
    stage.pause(cause=PauseCause.PROGRAM, reason="comfyui needs its devices")
    assert "comfyui" in stage.refused[waits].message
    stage.resume(cause=PauseCause.PROGRAM)
    again = stage.request("a")
    stage.resume(cause=PauseCause.SUSPEND)
    stage.ready()
    assert again in stage.granted
