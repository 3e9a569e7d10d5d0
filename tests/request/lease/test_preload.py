"""A preload: a wish that gives way to requests, and is dropped once another serve of the slot was used."""

from __future__ import annotations

from tests.request.lease.stage import Stage, serve

AT_ONCE = {"min_residency": 0.0, "linger": 0.0, "max_wait": 1.0}


def use(stage: Stage, name: str) -> None:
    stage.served(stage.request(name), name)


def empty(stage: Stage, name: str) -> None:
    stage.unload(name)
    stage.ready()


def stage_with_a_wish_for_a() -> Stage:
    """`b` is loaded, so that the preload of `a` waits."""
    stage = Stage(serve("a"), serve("b"), **AT_ONCE)
    stage.load("b")
    stage.to(10.0)
    stage.preload("a")
    assert stage.swaps == []
    return stage


def test_a_preload_waits_until_the_serve_fits() -> None:
    stage = stage_with_a_wish_for_a()
    stage.to(20.0)
    empty(stage, "b")
    assert [swap.target for swap in stage.swaps] == ["a"]


def test_a_preload_is_dropped_once_another_serve_of_the_slot_was_used() -> None:
    stage = stage_with_a_wish_for_a()
    stage.to(20.0)
    use(stage, "b")
    stage.to(30.0)
    empty(stage, "b")
    stage.to(1000.0)
    assert (stage.phase("a"), stage.swaps) == ("stopped", [])


def test_a_new_preload_after_that_counts() -> None:
    stage = stage_with_a_wish_for_a()
    stage.to(20.0)
    use(stage, "b")
    empty(stage, "b")
    stage.to(30.0)
    stage.preload("a")
    assert [swap.target for swap in stage.swaps] == ["a"]


def test_a_preload_that_fits_is_started_although_another_serve_is_in_use() -> None:
    stage = Stage(serve("a", memory=10), serve("b", memory=10), memory=20, **AT_ONCE)
    stage.load("b")
    stage.request("b")
    stage.to(10.0)
    stage.preload("a")
    assert [swap.target for swap in stage.swaps] == ["a"]


def test_of_two_preloads_the_first_is_not_used_only_because_it_was_loaded() -> None:
    stage = Stage(serve("a"), serve("b"), **AT_ONCE)
    stage.preload("b")
    stage.preload("a")
    stage.ready(5.0)
    stage.to(20.0)
    empty(stage, "b")
    assert [swap.target for swap in stage.swaps] == ["a"]


def test_a_serve_that_is_kept_loaded_comes_back_whatever_was_used() -> None:
    stage = Stage(serve("a", keep_loaded=True), serve("b", memory=10), **AT_ONCE)
    stage.take(stage.scheduler.on_tick(0.0))
    stage.preload("a")
    stage.fails()
    stage.load("b")
    use(stage, "b")
    empty(stage, "b")
    stage.to(1000.0)
    assert stage.phase("a") == "starting"


def test_a_request_gets_a_serve_whose_preload_was_dropped() -> None:
    stage = stage_with_a_wish_for_a()
    stage.to(20.0)
    use(stage, "b")
    stage.request("a")
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("a", ("b",))]
