"""A serve with several places: which replica a request joins, where one starts, when one more pays, and failover."""

from __future__ import annotations

import pytest
from tests.request.lease.stage import Stage, replicated, serve

from stoker.domain.key import Priority
from stoker.domain.lease import FairShare
from stoker.domain.serve import Slot
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.scheduler import Scheduler

BACKGROUND = FairShare("night", priority=Priority.BACKGROUND)


def two_gpus(*others: str, replicas: int = 1, **fields: object) -> Stage:
    """`fast` with a place on each of two GPUs; `others`: `"big@gpu0"` for a serve there. Residency ends at once."""
    own = [serve(name.partition("@")[0], slot=name.partition("@")[2]) for name in others]
    quick = {"min_residency": 0.0, "linger": 0.0, "patience": 2.0}
    return Stage(*replicated("fast", "gpu0 gpu1", replicas, **fields), *own, slots="gpu0 gpu1", **quick)


# -- where the first one starts --------------------------------------------------------------------------------------


def test_it_starts_where_there_is_room() -> None:
    stage = two_gpus("big@gpu0")
    stage.load("big")
    stage.join("fast")
    assert [swap.target for swap in stage.swaps] == ["fast@gpu1"]
    assert stage.swaps[0].victims == ()


def test_without_room_an_idle_model_leaves_and_not_a_busy_one() -> None:
    stage = two_gpus("big@gpu0", "other@gpu1")
    stage.load("big")
    stage.load("other")
    stage.request("big")
    stage.to(10)
    stage.join("fast")
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("fast@gpu1", ("other",))]


def test_of_two_idle_models_the_one_whose_residency_ends_first_leaves() -> None:
    stage = Stage(
        *replicated("fast", "gpu0 gpu1"), serve("old", slot="gpu0"), serve("new", slot="gpu1"),
        slots="gpu0 gpu1", min_residency=60.0, max_wait=500.0,
    )  # fmt: skip
    stage.load("old")
    stage.to(30)
    stage.load("new")
    stage.join("fast")
    stage.to(59)
    assert not stage.swaps
    stage.to(63)
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("fast@gpu0", ("old",))]


def test_of_two_that_may_leave_the_one_that_is_worth_the_least_does() -> None:
    """Worth: what bringing it back costs, by the time since it was used."""

    def who_leaves(old_took: float, new_took: float) -> str:
        stage = Stage(
            *replicated("fast", "gpu0 gpu1"), serve("old", slot="gpu0"), serve("new", slot="gpu1"),
            slots="gpu0 gpu1", min_residency=0.0, linger=0.0,
        )  # fmt: skip
        stage.load("old", took=old_took)
        stage.to(30)
        stage.load("new", took=new_took)
        stage.to(60)
        stage.join("fast")
        return stage.swaps[0].victims[0]

    assert who_leaves(3.0, 3.0) == "old"
    assert who_leaves(20.0, 3.0) == "new"
    assert who_leaves(3.0, 20.0) == "old"


def test_a_waiting_request_goes_to_another_place_that_becomes_free_first() -> None:
    stage = two_gpus("big@gpu0", "other@gpu1")
    stage.load("big")
    stage.load("other")
    big, other = stage.request("big"), stage.request("other")
    waiting = stage.join("fast")
    assert stage.where[waiting] == "fast@gpu0"
    stage.served(other, "other")
    assert stage.where[waiting] == "fast@gpu1"
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("fast@gpu1", ("other",))]
    stage.ready()
    assert waiting in stage.granted
    stage.served(big, "big")
    assert stage.phase("big") == "ready"


def test_with_one_replica_only_one_is_ever_loaded() -> None:
    stage = two_gpus(max_active=1)
    stage.join("fast")
    stage.ready()
    for _ in range(10):
        stage.join("fast")
    stage.to(25)
    assert stage.phase("fast@gpu1") == "stopped"
    assert not stage.swaps


def test_two_that_become_ready_in_the_same_moment_do_not_pass_a_request_to_and_fro() -> None:
    """A background request gives way on both, because another model is waited for."""
    stage = Stage(*replicated("fast", "gpu0 gpu1", 2), serve("huge", slot="gpu0+gpu1"), slots="gpu0 gpu1")
    stage.switch("fast@gpu0")
    stage.switch("fast@gpu1")
    stage.request("huge")
    night = stage.request("fast@gpu0", share=BACKGROUND)
    stage.ready()
    stage.ready()
    assert list(stage.scheduler.serves["fast@gpu0"].queue) == [night]


# -- which one a request joins ---------------------------------------------------------------------------------------


def both_ready(**fields: object) -> Stage:
    stage = two_gpus(replicas=2, **fields)
    stage.load("fast@gpu0")
    stage.load("fast@gpu1")
    return stage


def test_requests_join_the_replica_with_the_least_to_do() -> None:
    stage = both_ready()
    joined = [stage.where[stage.join("fast")] for _ in range(4)]
    assert joined == ["fast@gpu0", "fast@gpu1", "fast@gpu0", "fast@gpu1"]


def test_a_conversation_stays_where_its_prompt_is_known_until_that_one_is_too_busy() -> None:
    stage = both_ready(max_active=8)
    known = {"fast@gpu0": 10_000, "fast@gpu1": 40_000}
    joined = [stage.where[stage.join("fast", known)] for _ in range(5)]
    assert joined == ["fast@gpu0"] * 3 + ["fast@gpu1", "fast@gpu0"]


def test_a_short_prompt_goes_where_less_is_under_way() -> None:
    stage = both_ready(max_active=8)
    joined = [stage.where[stage.join("fast", {"fast@gpu0": 0, "fast@gpu1": 1000})] for _ in range(4)]
    assert joined == ["fast@gpu0", "fast@gpu1", "fast@gpu0", "fast@gpu1"]


def test_one_that_would_refuse_is_passed_over() -> None:
    stage = both_ready(max_active=1, queue_timeout=0.0)
    first = stage.join("fast", {"fast@gpu0": 1, "fast@gpu1": 100_000})
    second = stage.join("fast", {"fast@gpu0": 1, "fast@gpu1": 100_000})
    assert (stage.where[first], stage.where[second]) == ("fast@gpu0", "fast@gpu1")
    assert stage.granted[-2:] == [first, second]


def test_one_that_an_operator_drained_gets_nothing_new() -> None:
    stage = both_ready()
    stage.take(stage.scheduler.on_hold("fast@gpu0", stage.now))
    assert {stage.where[stage.join("fast")] for _ in range(3)} == {"fast@gpu1"}


def test_where_an_operator_drains_the_only_one_loaded_another_takes_its_requests() -> None:
    stage = two_gpus()
    stage.load("fast@gpu0")
    stage.take(stage.scheduler.on_hold("fast@gpu0", stage.now))
    waiting = stage.join("fast")
    assert stage.where[waiting] == "fast@gpu1"
    stage.ready()
    assert waiting in stage.granted


# -- one more --------------------------------------------------------------------------------------------------------


def test_one_more_starts_when_the_waiting_have_paid_for_it() -> None:
    """Its swap time is assumed to be 1 s, patience is 2: two seconds of waiting, all together."""
    stage = two_gpus("other@gpu1", replicas=2, max_active=1)
    stage.load("other")
    stage.load("fast@gpu0")
    stage.request("fast@gpu0")
    stage.join("fast")
    stage.join("fast")
    stage.to(0.9)
    assert not stage.swaps
    stage.to(1.1)
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("fast@gpu1", ("other",))]


def test_in_an_empty_slot_it_starts_as_soon_as_a_request_waits_for_a_place() -> None:
    stage = two_gpus(replicas=2, max_active=1)
    stage.join("fast")
    stage.ready()
    assert not stage.swaps
    stage.join("fast")
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("fast@gpu1", ())]


def test_in_an_empty_slot_it_starts_beside_the_first_one_if_two_requests_wait() -> None:
    stage = two_gpus(replicas=2)
    stage.join("fast")
    assert [swap.target for swap in stage.swaps] == ["fast@gpu0"]
    stage.join("fast")
    assert [swap.target for swap in stage.swaps] == ["fast@gpu0", "fast@gpu1"]


def test_one_that_starts_in_an_empty_slot_is_given_up_for_another_model() -> None:
    stage = two_gpus("big@gpu1", replicas=2)
    stage.join("fast")
    stage.join("fast")
    extra = stage.swaps[1].swap_id
    stage.request("big")
    assert stage.cancelled == [extra]
    stage.take(stage.scheduler.on_swap_done(extra, stage.now, cancelled=True))
    assert stage.swaps[-1].target == "big"


@pytest.mark.parametrize("memory", [None, 2])
def test_a_slot_with_another_model_is_not_empty(memory: int | None) -> None:
    """Whether its memory would suffice or not: what is free belongs to the others, too, until it is paid for."""
    stage = Stage(
        *replicated("fast", "gpu0 gpu1", 2, memory=1), serve("other", slot="gpu1", memory=1),
        slots="gpu0 gpu1", memory=memory,
    )  # fmt: skip
    stage.load("other")
    stage.join("fast")
    stage.join("fast")
    assert [swap.target for swap in stage.swaps] == ["fast@gpu0"]


def test_nor_is_one_of_a_cluster() -> None:
    slots = [Slot("gpu0"), Slot("node", cluster="lab")]
    scheduler = Scheduler(slots, replicated("fast", "gpu0 node", 2))
    scheduler.on_request(1, "fast@gpu0", 0.0)
    scheduler.on_request(2, "fast@gpu0", 0.0)
    assert scheduler.serves["fast@gpu0"].phase is ServePhase.STARTING
    assert scheduler.serves["fast@node"].phase is ServePhase.STOPPED


def test_it_takes_over_the_requests_that_waited_longest() -> None:
    stage = two_gpus(replicas=2, max_active=1)
    stage.join("fast")
    stage.ready()
    second, third = stage.join("fast"), stage.join("fast")
    stage.to(2)
    stage.ready(after=1.0)
    assert stage.where[second] == "fast@gpu1"
    assert stage.where[third] == "fast@gpu0"
    assert second in stage.granted
    assert third not in stage.granted


def test_no_replica_idles_while_requests_wait_for_another_one() -> None:
    """Eight requests of a second at once, one place each: the second replica is ready after a second."""
    stage = two_gpus(replicas=2, max_active=1)
    stage.load("fast@gpu0")
    waiting = [stage.join("fast") for _ in range(8)]
    assert [swap.target for swap in stage.swaps] == ["fast@gpu1"]
    while waiting:
        running = [id for id in waiting if id in stage.granted]
        stage.to(stage.now + 1.0)
        if stage.swaps:
            stage.ready()
        for id in running:
            stage.served(id, stage.where[id])
            waiting.remove(id)
    assert stage.now == 1 + 7 // 2 + 1


def test_a_request_waits_for_no_replica_while_another_one_has_a_free_place() -> None:
    """Not even for the one that has its conversation in its prefix cache."""
    stage = both_ready(max_active=1)
    ids = [stage.join("fast", {"fast@gpu0": 1, "fast@gpu1": 100_000}) for _ in range(4)]
    assert [stage.where[id] for id in ids] == ["fast@gpu0", "fast@gpu1", "fast@gpu0", "fast@gpu0"]
    stage.served(ids[1], "fast@gpu1")
    assert stage.where[ids[2]] == "fast@gpu1"
    assert set(ids[:3]) <= set(stage.granted)


def test_a_replica_takes_over_in_the_order_in_which_its_sibling_gives_places() -> None:
    """By priority, then fairly among keys: one that waits alone is not behind two of another key."""
    stage = both_ready(max_active=1)
    running = [stage.join("fast"), stage.join("fast")]
    many, one = FairShare("many"), FairShare("one")
    night, first, second, alone = [stage.request("fast@gpu0", share=s) for s in (BACKGROUND, many, many, one)]
    stage.served(running[1], "fast@gpu1")
    stage.served(first, "fast@gpu1")
    stage.served(alone, "fast@gpu1")
    stage.served(second, "fast@gpu1")
    assert stage.granted[-4:] == [first, alone, second, night]


def test_of_two_siblings_the_one_with_the_longest_waiting_request_is_relieved() -> None:
    stage = Stage(*replicated("fast", "gpu0 gpu1 gpu2", 3, max_active=1), slots="gpu0 gpu1 gpu2")
    for name in ("fast@gpu0", "fast@gpu1", "fast@gpu2"):
        stage.load(name)
    running = [stage.join("fast") for _ in range(3)]
    longest = stage.request("fast@gpu1")
    stage.request("fast@gpu0")
    stage.served(running[2], "fast@gpu2")
    assert stage.where[longest] == "fast@gpu2"
    assert stage.granted[-1] == longest


def test_a_request_that_may_not_join_a_replica_is_left_where_it_waits() -> None:
    """It failed there, or was forwarded: then it may not leave this machine. A switch waits for what it named."""
    stage = both_ready(max_active=1)
    running = [stage.join("fast"), stage.join("fast")]
    stage.take(stage.scheduler.on_request(9, "fast@gpu0", 0.0, avoid=frozenset(["fast@gpu1"])))
    stage.served(running[1], "fast@gpu1")
    assert list(stage.scheduler.serves["fast@gpu0"].queue) == [9]


def test_a_request_that_gets_its_place_where_it_waits_is_not_moved() -> None:
    stage = both_ready(max_active=1)
    for _ in range(2):
        stage.join("fast")
    first, second = stage.request("fast@gpu0"), stage.request("fast@gpu0")
    slots = [one.slot for one in stage.scheduler.slots.values()]
    stage.take(stage.scheduler.on_reload(slots, replicated("fast", "gpu0 gpu1", 2, max_active=2), stage.now))
    assert {first, second} <= set(stage.granted)
    assert {id: name for id, name in stage.where.items() if id in (first, second)} == {second: "fast@gpu1"}


def test_places_that_preemptible_leases_lost_are_given_to_those_that_wait_elsewhere() -> None:
    stage = both_ready(max_active=2)
    for name in ("fast@gpu0", "fast@gpu1"):
        leases = [stage.request(name), stage.request(name)]
    waiting = stage.request("fast@gpu0")
    for id in leases:
        stage.take(stage.scheduler.on_preemption_allowed(id, "fast@gpu1", 0.0, Priority.NORMAL))
    urgent = stage.request("fast@gpu1", share=FairShare("ops", priority=Priority.INTERACTIVE))
    assert stage.cut == leases
    assert urgent in stage.granted
    assert waiting in stage.granted


def test_it_does_not_start_where_somebody_else_is_busy_or_waits() -> None:
    stage = two_gpus("big@gpu1", replicas=2, max_active=1)
    stage.join("fast")
    stage.ready()
    stage.load("big")
    busy = stage.request("big")
    stage.join("fast")
    stage.to(20)
    assert not stage.swaps
    stage.served(busy, "big")
    assert [(swap.target, swap.victims) for swap in stage.swaps] == [("fast@gpu1", ("big",))]


def test_background_requests_pay_for_nothing() -> None:
    stage = two_gpus(replicas=2, max_active=1)
    stage.join("fast")
    stage.ready()
    stage.request("fast@gpu0", share=BACKGROUND)
    stage.request("fast@gpu0", share=BACKGROUND)
    stage.to(20)
    assert not stage.swaps


def test_an_extra_one_is_the_first_to_leave() -> None:
    stage = Stage(
        *replicated("fast", "gpu0 gpu1", 2, memory=1), serve("a", slot="gpu1", memory=1),
        serve("b", slot="gpu1", memory=1), slots="gpu0 gpu1", memory=2, min_residency=0.0, linger=0.0,
    )  # fmt: skip
    stage.load("fast@gpu0")
    stage.load("a")
    stage.to(10)
    stage.load("fast@gpu1")
    stage.to(20)
    stage.request("b")
    assert stage.swaps[0].victims == ("fast@gpu1",)


def test_beside_a_ready_one_it_is_not_kept_for_the_next_request() -> None:
    stage = Stage(*replicated("fast", "gpu0 gpu1", 2), serve("a", slot="gpu1"), slots="gpu0 gpu1")
    stage.load("fast@gpu0", took=20.0)
    stage.load("fast@gpu1", took=20.0)
    for _ in range(4):
        stage.served(stage.request("fast@gpu1"), "fast@gpu1")
        stage.to(stage.now + 1.0)
    stage.request("a")
    assert stage.swaps[0].victims == ("fast@gpu1",)


def test_nobody_waits_for_ever_for_an_extra_one_that_fails() -> None:
    stage = two_gpus(replicas=2, max_active=1)
    first = stage.join("fast")
    stage.ready()
    waiting = stage.join("fast")
    stage.to(3)
    stage.fails()
    assert not stage.refused
    stage.served(first, "fast@gpu0")
    assert waiting in stage.granted


def test_one_that_exited_is_started_again_when_its_back_off_ends() -> None:
    """Nothing else happens meanwhile: a request runs on the other one for long, and another one waits for it."""
    stage = both_ready(max_active=1)
    running = [stage.join("fast"), stage.join("fast")]
    stage.to(1)
    stage.take(stage.scheduler.on_exit("fast@gpu1", stage.now, "gone"))
    waiting = stage.join("fast")
    stage.to(1.9)
    assert not stage.swaps
    stage.to(2.0)
    assert [(swap.target, stage.now) for swap in stage.swaps] == [("fast@gpu1", 2.0)]
    stage.ready()
    assert {running[0], waiting} <= set(stage.granted)


def test_without_a_request_that_waits_for_it_nobody_is_woken_for_that() -> None:
    stage = both_ready(max_active=1)
    stage.join("fast")
    stage.take(stage.scheduler.on_exit("fast@gpu1", stage.now, "gone"))
    assert stage.wake is None


@pytest.mark.parametrize("events", range(20))
def test_after_a_new_configuration_one_more_starts_whatever_was_found_before_it(events: int) -> None:
    """However much happens between the configuration, which allows a second one, and the request that waits for it."""
    stage = two_gpus("other@gpu1", max_active=1)
    stage.load("fast@gpu0")
    stage.join("fast")
    stage.leaves(stage.join("fast"), "fast@gpu0")
    slots = [one.slot for one in stage.scheduler.slots.values()]
    serves = [*replicated("fast", "gpu0 gpu1", 2, max_active=1), serve("other", slot="gpu1")]
    stage.take(stage.scheduler.on_reload(slots, serves, stage.now))
    for _ in range(events):
        stage.take(stage.scheduler.on_hold("other", stage.now, is_held=False))
    stage.join("fast")
    assert [swap.target for swap in stage.swaps] == ["fast@gpu1"]


# -- failover --------------------------------------------------------------------------------------------------------


def test_a_start_that_fails_is_tried_in_the_next_place_and_only_then_refused() -> None:
    stage = two_gpus()
    waiting = stage.join("fast")
    stage.fails()
    assert (stage.where[waiting], stage.refused) == ("fast@gpu1", {})
    assert [swap.target for swap in stage.swaps] == ["fast@gpu1"]
    stage.fails("no memory there either")
    assert "no memory there either" in stage.refused[waiting].message


def test_requests_that_wait_for_a_replica_which_exits_join_the_other_one() -> None:
    stage = both_ready(max_active=1)
    for _ in range(2):
        stage.join("fast")
    waiting = stage.join("fast")
    assert stage.where[waiting] == "fast@gpu0"
    stage.take(stage.scheduler.on_exit("fast@gpu0", stage.now, "gone"))
    assert stage.where[waiting] == "fast@gpu1"
    assert waiting not in stage.refused


@pytest.mark.parametrize("how", ["park", "remove"])
def test_so_do_those_of_a_replica_that_is_parked_or_no_longer_configured(how: str) -> None:
    stage = both_ready(max_active=1)
    for _ in range(2):
        stage.join("fast")
    waiting = stage.join("fast")
    if how == "park":
        stage.take(stage.scheduler.on_park("fast@gpu0", stage.now, "it flaps"))
    else:
        slots = [one.slot for one in stage.scheduler.slots.values()]
        stage.take(stage.scheduler.on_reload(slots, replicated("fast", "gpu1", 2, max_active=1), stage.now))
    assert (stage.where[waiting], stage.refused) == ("fast@gpu1", {})


def test_an_operators_switch_to_one_replica_is_not_moved() -> None:
    stage = two_gpus()
    id = stage.switch("fast@gpu1")
    stage.fails()
    assert id in stage.refused
    assert not stage.swaps


def test_a_place_that_is_no_longer_configured_leaves_the_others_and_their_streams_alone() -> None:
    stage = both_ready()
    ids = [stage.join("fast"), stage.join("fast")]
    slots = [one.slot for one in stage.scheduler.slots.values()]
    stage.take(stage.scheduler.on_reload(slots, replicated("fast", "gpu1", 2), stage.now))
    assert stage.cut == []
    assert stage.phase("fast@gpu1") == "ready"
    stage.served(ids[0], "fast@gpu0")
    stage.ready()
    assert list(stage.scheduler.serves) == ["fast@gpu1"]
    assert [state.name for state in stage.scheduler.replica_sets["fast"].replicas] == ["fast@gpu1"]


def test_requests_return_to_a_replica_whose_eviction_is_called_off() -> None:
    stage = Stage(
        *replicated("fast", "gpu0 gpu1", max_active=1), serve("a", slot="gpu0"), slots="gpu0 gpu1", max_wait=5.0,
        drain_timeout=60.0,
    )  # fmt: skip
    stage.join("fast")
    stage.ready()
    first = stage.request("a")
    stage.to(6)
    assert stage.phase("fast@gpu0") == "draining"
    waiting = stage.join("fast")
    assert (stage.where[waiting], stage.phase("fast@gpu1")) == ("fast@gpu1", "stopped")
    stage.leaves(first, "a")
    assert stage.phase("fast@gpu0") == "ready"
    assert stage.where[waiting] == "fast@gpu0"
