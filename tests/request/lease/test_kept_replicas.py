"""Replicas that are kept loaded (`replicas = { min = 1, max = 2 }`): they move, give way, and come back."""

from __future__ import annotations

from tests.request.lease.stage import Stage, replicated, serve


def gpus(*others: str, slots: str = "gpu0 gpu1", least: int = 1, most: int = 2, **fields: object) -> Stage:
    """`fast` with a place on each GPU, of which `least` are kept. `others`: `"big@gpu0"` for a serve there."""
    own = [serve(name.partition("@")[0], slot=name.partition("@")[2]) for name in others]
    fast = replicated("fast", slots, most, min_replicas=least, **fields)
    stage = Stage(*fast, *own, slots=slots, min_residency=0.0, linger=0.0, max_wait=20.0)
    stage.take(stage.scheduler.on_tick(0.0))
    return stage


def loaded(stage: Stage) -> list[str]:
    return [name for name, state in stage.scheduler.serves.items() if state.phase.value == "ready"]


def started(stage: Stage) -> list[tuple[str | None, tuple[str, ...]]]:
    return [(swap.target, swap.victims) for swap in stage.swaps]


def ready(stage: Stage) -> Stage:
    while stage.swaps:
        stage.ready()
    return stage


def test_as_many_as_are_kept_are_loaded_at_the_start() -> None:
    assert loaded(ready(gpus())) == ["fast@gpu0"]
    assert loaded(ready(gpus(least=2))) == ["fast@gpu0", "fast@gpu1"]


def test_it_moves_to_a_free_place_before_it_gives_way() -> None:
    stage = ready(gpus("big@gpu0"))
    big = stage.request("big")
    assert started(stage) == [("fast@gpu1", ())]
    stage.ready(3.0)
    assert started(stage) == [("big", ("fast@gpu0",))]
    ready(stage)
    assert big in stage.granted
    assert loaded(stage) == ["fast@gpu1", "big"]


def test_with_as_many_loaded_as_allowed_it_stops_first() -> None:
    stage = ready(gpus("big@gpu0", most=1))
    stage.request("big")
    assert started(stage) == [("big", ("fast@gpu0",))]
    stage.ready()
    assert started(stage) == [("fast@gpu1", ())]


def test_a_request_does_not_wait_for_the_move_beyond_max_wait() -> None:
    stage = ready(gpus("big@gpu0"))
    stage.request("big")
    stage.to(19.9)
    assert started(stage) == [("fast@gpu1", ())]
    stage.to(20.0)
    assert started(stage) == [("fast@gpu1", ()), ("big", ("fast@gpu0",))]


def test_if_the_move_fails_it_gives_way() -> None:
    stage = ready(gpus("big@gpu0"))
    stage.request("big")
    stage.fails()
    assert started(stage) == [("big", ("fast@gpu0",))]


def test_another_resident_leaves_rather_than_one_that_is_kept() -> None:
    stage = Stage(
        *replicated("fast", "gpu0 gpu1", 2, min_replicas=1, memory=1), serve("a", slot="gpu0", memory=1),
        serve("b", slot="gpu0", memory=1), slots="gpu0 gpu1", memory=2, min_residency=0.0, linger=0.0,
    )  # fmt: skip
    stage.take(stage.scheduler.on_tick(0.0))
    ready(stage)
    stage.load("a")
    a = stage.request("a")
    stage.request("b")
    stage.to(14)
    assert not stage.swaps, "it waits until `a` is idle"
    stage.served(a, "a")
    assert started(stage) == [("b", ("a",))]


def test_without_a_free_place_it_gives_way_and_comes_back_when_the_others_are_idle() -> None:
    stage = ready(gpus("big@gpu0", "other@gpu1"))
    stage.load("other")
    id = stage.request("big")
    assert started(stage) == [("big", ("fast@gpu0",))]
    stage.ready()
    stage.to(50)
    stage.served(id, "big")
    stage.to(59)
    assert loaded(stage) == ["big", "other"]
    stage.to(60)
    assert started(stage) == [("fast@gpu1", ("other",))], "`other` was idle for `idle_serve_after`"
    assert loaded(ready(stage)) == ["fast@gpu1", "big"]
    again = stage.request("other")
    assert started(stage) == [("other", ("fast@gpu1",))], "nobody has used it since: it gives way at once"
    ready(stage)
    assert again in stage.granted


def test_it_comes_back_at_once_where_a_place_becomes_free() -> None:
    stage = ready(gpus("big@gpu0", "other@gpu1"))
    stage.load("other")
    stage.request("big")
    stage.ready()
    stage.unload("other")
    stage.ready()
    assert started(stage) == [("fast@gpu1", ())]


def test_it_does_not_take_the_place_of_an_idle_serve_or_of_another_one_that_is_kept() -> None:
    stage = Stage(
        *replicated("fast", "gpu0 gpu1", 2, min_replicas=2), *replicated("wide", "gpu0 gpu1", 2, min_replicas=1),
        slots="gpu0 gpu1",
    )  # fmt: skip
    stage.take(stage.scheduler.on_tick(0.0))
    assert loaded(ready(stage)) == ["fast@gpu0", "fast@gpu1"]
    stage.to(500)
    assert not stage.swaps
    stage = Stage(
        *replicated("fast", "gpu gpu1", 2, min_replicas=2), serve("home"), slots="gpu gpu1", idle_serve="home"
    )
    stage.load("home")
    ready(stage)
    stage.to(500)
    assert loaded(stage) == ["fast@gpu1", "home"]


def test_those_above_the_minimum_end_when_idle_and_the_kept_one_does_not() -> None:
    stage = ready(gpus(idle_unload=10.0))
    stage.load("fast@gpu1")
    stage.to(100)
    assert len(stage.swaps) == 1
    assert len(loaded(ready(stage))) == 1


def test_an_idle_slot_does_not_return_to_its_idle_serve_in_place_of_one_that_is_kept() -> None:
    stage = Stage(
        *replicated("fast", "gpu gpu1", 1, min_replicas=1), serve("home"), serve("a"), serve("b", slot="gpu1"),
        slots="gpu gpu1", idle_serve="home", min_residency=0.0, linger=0.0,
    )  # fmt: skip
    stage.request("b")
    a = stage.request("a")
    ready(stage)
    stage.served(a, "a")
    stage.take(stage.scheduler.on_exit("a", stage.now, "gone"))
    assert loaded(ready(stage)) == ["fast@gpu", "b"]
    stage.to(500)
    assert loaded(ready(stage)) == ["fast@gpu", "b"]


def test_an_operator_may_unload_it_and_its_serve_brings_it_back() -> None:
    stage = ready(gpus("big@gpu0"))
    for name in ("fast@gpu0", "fast@gpu1"):
        stage.unload(name)
    ready(stage)
    stage.to(500)
    assert loaded(stage) == []
    stage.join("fast")
    ready(stage)
    stage.take(stage.scheduler.on_exit("fast@gpu0", stage.now, "gone"))
    assert started(stage) == [("fast@gpu1", ())], "one is kept again"


def test_if_an_operator_unloads_one_another_one_takes_its_place() -> None:
    stage = ready(gpus())
    stage.unload("fast@gpu0")
    ready(stage)
    assert loaded(stage) == ["fast@gpu1"]


def test_one_is_tried_elsewhere_after_a_failed_start_and_again_after_the_back_off() -> None:
    stage = gpus()
    stage.fails()
    assert started(stage) == [("fast@gpu1", ())]
    stage.fails()
    assert not stage.swaps
    stage.to(1.0)
    assert started(stage) == [("fast@gpu0", ())]


def test_one_that_exited_is_started_again_when_its_back_off_ends_although_no_request_waits() -> None:
    stage = ready(gpus(least=2))
    stage.to(1)
    stage.take(stage.scheduler.on_exit("fast@gpu1", stage.now, "gone"))
    stage.to(1.9)
    assert not stage.swaps
    stage.to(2.0)
    assert started(stage) == [("fast@gpu1", ())]


def test_two_of_one_serve_that_leave_together_count_together() -> None:
    stage = Stage(
        *replicated("fast", "gpu0 gpu1 gpu2", 3, min_replicas=1), serve("huge", slot="gpu0+gpu1"),
        slots="gpu0 gpu1 gpu2", min_residency=0.0, linger=0.0,
    )  # fmt: skip
    stage.load("fast@gpu0")
    stage.load("fast@gpu1")
    stage.request("huge")
    assert started(stage) == [("fast@gpu2", ())]
    stage.ready()
    assert started(stage) == [("huge", ("fast@gpu0", "fast@gpu1"))]
