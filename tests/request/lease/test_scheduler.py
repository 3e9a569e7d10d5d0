"""Stories of the lease scheduler, by the rule they hold. Nothing here waits: the clock is the story's."""

from __future__ import annotations

import pytest
from tests.request.lease.stage import Stage, serve

from stoker.domain.errors import CapacityError, StartFailed
from stoker.domain.serve import Driver, Slot, SwapPolicy
from stoker.request.lease.commands import CheckStart, Grant, StartSwap


def test_a_stopped_serve_that_is_named_starts_once_and_serves_all_who_waited() -> None:
    stage = Stage(serve("a"))
    waiters = [stage.request("a") for _ in range(3)]
    assert stage.swaps == [StartSwap(1, "a", ())]
    stage.ready()
    assert stage.granted == waiters
    assert len(stage.scheduler.serves["a"].leases) == 3


def test_a_failed_start_gives_every_waiter_the_original_error_and_backs_off() -> None:
    stage = Stage(serve("a"))
    waiters = [stage.request("a") for _ in range(3)]
    stage.fails("cuda out of memory")
    assert {stage.refused[w].message for w in waiters} == {"cuda out of memory"}
    assert not stage.scheduler.serves["a"].leases
    late = stage.request("a")
    assert stage.swaps == []  # waits for the back-off of one second
    stage.to(0.99)
    assert stage.swaps == []
    stage.to(1.0)
    assert [s.target for s in stage.swaps] == ["a"]
    stage.ready()
    assert late in stage.granted


def test_back_off_grows_and_a_long_one_refuses_with_the_original_error_and_a_time() -> None:
    stage = Stage(serve("a"))
    for _ in range(4):
        stage.request("a")
        stage.to(stage.now + 60)
        stage.fails("no such tensor")
    refused = stage.request("a")
    error = stage.refused[refused]
    assert error.message == "no such tensor"
    assert error.retry_after == pytest.approx(8.0)


def test_nobody_waits_for_the_back_off_of_a_serve_that_runs_elsewhere() -> None:
    """Stoker cannot start it: a fallback or the next tier answers meanwhile."""
    stage = Stage(serve("a", driver=Driver.EXTERNAL, base_url="http://127.0.0.1:9/v1"))
    stage.request("a")
    stage.fails("nothing listens on port 9")
    refused = stage.request("a")
    assert stage.refused[refused].message == "nothing listens on port 9"
    assert stage.refused[refused].retry_after == pytest.approx(1.0)
    stage.to(1.0)
    stage.request("a")
    assert [swap.target for swap in stage.swaps] == ["a"]


def test_a_victim_with_streams_is_stopped_only_after_both_ended() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    one, two = stage.request("a"), stage.request("a")
    b = stage.request("b")
    stage.to(15.0)  # max_wait
    assert stage.phase("a") == "draining"
    stage.served(one, "a")
    assert stage.swaps == []
    stage.served(two, "a")
    assert stage.swaps == [StartSwap(2, "b", ("a",))]
    stage.ready(0.5)
    assert b in stage.granted
    assert stage.phase("a") == "stopped"


def test_three_models_in_one_slot_are_each_started_once_and_serve_two() -> None:
    stage = Stage(serve("a"), serve("b"), serve("c"))
    waiters = [(stage.request(m), m) for m in "abcabc"]
    starts = []
    for _ in range(3):
        starts.append(stage.swaps[0].target)
        stage.ready(1.0)
        for id, name in waiters:
            if id in stage.granted:
                stage.served(id, name)
        stage.to(stage.now + 20)
    assert starts == ["a", "b", "c"]
    assert stage.swaps == []
    assert sorted(stage.granted) == [id for id, _ in waiters]


def test_two_slots_start_in_parallel() -> None:
    stage = Stage(serve("a"), serve("x", slot=None))
    stage.request("a")
    stage.request("x")
    assert [s.target for s in stage.swaps] == ["a", "x"]


def test_a_client_that_leaves_while_queued_behind_another_load_never_starts_its_model() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.request("a")
    b = stage.request("b")
    stage.leaves(b, "b")
    stage.ready()
    stage.to(200.0)
    assert stage.swaps == []
    assert stage.phase("b") == "stopped"


def test_a_waiter_that_leaves_at_its_grant_leaves_no_lease() -> None:
    stage = Stage(serve("a"))
    a = stage.request("a")
    stage.ready()
    assert a in stage.granted
    stage.leaves(a, "a")
    assert not stage.scheduler.serves["a"].leases
    assert stage.scheduler.serves["a"].active == 0


def test_a_request_during_a_stop_waits_for_it_and_gets_a_fresh_process() -> None:
    stage = Stage(serve("a"))
    stage.load("a")
    ticket = stage.unload("a")
    late = stage.request("a")
    assert len(stage.swaps) == 1
    stage.ready()  # stopped
    assert ticket in stage.granted
    assert stage.swaps == [StartSwap(3, "a", ())]
    stage.ready()
    assert late in stage.granted


def test_an_exit_is_no_longer_ready_and_the_next_request_starts_it_again() -> None:
    stage = Stage(serve("a"))
    stage.load("a")
    held = stage.request("a")
    stage.to(100.0)
    stage.take(stage.scheduler.on_exit("a", stage.now, "signal 9"))
    assert stage.phase("a") == "stopped"
    stage.served(held, "a")  # the broken stream ends later: nothing to give back
    again = stage.request("a")
    assert [s.target for s in stage.swaps] == ["a"]
    stage.ready()
    assert again in stage.granted
    assert len(stage.scheduler.serves["a"].leases) == 1


def test_a_serve_that_dies_soon_after_ready_backs_off_longer_each_time() -> None:
    stage = Stage(serve("a", keep_loaded=True))
    stage.take(stage.scheduler.on_tick(0.0))
    waits = []
    for _ in range(3):
        stage.ready()
        died = stage.now
        stage.take(stage.scheduler.on_exit("a", died, "segfault"))
        while not stage.swaps:
            assert stage.wake is not None
            stage.to(stage.wake)
        waits.append(stage.now - died)
    assert waits == [1.0, 2.0, 4.0]


def test_a_target_that_fails_brings_the_previous_resident_back() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    stage.to(100.0)
    b = stage.request("b")
    stage.to(101.0)
    assert stage.swaps == [StartSwap(2, "b", ("a",))]
    stage.fails("bad magic")
    assert stage.refused[b].message == "bad magic"
    assert stage.swaps == [StartSwap(3, "a", ())]
    stage.ready()
    assert stage.phase("a") == "ready"


def test_when_the_previous_resident_fails_too_the_baseline_comes() -> None:
    stage = Stage(serve("a"), serve("b"), serve("safe"), baseline="safe")
    stage.load("a")
    ticket = stage.switch("b")
    stage.fails("b is broken")
    assert stage.refused[ticket].message == "b is broken"
    stage.fails("a is broken too")
    assert [s.target for s in stage.swaps] == ["safe"]


def alternate(policy: dict[str, float], minutes: float = 1.0) -> tuple[int, int]:
    """Two closed-loop clients on A and B: swap 3 s, service 0.2 s, think 0.3 s. Returns swaps made, requests done."""
    stage = Stage(serve("a"), serve("b"), **policy)
    events: list[tuple[float, str, str, int]] = [(0.0, "ask", "a", 0), (0.0, "ask", "b", 0)]
    done = swaps = 0
    asked: dict[int, str] = {}
    while events:
        events.sort(key=lambda e: e[0])
        at, what, name, id = events.pop(0)
        if at > minutes * 60:
            break
        before = len(stage.granted)
        while stage.wake is not None and stage.wake <= at:
            stage.to(stage.wake)
            swaps += _begin(stage, events)
        stage.to(at)
        if what == "ask":
            asked[stage.request(name)] = name
        elif what == "end":
            stage.served(id, name)
            done += 1
            events.append((at + 0.3, "ask", name, 0))
        else:
            stage.take(stage.scheduler.on_swap_done(id, at))
        swaps += _begin(stage, events)
        events += [(stage.now + 0.2, "end", asked[g], g) for g in stage.granted[before:]]
        while stage.wake is not None and not events:
            stage.to(stage.wake)
            swaps += _begin(stage, events)
    return swaps, done


def _begin(stage: Stage, events: list[tuple[float, str, str, int]]) -> int:
    count = len(stage.swaps)
    events += [(stage.now + 3.0, "up", "", s.swap_id) for s in stage.swaps]
    stage.swaps.clear()
    return count


def test_alternating_clients_are_bounded_by_hysteresis_not_by_requests() -> None:
    swaps, done = alternate({}, minutes=5)
    one_each, few = alternate({"patience": 0.0, "min_residency": 0.0, "linger": 0.0, "max_wait": 0.0}, minutes=5)
    assert swaps <= 5 * 60 / 15 + 2  # a swap at most every max_wait
    assert one_each / few >= 5 * swaps / done
    assert done >= 3 * few


def test_a_client_that_keeps_a_busy_for_ever_does_not_starve_b() -> None:
    stage = Stage(serve("a"), serve("b"), drain_timeout=5.0)
    stage.load("a")
    stage.to(50.0)
    busy = stage.request("a")
    b = stage.request("b")
    stage.to(65.0)
    late = stage.request("a")
    assert late not in stage.granted
    stage.to(69.9)
    assert stage.cut == []
    stage.to(70.0)
    assert stage.cut == [busy]
    stage.ready(1.0)
    assert b in stage.granted
    assert stage.now <= 50.0 + 15.0 + 5.0 + 1.0


def test_new_arrivals_for_a_draining_victim_queue_behind_the_swap() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    a = stage.request("a")
    stage.switch("b")
    late = stage.request("a")
    assert late not in stage.granted
    stage.served(a, "a")
    assert stage.swaps == [StartSwap(2, "b", ("a",))]
    stage.ready()
    assert late not in stage.granted
    stage.to(stage.now + 20)
    assert stage.swaps[0].target == "a"
    stage.ready()
    assert late in stage.granted


def test_a_drain_of_zero_cuts_at_once() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    a = stage.request("a")
    stage.switch("b", drain=0.0)
    assert stage.cut == [a]
    assert stage.swaps == [StartSwap(2, "b", ("a",))]


def test_a_swap_whose_waiters_left_during_the_drain_is_taken_back() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    stage.request("a")
    b = stage.request("b")
    stage.to(15.0)
    assert stage.phase("a") == "draining"
    stage.leaves(b, "b")
    assert (stage.phase("a"), stage.phase("b")) == ("ready", "stopped")
    assert stage.request("a") in stage.granted


def test_a_start_nobody_wants_is_cancelled_when_others_wait_because_of_it() -> None:
    stage = Stage(serve("a"), serve("b"))
    a = stage.request("a")
    b = stage.request("b")
    stage.leaves(a, "a")
    assert stage.cancelled == [1]
    stage.ready(cancelled=True)
    assert [s.target for s in stage.swaps] == ["b"]
    stage.ready()
    assert b in stage.granted


def test_a_late_result_of_an_old_generation_is_ignored() -> None:
    stage = Stage(serve("a"))
    stage.load("a")
    assert stage.scheduler.on_swap_done(1, stage.now, CapacityError("late")) == []
    assert stage.phase("a") == "ready"


def test_places_are_first_come_first_served_and_zero_queue_timeout_refuses_at_once() -> None:
    stage = Stage(serve("a", max_active=2, queue_timeout=5.0), serve("z", slot=None, max_active=1, queue_timeout=0.0))
    stage.load("a")
    first, _, third, fourth = (stage.request("a") for _ in range(4))
    assert third not in stage.granted
    stage.to(2.0)
    stage.served(first, "a")
    assert stage.granted[-1] == third
    stage.to(5.0)
    assert stage.refused[fourth].code == "queue_timeout"
    stage.load("z")
    stage.request("z")
    refused = stage.request("z")
    assert stage.refused[refused].code == "no_place"
    assert stage.refused[refused].retry_after


def test_queue_timeout_zero_is_about_places_not_about_loads() -> None:
    stage = Stage(serve("a", queue_timeout=0.0))
    a = stage.request("a")
    stage.to(10.0)
    stage.ready()
    assert a in stage.granted


def test_a_full_queue_refuses() -> None:
    stage = Stage(serve("a", queue=2, max_active=1))
    stage.load("a")
    ids = [stage.request("a") for _ in range(4)]
    assert list(stage.refused) == ids[3:]
    assert stage.refused[ids[3]].code == "queue_full"


def test_for_a_load_as_many_more_may_wait_as_will_find_a_place() -> None:
    stage = Stage(serve("a", queue=0, max_active=2))
    ids = [stage.request("a") for _ in range(3)]
    assert list(stage.refused) == ids[2:]
    stage.ready()
    assert stage.granted == ids[:2]


def test_a_waiter_that_leaves_frees_its_place_in_the_queue() -> None:
    stage = Stage(serve("a", queue=1, max_active=1))
    stage.load("a")
    stage.request("a")
    first = stage.request("a")
    assert stage.request("a") in stage.refused
    stage.leaves(first, "a")
    assert stage.request("a") not in stage.refused


def test_counting_tokens_takes_a_lease_but_no_place() -> None:
    stage = Stage(serve("a", max_active=1, queue_timeout=0.0))
    stage.load("a")
    stage.request("a")
    assert stage.request("a", takes_place=False) in stage.granted
    assert stage.scheduler.serves["a"].active == 1


def test_a_lease_that_yields_is_cut_for_whoever_wants_its_place_and_nobody_waits() -> None:
    stage = Stage(serve("a", max_active=1, queue_timeout=0.0))
    stage.load("a")
    grade = stage.allow_preemption(stage.request("a"), "a")
    live = stage.request("a")
    assert (stage.cut, live in stage.granted) == ([grade], True)
    stage.served(grade, "a")  # its end is known already
    assert stage.scheduler.serves["a"].active == 1


def test_a_lease_that_begins_to_yield_while_somebody_waits_goes_at_once() -> None:
    stage = Stage(serve("a", max_active=1, queue_timeout=30.0))
    stage.load("a")
    grade, live = stage.request("a"), stage.request("a")
    stage.allow_preemption(grade, "a")
    assert (stage.cut, live in stage.granted) == ([grade], True)


def test_a_lease_that_yields_leaves_the_other_places_as_they_are() -> None:
    stage = Stage(serve("a", max_active=2))
    stage.load("a")
    grade = stage.allow_preemption(stage.request("a"), "a")
    live = stage.request("a")
    assert (stage.cut, live in stage.granted) == ([], True)
    assert stage.scheduler.serves["a"].preemptible.keys() == {grade}


def test_a_lease_that_yields_holds_up_no_swap() -> None:
    stage = Stage(serve("a"), serve("b"), drain_timeout=30.0)
    stage.load("a")
    grade = stage.allow_preemption(stage.request("a"), "a")
    stage.to(60.0)  # resident for long enough, and idle but for that
    stage.request("b")
    assert stage.cut == [grade]
    assert stage.swaps == [StartSwap(2, "b", ("a",))]


def test_a_lease_that_yields_keeps_no_serve_loaded() -> None:
    stage = Stage(serve("a", idle_unload=10.0))
    stage.load("a")
    stage.served(stage.request("a"), "a")
    stage.to(8.0)
    stage.served(stage.allow_preemption(stage.request("a"), "a"), "a")
    grade = stage.allow_preemption(stage.request("a"), "a")
    stage.to(10.0)
    assert stage.cut == [grade]
    assert [swap.victims for swap in stage.swaps] == [("a",)]


def test_with_fewer_places_after_a_reload_the_lease_that_yields_goes_and_the_place_is_not_given_twice() -> None:
    stage = Stage(serve("a", max_active=2))
    stage.load("a")
    live, grade = stage.request("a"), stage.request("a")
    stage.allow_preemption(grade, "a")
    stage.take(stage.scheduler.on_reload([Slot("gpu")], [serve("a", max_active=1, queue_timeout=30.0)], stage.now))
    late = stage.request("a")
    assert (stage.cut, late in stage.granted) == ([grade], False)
    stage.served(live, "a")
    assert late in stage.granted


def test_memory_lets_residents_live_side_by_side_and_moves_out_the_longest_idle() -> None:
    gib = 2**30
    stage = Stage(serve("a", memory=4 * gib), serve("b", memory=4 * gib), serve("c", memory=4 * gib), memory=8 * gib)
    for name in "ab":
        stage.request(name)
    assert [s.target for s in stage.swaps] == ["a", "b"]
    stage.ready()
    stage.ready()
    for id, name in ((1, "a"), (2, "b")):
        stage.to(stage.now + 1)
        stage.served(id, name)
    stage.to(100.0)
    stage.request("c")
    assert stage.swaps == [StartSwap(3, "c", ("a",))]


def test_a_serve_too_large_for_its_slot_is_refused_with_the_shortfall_and_nothing_stops() -> None:
    gib = 2**30
    stage = Stage(serve("a", memory=4 * gib), serve("b", memory=9 * gib), memory=8 * gib)
    stage.load("a")
    b = stage.request("b")
    assert "1.0 GiB short" in stage.refused[b].message
    assert stage.phase("a") == "ready"


def test_a_pinned_resident_is_never_moved_out() -> None:
    stage = Stage(serve("a", keep_loaded=True), serve("b"))
    stage.take(stage.scheduler.on_tick(0.0))
    stage.ready()
    b = stage.request("b")
    assert stage.refused[b].code == "no_fit"
    assert "keep_loaded" in stage.refused[b].message


def test_idle_unload_stops_an_idle_serve_and_a_request_a_millisecond_before_wins() -> None:
    stage = Stage(serve("a", idle_unload=10.0))
    stage.load("a")
    stage.to(9.999)
    a = stage.request("a")
    stage.to(15.0)
    assert stage.phase("a") == "ready"
    stage.served(a, "a")
    stage.to(24.9)
    assert stage.swaps == []
    stage.to(25.0)
    assert stage.swaps == [StartSwap(2, None, ("a",))]


def test_many_waiters_end_the_linger_but_not_the_residency() -> None:
    stage = Stage(serve("a"), serve("b"), swap_after=2, min_residency=10.0, linger=60.0, max_wait=100.0)
    stage.load("a")
    stage.request("a")
    stage.request("b")
    stage.request("b")
    stage.to(9.9)
    assert stage.phase("a") == "ready"
    stage.to(10.0)
    assert stage.phase("a") == "draining"


def test_a_switch_does_not_wait_for_residency() -> None:
    stage = Stage(serve("a"), serve("b"), min_residency=1000.0)
    stage.load("a")
    ticket = stage.switch("b")
    assert stage.swaps == [StartSwap(2, "b", ("a",))]
    stage.ready()
    assert ticket in stage.granted


def test_held_serves_admit_nothing_new_until_released() -> None:
    stage = Stage(serve("a"))
    stage.load("a")
    stage.take(stage.scheduler.on_hold("a", 0.0))
    assert stage.refused[stage.request("a")].code == "draining"
    stage.take(stage.scheduler.on_hold("a", 0.0, is_held=False))
    assert stage.request("a") in stage.granted


def test_swap_timeout_bounds_the_wait_for_a_load() -> None:
    stage = Stage(serve("a"), swap_timeout=7.0)
    a = stage.request("a")
    stage.to(7.0)
    assert stage.refused[a].code == "swap_timeout"


def test_after_the_load_a_request_without_a_place_waits_queue_timeout_for_one() -> None:
    stage = Stage(serve("a", max_active=1, queue_timeout=5.0), swap_timeout=7.0)
    first, second, third = (stage.request("a") for _ in range(3))
    stage.ready(after=6.9)
    assert stage.granted == [first]
    stage.to(8.0)
    stage.served(first, "a")
    assert stage.granted == [first, second]
    stage.to(11.8)
    assert stage.refused == {}
    stage.to(11.9)
    assert stage.refused[third].code == "queue_timeout"
    assert "was loaded, but had no free place within 5.0 s after that" in stage.refused[third].message


def test_after_the_load_the_rest_of_swap_timeout_counts_where_it_is_longer() -> None:
    stage = Stage(serve("a", max_active=1, queue_timeout=0.0), swap_timeout=7.0)
    first, second = stage.request("a"), stage.request("a")
    stage.ready(after=2.0)
    assert stage.granted == [first]
    stage.to(6.9)
    assert stage.refused == {}
    stage.to(7.0)
    assert stage.refused[second].code == "queue_timeout"
    assert "was loaded, but had no free place within 5.0 s after that" in stage.refused[second].message


def test_a_request_that_waits_for_a_place_waits_for_the_load_once_its_serve_has_to_make_room() -> None:
    policy = {"min_residency": 0.0, "linger": 0.0, "max_wait": 3.0, "drain_timeout": 1.0, "swap_timeout": 50.0}
    stage = Stage(serve("a", max_active=1, queue_timeout=10.0), serve("b"), **policy)
    stage.load("a")
    stage.request("a")
    second = stage.request("a")  # would be refused at 10
    b = stage.request("b")
    stage.to(4.0)
    assert stage.swaps == [StartSwap(2, "b", ("a",))]  # decided at 3, drained at 4
    stage.ready(after=40.0)
    assert b in stage.granted
    assert stage.refused == {}
    stage.to(53.0)
    assert stage.refused[second].code == "swap_timeout"


def test_a_request_that_waits_for_a_place_is_granted_after_its_serve_made_room_and_came_back() -> None:
    policy = {"min_residency": 0.0, "linger": 0.0, "max_wait": 3.0, "drain_timeout": 1.0, "swap_timeout": 50.0}
    stage = Stage(serve("a", max_active=1, queue_timeout=10.0), serve("b"), **policy)
    stage.load("a")
    stage.request("a")
    second = stage.request("a")
    b = stage.request("b")
    stage.to(4.0)
    stage.ready(after=10.0)
    stage.served(b, "b")
    stage.to(20.0)
    stage.ready()
    assert second in stage.granted


def test_a_request_waits_for_a_place_again_where_the_swap_was_called_off() -> None:
    policy = {"min_residency": 0.0, "linger": 0.0, "max_wait": 3.0, "drain_timeout": 100.0, "swap_timeout": 20.0}
    stage = Stage(serve("a", max_active=1, queue_timeout=10.0), serve("b"), **policy)
    stage.load("a")
    first, second = stage.request("a"), stage.request("a")
    b = stage.request("b")
    stage.to(4.0)
    assert stage.phase("a") == "draining"
    stage.leaves(b, "b")
    assert stage.phase("a") == "ready"
    stage.to(22.0)
    assert stage.refused == {}
    stage.to(23.0)
    assert stage.refused[second].code == "queue_timeout"
    assert "had no free place within 23.0 s" in stage.refused[second].message
    assert first in stage.granted


def test_a_reload_leaves_unchanged_serves_alone_and_restarts_a_changed_one_after_its_drain() -> None:
    stage = Stage(serve("a"), serve("b", slot=None), serve("gone", slot=None))
    stage.load("a")
    stage.load("b")
    stage.load("gone")
    kept, changed = stage.request("a"), stage.request("b")
    new = [serve("a", max_active=9), serve("b", slot=None, context=4096), serve("n", slot=None)]
    stage.take(stage.scheduler.on_reload([Slot("gpu", swap=SwapPolicy())], new, stage.now))
    assert stage.phase("a") == "ready"
    assert stage.scheduler.serves["a"].serve.max_active == 9
    assert stage.phase("b") == "draining"
    assert [s.victims for s in stage.swaps] == [("gone",)]
    stage.ready()
    assert "gone" not in stage.scheduler.serves
    stage.served(changed, "b")
    stage.ready()
    assert [s.target for s in stage.swaps] == ["b"]
    assert stage.scheduler.serves["b"].serve.context == 4096
    assert kept in stage.scheduler.serves["a"].leases
    assert stage.request("n")
    assert "n" in [s.target for s in stage.swaps]


def test_a_serve_that_a_reload_removed_is_refused_as_removed_while_it_drains() -> None:
    stage = Stage(serve("gone"))
    stage.load("gone")
    stage.request("gone")
    stage.take(stage.scheduler.on_reload([Slot("gpu")], [], stage.now))
    refusal = stage.refused[stage.request("gone")]
    assert (refusal.code, refusal.status) == ("unknown_model", 404)
    assert "removed from the configuration" in refusal.message


def test_nobody_can_switch_to_a_serve_that_a_reload_removed() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    stage.request("a")
    stage.take(stage.scheduler.on_reload([Slot("gpu")], [serve("b")], stage.now))
    assert stage.refused[stage.switch("a")].code == "unknown_model"


def test_shutdown_refuses_who_waits_and_lets_leases_end() -> None:
    stage = Stage(serve("a"), serve("b"))
    stage.load("a")
    a, b = stage.request("a"), stage.request("b")
    stage.take(stage.scheduler.on_shutdown(stage.now))
    assert stage.refused[b].code == "shutting_down"
    assert stage.refused[stage.request("a")].code == "shutting_down"
    assert a in stage.scheduler.serves["a"].leases
    stage.take(stage.scheduler.cut_all("shutdown"))
    assert stage.cut == [a]


def test_unloading_a_starting_serve_cancels_it() -> None:
    stage = Stage(serve("a"))
    a = stage.request("a")
    ticket = stage.unload("a")
    assert stage.refused[a].code == "unloaded"
    assert stage.cancelled == [1]
    stage.ready(cancelled=True)
    assert ticket in stage.granted
    assert stage.phase("a") == "stopped"


def test_an_adopted_serve_is_ready_at_once() -> None:
    stage = Stage(serve("a"))
    stage.take(stage.scheduler.on_adopted("a", 5.0))
    assert stage.take(stage.scheduler.on_request(1, "a", 5.0)) == [Grant(1)]


def test_a_swap_found_impossible_before_its_victims_are_stopped_leaves_them_as_they_were() -> None:
    stage = Stage(serve("a"), serve("b"), linger=0.0, min_residency=0.0)
    stage.load("a")
    b = stage.request("b")
    queued = stage.request("a")
    stage.untouched("the image is missing")
    assert stage.phase("a") == "ready"
    assert queued in stage.granted
    assert "the image is missing" in stage.refused[b].message
    assert stage.phase("b") == "stopped"
    assert stage.swaps == []


def test_a_victim_that_died_while_the_swap_was_looked_at_is_started_again() -> None:
    stage = Stage(serve("a"), serve("b"), linger=0.0, min_residency=0.0)
    stage.load("a")
    stage.request("b")
    stage.take(stage.scheduler.on_exit("a", stage.now, "killed"))
    stage.untouched()
    assert stage.phase("a") == "starting"
    assert [s.target for s in stage.swaps] == ["a"]


def test_a_victim_whose_unload_was_asked_for_meanwhile_is_stopped_all_the_same() -> None:
    stage = Stage(serve("a"), serve("b"), linger=0.0, min_residency=0.0)
    stage.load("a")
    stage.request("b")
    ticket = stage.unload("a")
    stage.untouched()
    assert [s.victims for s in stage.swaps] == [("a",)]
    stage.ready()
    assert ticket in stage.granted


def test_a_wedged_serve_is_cut_stopped_and_started_again() -> None:
    stage = Stage(serve("a"))
    stage.load("a")
    held = stage.request("a")
    stage.take(stage.scheduler.on_restart("a", stage.now, "it makes no progress"))
    assert stage.cut == [held]
    later = stage.request("a")
    stage.ready()
    assert [s.target for s in stage.swaps] == ["a"]
    stage.ready()
    assert later in stage.granted


def test_a_serve_that_does_not_run_is_not_restarted() -> None:
    stage = Stage(serve("a"))
    assert stage.take(stage.scheduler.on_restart("a", stage.now, "it is wedged")) == []


def test_a_parked_serve_refuses_with_the_reason_until_its_operator_switches_to_it() -> None:
    stage = Stage(serve("a", keep_loaded=True))
    stage.take(stage.scheduler.on_tick(0.0))
    stage.ready()
    stage.take(stage.scheduler.on_park("a", stage.now, "it was restarted 5 times in 10 minutes"))
    stage.ready()
    assert stage.phase("a") == "stopped"
    refused = stage.refused[stage.request("a")]
    assert refused.code == "parked"
    assert "restarted 5 times" in refused.message
    assert "stoker slot switch a" in refused.message
    assert stage.swaps == [], "keep_loaded does not bring it back"
    stage.switch("a")
    stage.ready()
    assert stage.request("a") in stage.granted


def test_a_serve_parked_while_it_starts_is_given_up() -> None:
    stage = Stage(serve("a"))
    a = stage.request("a")
    stage.take(stage.scheduler.on_park("a", stage.now, "it flaps"))
    assert stage.refused[a].code == "parked"
    assert stage.cancelled == [1]
    stage.ready(cancelled=True)
    assert stage.phase("a") == "stopped"


def test_a_new_configuration_unparks() -> None:
    stage = Stage(serve("a"))
    stage.take(stage.scheduler.on_park("a", stage.now, "it flaps"))
    stage.take(stage.scheduler.on_reload([Slot("gpu")], [serve("a", context=512)], stage.now))
    a = stage.request("a")
    stage.ready()
    assert a in stage.granted


def test_what_a_serve_was_measured_to_hold_counts_where_it_is_more_than_was_declared() -> None:
    """Behaviour 22: the shortfall is told, nothing is stopped, and a resident's own memory is credit."""
    stage = Stage(serve("a", memory=4, keep_loaded=True), serve("b", memory=5), memory=10)
    stage.take(stage.scheduler.on_tick(0.0))
    stage.ready()
    stage.take(stage.scheduler.on_measured("a", 6, stage.now))
    refused = stage.refused[stage.request("b")]
    assert refused.code == "no_fit"
    assert stage.phase("a") == "ready"
    stage.take(stage.scheduler.on_measured("a", 3, stage.now))
    b = stage.request("b")
    stage.ready()
    assert b in stage.granted, "what was declared holds where less was measured"


def oom(stage: Stage) -> None:
    swap = stage.swaps.pop(0)
    error = StartFailed("CUDA error: out of memory", code="out_of_memory")
    stage.take(stage.scheduler.on_swap_done(swap.swap_id, stage.now, error))


def test_a_target_too_large_for_its_device_makes_way_for_its_fallback_not_for_the_previous_resident() -> None:
    stage = Stage(serve("a"), serve("big", fallback="small"), serve("small"), linger=0.0, min_residency=0.0)
    stage.load("a")
    big = stage.request("big")
    oom(stage)
    assert stage.refused[big].code == "out_of_memory"
    assert [s.target for s in stage.swaps] == ["small"]
    small = stage.request("small")
    stage.ready()
    assert small in stage.granted
    stage.to(stage.now + 30)
    assert stage.refused[stage.request("big")].code == "out_of_memory", "it is not tried again at once"


def test_an_operators_switch_that_runs_out_of_memory_restores_what_was_there() -> None:
    stage = Stage(serve("a"), serve("big", fallback="small"), serve("small"))
    stage.load("a")
    stage.switch("big")
    oom(stage)
    assert [s.target for s in stage.swaps] == ["a"]


def test_while_the_victims_drain_it_is_looked_whether_the_target_can_start_and_if_not_nobody_is_cut() -> None:
    stage = Stage(serve("a"), serve("b"), min_residency=0.0, max_wait=1.0, drain_timeout=30.0)
    stage.load("a")
    held = stage.request("a")
    b = stage.request("b")
    stage.to(stage.now + 1.0)
    assert stage.looks == [CheckStart(2, "b")]
    later = stage.request("a")
    stage.take(stage.scheduler.on_swap_done(2, stage.now, StartFailed("2.0 GiB short"), victims_untouched=True))
    assert stage.refused[b].message == "2.0 GiB short"
    assert later in stage.granted
    stage.to(stage.now + 60.0)
    assert stage.cut == []
    assert held in stage.scheduler.serves["a"].leases


def test_what_was_found_too_late_is_not_asked_for_twice() -> None:
    stage = Stage(serve("a"), serve("b"), min_residency=0.0, max_wait=1.0, drain_timeout=5.0)
    stage.load("a")
    stage.request("a")
    stage.request("b")
    stage.to(stage.now + 10.0)
    assert len(stage.looks) == 1
    assert [s.target for s in stage.swaps] == ["b"]


def test_a_serve_that_dies_for_want_of_memory_makes_way_for_its_fallback() -> None:
    stage = Stage(serve("big", fallback="small", max_active=1), serve("small"))
    stage.load("big")
    stage.request("big")
    waiting = stage.request("big")
    stage.take(stage.scheduler.on_exit("big", stage.now, "ended by SIGKILL", "out_of_memory"))
    assert stage.refused[waiting].code == "out_of_memory"
    assert [s.target for s in stage.swaps] == ["small"]
    assert stage.refused[stage.request("big")].code == "out_of_memory"


def test_a_serve_that_dies_for_want_of_memory_and_has_no_fallback_is_started_again() -> None:
    stage = Stage(serve("big"))
    stage.load("big", 1.0)
    stage.to(100.0)
    stage.take(stage.scheduler.on_exit("big", stage.now, "ended by SIGKILL", "out_of_memory"))
    stage.request("big")
    assert [s.target for s in stage.swaps] == ["big"]


def test_what_was_measured_does_not_keep_a_stopped_serve_out_of_its_slot_for_ever() -> None:
    stage = Stage(serve("a", memory=8), memory=10)
    stage.load("a")
    stage.take(stage.scheduler.on_measured("a", 12, stage.now))
    stage.unload("a")
    stage.ready()
    a = stage.request("a")
    stage.ready()
    assert a in stage.granted
