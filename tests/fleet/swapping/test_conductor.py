"""The conductor carries out what the scheduler decides, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stoker.domain.errors import CapacityError, ClientError, StartFailed, StokerError
from stoker.domain.events import (
    Event,
    Notify,
    OperatorActed,
    ServeAdopted,
    ServeDisconnected,
    ServeExited,
    ServeParked,
    ServeRestarted,
    SwapEnded,
)
from stoker.domain.lease import Lease
from stoker.domain.protocols import SwapEntry
from stoker.domain.serve import Serve, Slot, Status, SwapPolicy
from stoker.domain.swap import SwapReport
from stoker.fleet.swapping import status_report
from stoker.fleet.swapping.conductor import Conductor
from stoker_lab.testing.fleet import FakeFleet


class LoopClock:
    """The loop's own time: no story here depends on how long anything takes."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return 0.0


def a(name: str = "a", **fields: Any) -> Serve:
    return Serve(name=name, **{"slot": "gpu", **fields})


def conductor(fleet: FakeFleet, *serves: Serve, **policy: Any) -> Conductor:
    policy = {"min_residency": 0.0, "linger": 0.0, "max_wait": 0.05, "drain_timeout": 0.05, **policy}
    return Conductor([Slot("gpu", swap=SwapPolicy(**policy))], serves, fleet, LoopClock())


def swaps_into(reports: list[SwapReport]) -> Notify:
    """Keeps the report of each swap."""

    def notify(event: Event) -> None:
        if isinstance(event, SwapEnded):
            reports.append(event.report)

    return notify


def story(tell: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(tell())

    run.__name__, run.__doc__ = tell.__name__, tell.__doc__
    return run


async def leased(got: Lease | asyncio.Future[Lease]) -> Lease:
    return got if isinstance(got, Lease) else await got


def assert_nothing_left(c: Conductor) -> None:
    assert c.statistics() == {"waiting": 0, "leases": 0, "swaps": 0}
    assert all(not s.leases and not s.queue for s in c.scheduler.serves.values())


@story
async def test_a_ready_serve_gives_its_lease_without_waiting() -> None:
    c = conductor(FakeFleet({"a": 7}), a())
    (await leased(c.acquire("a"))).release()
    lease = c.acquire("a")
    assert isinstance(lease, Lease)
    assert lease.target.port == 7
    lease.release()
    lease.release()
    assert_nothing_left(c)


@story
async def test_three_requests_for_a_loading_serve_make_one_start() -> None:
    fleet = FakeFleet()
    fleet.gates["a"] = asyncio.Event()
    c = conductor(fleet, a())
    waiting = [c.acquire("a") for _ in range(3)]
    await asyncio.sleep(0)
    fleet.gates["a"].set()
    for lease in await asyncio.gather(*(leased(w) for w in waiting)):
        lease.release()
    assert fleet.journal == ["start a", "ready a"]
    assert_nothing_left(c)


@story
async def test_a_failed_start_tells_every_waiter_and_restores_the_previous_resident() -> None:
    fleet = FakeFleet()
    fleet.broken["b"] = "bad magic"
    c = conductor(fleet, a(), a("b"))
    (await leased(c.acquire("a"))).release()
    with pytest.raises(StartFailed, match="bad magic"):
        await leased(c.acquire("b"))
    while "ready a" not in fleet.journal[4:]:
        await asyncio.sleep(0)
    assert fleet.journal == ["start a", "ready a", "stop a", "gone a", "start b", "gone b", "start a", "ready a"]
    await asyncio.sleep(0)
    assert_nothing_left(c)


@story
async def test_files_that_take_long_to_be_read_hold_up_nobody_else() -> None:
    fleet = FakeFleet()
    fleet.reading["b"] = asyncio.Event()
    c = conductor(fleet, a(), a("b"), a("c"))
    waiting, switching = c.acquire("b"), asyncio.get_running_loop().create_task(c.switch("b"))
    (await leased(c.acquire("a"))).release()
    assert fleet.journal == ["start a", "ready a"]
    fleet.problems["b"] = ["not seen"]  # what is read counts, not what is there later
    fleet.reading["b"].set()
    (await leased(waiting)).release()
    await switching
    assert_nothing_left(c)


@story
async def test_files_that_cannot_be_read_refuse_the_start() -> None:
    fleet = FakeFleet()
    fleet.reading["b"], fleet.problems["b"] = asyncio.Event(), ["its file system does not answer"]
    c = conductor(fleet, a(), a("b"))
    waiting = c.acquire("b")
    fleet.reading["b"].set()
    with pytest.raises(StartFailed, match="does not answer"):
        await leased(waiting)
    assert fleet.journal == []
    assert_nothing_left(c)


@story
async def test_a_request_that_leaves_while_files_are_read_starts_nothing() -> None:
    fleet = FakeFleet()
    fleet.reading["b"] = asyncio.Event()
    c = conductor(fleet, a(), a("b"))
    waiting = c.acquire("b")
    assert not isinstance(waiting, Lease)
    waiting.cancel()
    fleet.reading["b"].set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert fleet.journal == []
    assert_nothing_left(c)


@story
async def test_a_shutdown_does_not_wait_for_files_that_cannot_be_read() -> None:
    fleet = FakeFleet()
    fleet.reading["b"] = asyncio.Event()
    c = conductor(fleet, a(), a("b"))
    waiting = c.acquire("b")
    await asyncio.sleep(0)
    await c.shut_down(1.0)
    with pytest.raises(CapacityError, match="shutting down"):
        await leased(waiting)
    await c.close(False)
    assert_nothing_left(c)


@story
async def test_a_check_that_fails_refuses_before_the_running_serve_is_touched() -> None:
    fleet = FakeFleet()
    fleet.problems["b"] = ["weights /x.gguf do not exist"]
    c = conductor(fleet, a(), a("b"))
    (await leased(c.acquire("a"))).release()
    with pytest.raises(StartFailed, match=r"weights /x\.gguf do not exist"):
        await c.switch("b")
    with pytest.raises(StartFailed, match="do not exist"):
        c.acquire("b")
    assert fleet.journal == ["start a", "ready a"]


@story
async def test_a_waiter_that_is_cancelled_exactly_at_its_grant_leaves_no_lease() -> None:
    fleet = FakeFleet()
    fleet.gates["a"] = asyncio.Event()
    c = conductor(fleet, a())
    got = c.acquire("a")
    assert isinstance(got, asyncio.Future)
    await asyncio.sleep(0)
    got.cancel()
    fleet.gates["a"].set()  # the start ends while the cancel is still on its way
    while not c.running:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert_nothing_left(c)


@story
async def test_a_waiter_that_leaves_while_its_model_is_queued_never_starts_it() -> None:
    fleet = FakeFleet()
    fleet.gates["a"] = asyncio.Event()
    c = conductor(fleet, a(), a("b"))
    first, second = c.acquire("a"), c.acquire("b")
    assert isinstance(second, asyncio.Future)
    second.set_exception(ClientError("gone"))
    await asyncio.sleep(0)
    fleet.gates["a"].set()
    (await leased(first)).release()
    await asyncio.sleep(0.1)
    assert fleet.journal == ["start a", "ready a"]
    assert isinstance(second.exception(), ClientError)
    assert_nothing_left(c)


@story
async def test_a_swap_that_is_cancelled_before_its_first_step_does_not_block_its_slot() -> None:
    """The last request for b leaves in the very turn of the loop in which a's last lease ends and the swap begins."""
    fleet = FakeFleet()
    c = conductor(fleet, a(), a("b"), a("c"), drain_timeout=5.0, max_wait=5.0)
    lease = await leased(c.acquire("a"))
    leaves, stays = c.acquire("b"), c.acquire("c")
    assert isinstance(leaves, asyncio.Future)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    leaves.set_exception(ClientError("gone"))
    lease.release()
    async with asyncio.timeout(5):
        (await leased(stays)).release()
    assert isinstance(leaves.exception(), ClientError)
    assert fleet.journal == ["start a", "ready a", "stop a", "gone a", "start c", "ready c"]
    await asyncio.sleep(0)
    assert_nothing_left(c)


@story
async def test_a_drain_that_runs_out_cuts_the_stream() -> None:
    c = conductor(FakeFleet(), a(), a("b"))
    lease = await leased(c.acquire("a"))
    cut: list[str] = []
    lease.on_cut = cut.append
    (await leased(c.acquire("b"))).release()
    assert len(cut) == 1
    assert "drain timeout" in cut[0]
    lease.release()
    assert_nothing_left(c)


@story
async def test_an_exit_is_noticed_without_a_request_and_the_next_one_starts_it_again() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a())
    (await leased(c.acquire("a"))).release()
    c.scheduler.serves["a"].ready_since -= 100  # it had been up for long: no back-off
    fleet.die("a")
    assert "a" not in c.running
    (await leased(c.acquire("a"))).release()
    assert fleet.journal == ["start a", "ready a", "died a", "start a", "ready a"]


@story
async def test_a_switch_reports_its_phases_and_an_unload_waits_until_it_is_gone() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a(), a("b"))
    await c.switch("a")
    done = await c.switch("b")
    assert done.outcome == "ready"
    assert done.victims == ("a",)
    assert {"drain", "stop", "start"} <= done.phases.keys()
    assert (await c.switch("b")).phases == {}
    await c.unload("b")
    assert not fleet.alive
    assert_nothing_left(c)


@story
async def test_blocked_serves_need_force() -> None:
    c = conductor(FakeFleet(), a(status=Status.BLOCKED, reason="crashes"))
    with pytest.raises(ClientError, match="--force"):
        c.acquire("a")
    await c.switch("a", force=True)
    assert isinstance(c.acquire("a"), Lease)


@story
async def test_leftovers_are_adopted_not_restarted() -> None:
    fleet = FakeFleet()
    fleet.leftovers = ["a"]
    c = conductor(fleet, a())
    assert await c.begin() == ["a"]
    assert isinstance(c.acquire("a"), Lease)
    assert fleet.journal == ["ready a"]


@story
async def test_closing_refuses_waiters_cuts_streams_and_ends_starts_under_way() -> None:
    fleet = FakeFleet()
    fleet.gates["b"] = asyncio.Event()
    c = conductor(fleet, a(), a("b", slot=None))
    lease = await leased(c.acquire("a"))
    cut: list[str] = []
    lease.on_cut = cut.append
    waiting = c.acquire("b")
    assert isinstance(waiting, asyncio.Future)
    await asyncio.sleep(0)
    await c.shut_down(grace=0.02)
    assert cut
    with pytest.raises(StokerError, match="shutting down"):
        await waiting
    await c.close(leave_running=False)
    assert not fleet.alive
    assert fleet.journal[-2:] == ["stop a", "gone a"]
    assert "gone b" in fleet.journal


@story
async def test_every_swap_is_reported_once() -> None:
    reports: list[SwapReport] = []
    fleet = FakeFleet()
    fleet.broken["b"] = "no"
    c = Conductor([], [a(slot=None), a("b", slot=None)], fleet, LoopClock(), swaps_into(reports))
    await c.switch("a")
    with pytest.raises(StartFailed):
        await c.switch("b")
    assert [(r.serve, r.outcome) for r in reports] == [("a", "ready"), ("b", "failed")]


class Pages:
    """A journal in memory: what was begun and ended, in order."""

    def __init__(self, *left: SwapEntry) -> None:
        self.open = list(left)
        self.lines: list[str] = []

    async def begin(self, swap: SwapEntry) -> None:
        await asyncio.sleep(0)
        self.lines.append(f"begin {swap.target} for {','.join(swap.victims)}")
        self.open.append(swap)

    def end(self, swap: SwapEntry) -> None:
        if swap in self.open:
            self.lines.append(f"end {swap.target}")
            self.open.remove(swap)

    def unfinished(self) -> list[SwapEntry]:
        return list(self.open)


def journalled(fleet: FakeFleet, pages: Pages, *serves: Serve) -> Conductor:
    policy = SwapPolicy(min_residency=0.0, linger=0.0, max_wait=0.05, drain_timeout=0.05)
    return Conductor([Slot("gpu", swap=policy)], serves, fleet, LoopClock(), journal=pages)


@story
async def test_before_a_swap_its_files_are_read_once_to_decide_and_once_before_anything_stops() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a(), a("b"))
    await c.switch("a")
    before = fleet.quick_checks
    await c.switch("b")
    assert fleet.quick_checks - before == 2
    assert_nothing_left(c)


@story
async def test_what_is_found_when_the_victims_are_about_to_go_leaves_them_running() -> None:
    """Behaviour 12, for what takes too long to be looked at before the drain."""
    fleet = FakeFleet()
    fleet.full_check_problems["b"] = ["the image 'b:1' is missing: `docker pull b:1`"]
    pages = Pages()
    c = journalled(fleet, pages, a(), a("b"))
    await c.switch("a")
    with pytest.raises(StartFailed, match="docker pull"):
        await c.switch("b")
    assert fleet.journal == ["start a", "ready a"]
    (await leased(c.acquire("a"))).release()
    assert pages.lines == ["begin a for ", "end a"]
    assert c.last_swap["b"].outcome == "failed"
    assert_nothing_left(c)


@story
async def test_a_swap_is_in_the_journal_before_its_victim_is_touched_and_until_it_has_ended() -> None:
    fleet = FakeFleet()
    pages = Pages()
    c = journalled(fleet, pages, a(), a("b"))
    await c.switch("a")
    fleet.gates["b"] = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(c.switch("b"))
        while "start b" not in fleet.journal:
            await asyncio.sleep(0)
        assert pages.open == [SwapEntry("gpu", "b", ("a",))]
        fleet.gates["b"].set()
    assert pages.open == []


@story
async def test_a_swap_that_cannot_be_written_down_is_not_begun() -> None:
    class Full(Pages):
        async def begin(self, swap: SwapEntry) -> None:
            if swap.target == "b":
                raise StokerError("the disk is full", code="state_unusable")
            await super().begin(swap)

    fleet = FakeFleet()
    c = journalled(fleet, Full(), a(), a("b"))
    await c.switch("a")
    with pytest.raises(StokerError, match="disk is full"):
        await c.switch("b")
    assert fleet.journal == ["start a", "ready a"]
    assert_nothing_left(c)


async def settled(c: Conductor, pages: Pages) -> None:
    async with asyncio.timeout(5):
        while pages.open or c.statistics()["swaps"]:
            await asyncio.sleep(0)


@story
async def test_an_interrupted_swap_that_had_come_up_is_finished() -> None:
    fleet = FakeFleet()
    fleet.leftovers = ["b"]
    pages = Pages(SwapEntry("gpu", "b", ("a",)))
    c = journalled(fleet, pages, a(), a("b"))
    assert await c.begin() == ["b"]
    await settled(c, pages)
    assert fleet.journal == ["ready b"]


@story
async def test_an_interrupted_swap_whose_victim_still_runs_is_undone() -> None:
    fleet = FakeFleet()
    fleet.leftovers = ["a"]
    pages = Pages(SwapEntry("gpu", "b", ("a",)))
    c = journalled(fleet, pages, a(), a("b"))
    await c.begin()
    await settled(c, pages)
    assert fleet.journal == ["ready a"]


@story
async def test_an_interrupted_swap_that_left_nothing_running_is_started_again() -> None:
    fleet = FakeFleet()
    pages = Pages(SwapEntry("gpu", "b", ("a",)))
    c = journalled(fleet, pages, a(), a("b"))
    await c.begin()
    await settled(c, pages)
    assert fleet.journal == ["start b", "ready b"]
    await c.close(False)


@story
async def test_an_interrupted_swap_whose_target_does_not_come_up_ends_with_the_victim_back() -> None:
    fleet = FakeFleet()
    fleet.broken["b"] = "out of memory"
    pages = Pages(SwapEntry("gpu", "b", ("gone from the configuration", "a")))
    c = journalled(fleet, pages, a(), a("b"))
    await c.begin()
    await settled(c, pages)
    assert fleet.journal[-1] == "ready a"
    await c.close(False)


@story
async def test_an_interrupted_swap_whose_target_is_not_configured_any_more_is_undone() -> None:
    fleet = FakeFleet()
    pages = Pages(SwapEntry("gpu", "gone from the configuration", ("gone, too", "a")))
    c = journalled(fleet, pages, a(), a("b"))
    await c.begin()
    await settled(c, pages)
    assert fleet.journal == ["start a", "ready a"]
    await c.close(False)


@story
async def test_an_interrupted_swap_of_serves_that_are_not_configured_any_more_is_forgotten() -> None:
    fleet = FakeFleet()
    pages = Pages(SwapEntry("gpu", "gone from the configuration", ("gone, too",)))
    c = journalled(fleet, pages, a())
    await c.begin()
    await settled(c, pages)
    assert fleet.journal == []
    await c.close(False)


@story
async def test_a_wedged_serve_is_restarted_and_its_stream_is_told_why() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a())
    lease = await leased(c.acquire("a"))
    cut: list[str] = []
    lease.on_cut = cut.append
    c.restart("a", "it makes no progress while 1 request is in flight")
    again = await leased(c.acquire("a"))
    assert cut == ["it makes no progress while 1 request is in flight"]
    assert fleet.journal == ["start a", "ready a", "stop a", "gone a", "start a", "ready a"]
    again.release()
    assert_nothing_left(c)


@story
async def test_a_parked_serve_is_stopped_and_started_only_by_its_operator() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a())
    (await leased(c.acquire("a"))).release()
    c.park("a", "it was restarted 5 times in 10 minutes")
    with pytest.raises(StartFailed, match="is parked: it was restarted 5 times"):
        await leased(c.acquire("a"))
    await c.switch("a")
    (await leased(c.acquire("a"))).release()
    assert_nothing_left(c)


@story
async def test_requests_for_missing_weights_wait_for_one_fetch_and_are_served_after_it() -> None:
    fleet = FakeFleet()
    fleet.missing["a"] = asyncio.Event()
    c = conductor(fleet, a())
    waiting = [c.acquire("a") for _ in range(3)]
    await asyncio.sleep(0)
    assert fleet.journal == ["fetch a"]
    fleet.missing["a"].set()
    for lease in await asyncio.gather(*(leased(w) for w in waiting)):
        lease.release()
    assert fleet.journal == ["fetch a", "start a", "ready a"]
    assert_nothing_left(c)


@story
async def test_whoever_waits_for_a_fetch_that_fails_is_told_why_and_the_next_one_tries_again() -> None:
    fleet = FakeFleet()
    fleet.missing["a"] = asyncio.Event()
    fleet.broken["a"] = "rsync: no route to host"
    c = conductor(fleet, a())
    waiting = [c.acquire("a") for _ in range(2)]
    fleet.missing["a"].set()
    for each in waiting:
        with pytest.raises(StartFailed, match="no route to host"):
            await leased(each)
    with pytest.raises(StartFailed, match="no route to host"):
        await leased(c.acquire("a"))
    assert fleet.journal == ["fetch a", "fetch a"]
    assert_nothing_left(c)


@story
async def test_whoever_leaves_while_weights_are_fetched_or_loaded_leaves_nothing_behind() -> None:
    fleet = FakeFleet()
    fleet.missing["a"] = asyncio.Event()
    fleet.gates["a"] = asyncio.Event()
    c = conductor(fleet, a())
    first, second = c.acquire("a"), c.acquire("a")
    assert isinstance(first, asyncio.Future)
    assert isinstance(second, asyncio.Future)
    first.cancel()
    fleet.missing["a"].set()
    while "start a" not in fleet.journal:
        await asyncio.sleep(0)
    second.set_exception(ClientError("the client left"))
    fleet.gates["a"].set()
    while c.statistics()["swaps"]:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert second.exception() is not None
    assert_nothing_left(c)


@story
async def test_a_long_fetch_tells_how_far_it_is() -> None:
    fleet = FakeFleet()
    fleet.missing["a"] = asyncio.Event()
    c = conductor(fleet, a(), swap_timeout=0.01)
    with pytest.raises(StokerError, match="being fetched: half of it") as refused:
        await leased(c.acquire("a"))
    assert refused.value.code == "fetching"
    assert refused.value.retry_after
    await c.close(False)
    assert_nothing_left(c)


@story
async def test_a_switch_waits_for_the_weights_before_anybody_is_drained() -> None:
    fleet = FakeFleet()
    fleet.missing["b"] = asyncio.Event()
    c = conductor(fleet, a(), a("b"))
    (await leased(c.acquire("a"))).release()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(c.switch("b"))
        while "fetch b" not in fleet.journal:
            await asyncio.sleep(0)
        (await leased(c.acquire("a"))).release()
        assert "stop a" not in fleet.journal
        fleet.missing["b"].set()
    assert fleet.journal[-1] == "ready b"
    assert_nothing_left(c)


@story
async def test_a_target_that_does_not_fit_is_refused_while_the_victim_still_serves() -> None:
    """Behaviour 22: nothing is stopped, no stream is cut."""
    fleet = FakeFleet()
    fleet.full_check_problems["b"] = ["serve 'b' is too large by 2.0 GiB for main memory"]
    c = conductor(fleet, a(), a("b"), drain_timeout=60.0)
    lease = await leased(c.acquire("a"))
    cut: list[str] = []
    lease.on_cut = cut.append
    with pytest.raises(StartFailed, match=r"too large by 2\.0 GiB"):
        await leased(c.acquire("b"))
    assert fleet.journal == ["start a", "ready a"]
    assert cut == []
    (await leased(c.acquire("a"))).release()
    lease.release()
    assert_nothing_left(c)


@story
async def test_a_serve_that_is_removed_while_its_weights_are_fetched_leaves_nobody_waiting() -> None:
    fleet = FakeFleet()
    gate = fleet.missing["a"] = asyncio.Event()
    c = conductor(fleet, a(), a("b"))
    waiting = c.acquire("a")
    await asyncio.sleep(0)
    c.reload([Slot("gpu")], [a("b")])
    gate.set()
    with pytest.raises(ClientError, match="was removed"):
        await leased(waiting)
    gate = fleet.missing["b"] = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        switching = tasks.create_task(raises_removed(c))
        await asyncio.sleep(0)
        c.reload([Slot("gpu")], [])
        gate.set()
    assert switching.result()
    assert c.statistics() == {"waiting": 0, "leases": 0, "swaps": 0}


async def raises_removed(c: Conductor) -> bool:
    with pytest.raises(ClientError, match="was removed"):
        await c.switch("b")
    return True


@story
async def test_a_shutdown_refuses_who_waits_for_weights() -> None:
    fleet = FakeFleet()
    fleet.missing["a"] = asyncio.Event()
    c = conductor(fleet, a())
    waiting = c.acquire("a")
    await asyncio.sleep(0)
    await c.shut_down(0.01)
    with pytest.raises(StokerError, match="shutting down"):
        await leased(waiting)
    await c.close(False)


@story
async def test_what_is_kept_loaded_has_its_weights_fetched_without_a_request() -> None:
    fleet = FakeFleet()
    fleet.missing["a"] = asyncio.Event()
    fleet.missing["a"].set()
    c = conductor(fleet, a(keep_loaded=True))
    await c.begin()
    while "ready a" not in fleet.journal:
        await asyncio.sleep(0)
    assert fleet.journal == ["fetch a", "start a", "ready a"]
    await c.close(False)


@story
async def test_the_time_of_a_load_is_counted_from_the_end_of_the_drain_as_what_it_usually_takes_is() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a(), a("b"), max_wait=0.0, drain_timeout=60.0)
    lease = await leased(c.acquire("a"))
    waiting = c.acquire("b")

    def shown() -> dict[str, Any]:
        return dict(status_report.slots(c, LoopClock().now())[0]["swap"] or {"phase": ""})

    while shown()["phase"] != "draining" or shown()["elapsed"] < 0.05:
        await asyncio.sleep(0.001)
    gate = fleet.gates["b"] = asyncio.Event()
    lease.release()
    while shown()["phase"] != "starting":
        assert shown()["phase"] in ("draining", "checking")
        await asyncio.sleep(0)
    assert shown()["elapsed"] < 0.05
    gate.set()
    (await leased(waiting)).release()
    await c.close(False)


@story
async def test_a_serve_on_its_way_out_is_not_restarted_and_the_asker_knows() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a(), a("b"), max_wait=0.0, drain_timeout=60.0)
    lease = await leased(c.acquire("a"))
    waiting = c.acquire("b")
    assert isinstance(waiting, asyncio.Future)
    while c.scheduler.serves["a"].phase.value != "draining":
        await asyncio.sleep(0.001)
    assert c.restart("a", "wedged") is False
    waiting.cancel()
    await asyncio.sleep(0)
    assert c.restart("a", "wedged") is True
    lease.release()
    await c.close(False)


@story
async def test_a_failed_swap_reports_its_own_error() -> None:
    fleet = FakeFleet()
    fleet.broken["a"] = "CUDA out of memory"
    seen: list[SwapReport] = []
    c = Conductor([Slot("gpu")], [a()], fleet, LoopClock(), swaps_into(seen))
    with pytest.raises(StartFailed):
        await leased(c.acquire("a"))
    assert [(report.outcome, report.error) for report in seen] == [("failed", "CUDA out of memory")]


@story
async def test_an_interrupted_swap_is_recovered_beside_an_adopted_neighbour() -> None:
    fleet = FakeFleet()
    fleet.leftovers = ["small"]
    pages = Pages(SwapEntry("gpu", "b", ("c",)))
    serves = (a("small", memory=2), a("b", memory=5), a("c", memory=5))
    c = Conductor([Slot("gpu", memory=10)], serves, fleet, LoopClock(), journal=pages)
    await c.begin()
    await settled(c, pages)
    assert fleet.journal == ["ready small", "start b", "ready b"]
    await c.close(False)


@story
async def test_a_crash_for_want_of_memory_during_shutdown_starts_no_fallback() -> None:
    fleet = FakeFleet()
    fleet.failures["a"] = "out_of_memory"
    c = conductor(fleet, a(fallback="b"), a("b"))
    lease = await leased(c.acquire("a"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(c.shut_down(0.5))
        await asyncio.sleep(0)
        fleet.die("a")
        lease.release()
    assert "start b" not in fleet.journal
    await c.close(False)


@story
async def test_what_happens_to_a_serve_is_published_in_order() -> None:
    fleet = FakeFleet()
    fleet.leftovers = ["a"]
    events: list[Event] = []
    c = Conductor([], [a(slot=None)], fleet, LoopClock(), events.append)
    await c.begin()
    lease = await leased(c.acquire("a"))
    lease.release()
    fleet.die("a")
    await c.switch("a")
    assert c.restart("a", "it hangs")
    c.park("a", "it hangs again")
    await c.close(False)
    assert [type(event) for event in events if not isinstance(event, SwapEnded)] == [
        ServeAdopted, ServeDisconnected, ServeExited, OperatorActed, ServeRestarted,
        ServeParked,
    ]  # fmt: skip
    assert [event for event in events if isinstance(event, ServeParked)] == [ServeParked("a", "it hangs again")]


@story
async def test_the_fleet_is_busy_while_leases_are_held() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a(max_active=2))
    first, second = await leased(c.acquire("a")), await leased(c.acquire("a"))
    assert fleet.is_busy
    first.release()
    assert fleet.is_busy
    second.release()
    assert not fleet.is_busy
    await leased(c.acquire("a"))
    c.restart("a", "it hangs")
    assert not fleet.is_busy, "its only stream was cut"
    await c.close(False)


@story
async def test_what_a_request_waits_for_is_said_step_by_step_and_nothing_of_a_loaded_serve() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a(), a("b"), drain_timeout=60.0)
    assert c.load_progress("nobody") == ""
    fleet.missing["b"] = asyncio.Event()
    first = await leased(c.acquire("a"))
    assert c.load_progress("a") == ""
    second = c.acquire("b")
    await asyncio.sleep(0)
    assert c.load_progress("b") == "waits for its weights: half of it"
    fleet.missing["b"].set()
    while not c.load_progress("b").startswith("waits for requests"):
        assert c.load_progress("b").startswith("waits ")
        await asyncio.sleep(0.001)
    assert c.load_progress("b") == "waits for requests of a to end"
    gate = fleet.gates["b"] = asyncio.Event()
    first.release()
    while c.load_progress("b") != "is loading":
        await asyncio.sleep(0.001)
    fleet.percents["b"] = 40
    assert c.load_progress("b") == "is loading, 40 %"
    assert c.load_progress("a") == "waits to be loaded"
    gate.set()
    lease = await leased(second)
    assert c.load_progress("b") == ""
    lease.release()
    await c.close(False)


# -- a serve that cannot load ------------------------------------------------------------------------------------------


async def refused(c: Conductor, name: str) -> StokerError:
    with pytest.raises(StartFailed) as failure:
        await leased(c.acquire(name))
    return failure.value


@story
async def test_after_a_failure_that_lasts_four_alternating_requests_start_and_stop_nothing() -> None:
    fleet = FakeFleet()
    fleet.broken["b"], fleet.failures["b"] = "bad magic", "bad_weights"
    c = conductor(fleet, a(), a("b"))
    (await leased(c.acquire("a"))).release()
    assert (await refused(c, "b")).code == "bad_weights"
    while fleet.journal[-1] != "ready a":
        await asyncio.sleep(0)
    before = list(fleet.journal)
    for _ in range(4):
        assert (await refused(c, "b")).code == "cannot_load"
        (await leased(c.acquire("a"))).release()
    assert fleet.journal == before
    assert_nothing_left(c)
    fleet.versions["b"] = 1  # its file was replaced
    del fleet.broken["b"]
    (await leased(c.acquire("b"))).release()
    assert fleet.journal[len(before) :] == ["stop a", "gone a", "start b", "ready b"]
    assert_nothing_left(c)


@story
async def test_what_a_check_finds_is_the_same_state_and_ends_with_the_check() -> None:
    fleet = FakeFleet()
    fleet.lasting["b"], fleet.problems["b"] = ["the weights of serve 'b': /b.gguf is cut off"], ["its port is taken"]
    c = conductor(fleet, a(), a("b"))
    (await leased(c.acquire("a"))).release()
    error = await refused(c, "b")
    assert error.message == "serve 'b' cannot load: /b.gguf is cut off", "its name once"
    fleet.lasting["b"] = ["serve 'b': its weights are cut off"]
    error = await refused(c, "b")
    assert error.code == "cannot_load"
    assert error.message == "serve 'b' cannot load: its weights are cut off"
    shown = {one["name"]: one for one in status_report.serves(c, 0.0)}
    assert (shown["b"]["state"], shown["b"]["cannot_load"]) == ("cannot_load", "its weights are cut off")
    assert (shown["a"]["state"], shown["a"]["cannot_load"]) == ("ready", None)
    assert (c.failure_code("a"), c.failure_code("b")) == ("", "cannot_load"), "clients of llama.cpp's router see it"
    del fleet.lasting["b"]
    assert (await refused(c, "b")).code == "cannot_start", "that one may end by itself"
    assert status_report.serves(c, 0.0)[1]["state"] == "stopped"
    del fleet.problems["b"]
    (await leased(c.acquire("b"))).release()
    assert_nothing_left(c)


def test_files_are_looked_at_again_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.fleet.swapping.conductor.LOOK_AGAIN_AFTER", 0.0)

    async def tell() -> None:
        fleet = FakeFleet()
        fleet.lasting["b"] = ["cut off"]
        c = conductor(fleet, a(), a("b", keep_loaded=True))
        assert (await refused(c, "b")).code == "cannot_load"
        fleet.reading["b"] = asyncio.Event()
        fleet.reading["b"].set()
        del fleet.lasting["b"]
        while "ready b" not in fleet.journal:  # it is to be loaded, and now it can
            await asyncio.sleep(0)
        await c.close(False)

    asyncio.run(tell())


@story
async def test_a_request_that_leaves_while_the_reason_is_found_leaves_nothing() -> None:
    fleet = FakeFleet()
    fleet.gates["b"], fleet.broken["b"], fleet.failures["b"] = asyncio.Event(), "bad magic", "bad_weights"
    c = conductor(fleet, a(), a("b"))
    waiting = c.acquire("b")
    assert isinstance(waiting, asyncio.Future)
    await asyncio.sleep(0)
    waiting.cancel()
    fleet.gates["b"].set()
    while c.statistics()["swaps"]:
        await asyncio.sleep(0)
    assert (await refused(c, "b")).code == "cannot_load"
    assert_nothing_left(c)


@story
async def test_an_operator_tries_it_again_and_the_state_follows_what_comes_of_it() -> None:
    fleet = FakeFleet()
    fleet.broken["b"], fleet.failures["b"] = "unknown option", "bad_option"
    c = conductor(fleet, a(), a("b"))
    for _ in range(2):
        with pytest.raises(StartFailed) as failure:
            await c.switch("b")
        assert failure.value.code == "bad_option"
        assert (await refused(c, "b")).code == "cannot_load"
    assert fleet.journal.count("start b") == 2
    del fleet.broken["b"]
    await c.switch("b")
    (await leased(c.acquire("b"))).release()
    assert_nothing_left(c)


@story
async def test_one_that_is_to_be_kept_loaded_and_cannot_is_not_tried_again_and_again() -> None:
    fleet = FakeFleet()
    fleet.lasting["b"] = ["its weights are cut off"]
    c = conductor(fleet, a(), a("b", keep_loaded=True))
    await c.begin()
    while status_report.serves(c, 0.0)[1]["state"] == "starting":
        await asyncio.sleep(0)
    shown = status_report.serves(c, 0.0)[1]
    assert (shown["state"], shown["cannot_load"]) == ("cannot_load", "its weights are cut off")
    del fleet.lasting["b"]
    (await leased(c.acquire("b"))).release()
    assert fleet.journal == ["start b", "ready b"]
    assert_nothing_left(c)


@story
async def test_a_check_that_a_reload_overtook_says_nothing_of_the_new_model() -> None:
    fleet = FakeFleet()
    fleet.lasting["b"], fleet.reading["b"] = ["its weights are cut off"], asyncio.Event()
    c = conductor(fleet, a("b"))
    waiting = asyncio.get_running_loop().create_task(leased(c.acquire("b")))
    await asyncio.sleep(0)
    c.reload([Slot("gpu")], [a("b", model="/whole.gguf")])
    del fleet.lasting["b"]
    fleet.reading.pop("b").set()
    (await waiting).release()
    assert fleet.journal == ["start b", "ready b"]
    assert_nothing_left(c)


@story
async def test_a_check_during_the_drain_that_finds_it_spares_the_resident() -> None:
    fleet = FakeFleet()
    c = conductor(fleet, a(), a("b"), drain_timeout=5.0)
    running = await leased(c.acquire("a"))
    switching = asyncio.get_running_loop().create_task(c.switch("b"))
    fleet.reading["b"] = asyncio.Event()
    await asyncio.sleep(0)
    fleet.lasting["b"] = ["it was truncated meanwhile"]
    fleet.reading["b"].set()
    with pytest.raises(StartFailed, match="cannot load: it was truncated meanwhile"):
        await switching
    assert status_report.serves(c, 0.0)[1]["state"] == "cannot_load"
    assert fleet.journal == ["start a", "ready a"]
    running.release()
    assert_nothing_left(c)
