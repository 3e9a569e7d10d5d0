"""A slot of another Stoker: that one decides what is loaded there, so nothing is stopped here for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.request.lease.stage import Stage, serve

from stoker.domain.replica_wish import ReplicaWish
from stoker.domain.serve import Serve, Slot, box_slots, in_box
from stoker.request.lease.commands import StartSwap
from stoker.request.lease.scheduler import Scheduler

BOX = Slot("box2:gpu0", box="box2")


def in_both(here: Serve) -> tuple[Serve, Serve]:
    there = in_box(replace(here, name=f"{here.replica_of}@box2:gpu0"), BOX)
    return here, there


def test_as_many_are_loaded_there_as_the_other_one_allows() -> None:
    serves = [in_box(Serve(name), BOX) for name in "ab"]
    scheduler = Scheduler([BOX], serves)
    starts = [command for id, name in enumerate("ab") for command in scheduler.on_request(id, name, 0.0)]
    assert [one.target for one in starts if isinstance(one, StartSwap)] == ["a", "b"]
    assert all(one.victims == () for one in starts if isinstance(one, StartSwap))


@pytest.mark.parametrize(("uses_other", "joins"), [(False, "a@gpu"), (True, "a@box2:gpu0")])
def test_a_place_here_goes_first_unless_something_in_use_has_to_stop_for_it(uses_other: bool, joins: str) -> None:
    here, there = in_both(Serve("a@gpu", slot="gpu", replica_of="a"))
    stage = Stage(here, serve("other"))
    stage.scheduler.on_reload([Slot("gpu"), BOX], [here, there, serve("other")], 0.0)
    stage.load("other")
    if uses_other:
        stage.request("other")
    stage.join("a")
    assert stage.where[stage.next_id - 1] == joins


def test_under_load_the_place_there_is_used_too_once_its_requests_have_paid_for_it() -> None:
    here, there = in_both(Serve("a@gpu", slot="gpu", replica_of="a", replicas=2, max_active=1))
    stage = Stage(here)
    stage.scheduler.on_reload([Slot("gpu"), BOX], [here, there], 0.0)
    stage.load("a@gpu", took=5.0)
    for _ in range(20):
        stage.join("a")
    stage.to(stage.now + 280)
    assert [swap.target for swap in stage.swaps] == ["a@box2:gpu0"]


def test_a_place_here_that_falls_idle_while_a_box_sleeps_answers_those_that_wait_for_the_box() -> None:
    here, there = in_both(Serve("a@gpu", slot="gpu", replica_of="a", replicas=2))
    other = serve("other")
    stage = Stage(other)
    stage.take(stage.scheduler.on_reload([Slot("gpu"), BOX], [here, there, other], 0.0))
    stage.load("other")
    used = stage.request("other")
    first = stage.join("a")
    assert [swap.target for swap in stage.swaps] == ["a@box2:gpu0"]
    stage.served(used, "other")
    stage.to(stage.now + 500)
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("a@box2:gpu0", ()), ("a@gpu", ("other",))]
    stage.swaps.reverse()
    stage.ready()
    assert first in stage.granted
    assert stage.where[first] == "a@gpu"


def test_no_box_is_woken_for_a_replica_that_only_is_kept_loaded() -> None:
    here, there = in_both(Serve("a@gpu", slot="gpu", replica_of="a", replicas=2, min_replicas=1))
    other = serve("other")
    stage = Stage(other)
    stage.load("other")
    stage.request("other")
    stage.take(stage.scheduler.on_reload([Slot("gpu"), BOX], [here, there, other], 0.0))
    stage.to(stage.now + 1000)
    assert stage.swaps == []


def test_what_another_stoker_forwarded_does_not_go_on_to_a_box() -> None:
    here, there = in_both(Serve("a@gpu", slot="gpu", replica_of="a"))
    replicas = Scheduler([Slot("gpu"), BOX], [here, there]).replica_sets["a"]
    assert replicas.closed_to(ReplicaWish(is_forwarded=True)) == {"a@box2:gpu0"}


def test_requests_at_a_box_that_is_lost_end_and_those_of_a_process_end_by_themselves() -> None:
    there, here = in_box(Serve("a", slot=BOX.name), BOX), Serve("b", slot="gpu")
    stage = Stage(here)
    stage.take(stage.scheduler.on_reload([Slot("gpu"), BOX], [there, here], 0.0))
    held = {}
    for name in "ab":
        stage.load(name)
        held[name] = stage.request(name)
        stage.take(stage.scheduler.on_exit(name, stage.now, "stopped answering"))
    assert stage.cut == [held["a"]]


def test_a_pause_of_this_machine_leaves_it_alone() -> None:
    scheduler = Scheduler([Slot("gpu"), BOX], [in_box(Serve("a"), BOX)])
    scheduler.restore_pauses({}, "the machine sleeps")
    assert not scheduler.slots[BOX.name].pauses
    assert scheduler.slots["gpu"].pauses


def test_the_slots_of_boxes_are_those_that_serves_name() -> None:
    serves = [Serve("a", slots=("gpu0", "box2:gpu0")), Serve("b", slot="box2:gpu0"), Serve("c", slot="box3:x")]
    assert [(slot.name, slot.box) for slot in box_slots(serves)] == [("box2:gpu0", "box2"), ("box3:x", "box3")]
