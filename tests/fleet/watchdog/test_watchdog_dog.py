"""The loop: whom it looks at and when, what it concludes, what it does; told with a clock that tests move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from stoker.domain.access import Watchdog
from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.domain.serve import Driver, Serve
from stoker.engines.signals import Signals
from stoker.fleet.memory.engaged import EngagedDevices
from stoker.fleet.watchdog.probe import NO_COUNTERS, HostState, Listing
from stoker.fleet.watchdog.watchdog import HOST_STATE_EVERY, WatchdogLoop
from stoker_lab.testing.clock import FakeClock

SETTINGS = Watchdog(interval=10.0, stall=120.0, restarts=2, window=600.0)
GOOD = HostState(missing=(), differences=())
STRANGE = HostState(missing=(), differences=("its environment differs in X",))


class World:
    """Sees, Probe and Acts in one: serves answer as they are set, and what was asked and done is written down."""

    def __init__(self, settings: Watchdog = SETTINGS) -> None:
        self.clock = FakeClock()
        self.serves: dict[str, Running] = {}
        self.work: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self.asleep: set[str] = set()
        self.listing: dict[str, Listing] = {}
        self.counts: dict[str, Signals] = {}
        self.host_states: dict[str, HostState] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.asked: list[tuple[float, str]] = []
        self.at_once: dict[str, int] = {}
        self.done: list[str] = []
        self.dog = WatchdogLoop(settings, self, self, self, self.clock, logging.getLogger("test.watchdog"), self._pause)
        self._until = 0.0
        self._reached, self._go = asyncio.Event(), asyncio.Event()

    def start(self, name: str, **fields: Any) -> None:
        serve = Serve(name=name, **fields)
        self.serves[name] = Running(serve, Target("127.0.0.1", 1, "", name), None, 0.0, {})
        self.listing[name] = Listing((name,))
        self.host_states[name] = GOOD

    # -- Sees

    def running(self) -> dict[str, Running]:
        return self.serves

    def in_flight(self, name: str) -> int:
        return self.work.get(name, 0)

    def relayed(self, name: str) -> int | None:
        return self.bytes.get(name)

    def is_asleep(self, name: str) -> bool:
        return name in self.asleep

    # -- Probe

    async def models(self, running: Running) -> Listing:
        name = running.serve.name
        self.asked.append((self.clock.now(), name))
        self.at_once[name] = self.at_once.get(name, 0) + 1
        assert self.at_once[name] == 1, "two looks at the same serve at once"
        try:
            if name in self.gates:
                await self.gates[name].wait()
            return self.listing[name]
        finally:
            self.at_once[name] -= 1

    async def counters(self, running: Running) -> Signals:
        self.asked.append((self.clock.now(), f"{running.serve.name} counters"))
        return self.counts.get(running.serve.name, NO_COUNTERS)

    async def host_state(self, running: Running) -> HostState:
        self.asked.append((self.clock.now(), f"{running.serve.name} host_state"))
        return self.host_states[running.serve.name]

    # -- Acts

    def restart(self, name: str, reason: str) -> bool:
        self.done.append(f"restart {name}: {reason}")
        return True

    def park(self, name: str, reason: str) -> None:
        self.done.append(f"park {name}: {reason}")

    def report(self, name: str, reason: str) -> None:
        self.done.append(f"report {name}: {reason}")

    # -- time

    async def _pause(self, seconds: float) -> None:
        """The dog's own sleep moves the clock, until `pass_` has what it asked for."""
        for _ in range(5):  # the looks that were just begun
            await asyncio.sleep(0)
        if self.clock.now() + seconds > self._until:
            self.clock.advance(self._until - self.clock.now())
            self._reached.set()
            self._go.clear()
            await self._go.wait()
            return
        self.clock.advance(seconds)

    async def pass_(self, seconds: float) -> None:
        self._until = self.clock.now() + seconds
        self._reached.clear()
        self._go.set()
        await self._reached.wait()

    def health(self, name: str = "a") -> str:
        return str(self.dog.report(name)["health"])


Story = Callable[[World], Coroutine[Any, Any, None]]


def tell(story: Story, settings: Watchdog = SETTINGS) -> World:
    """Runs a story while the dog is loose; afterwards no task of it is left."""

    async def whole() -> World:
        world = World(settings)
        dog = asyncio.get_running_loop().create_task(world.dog.run())
        telling = asyncio.get_running_loop().create_task(story(world))
        await asyncio.wait([dog, telling], timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert not dog.done(), dog.exception()
        telling.result()
        dog.cancel()
        await asyncio.wait([dog])
        assert dog.cancelled()
        assert len(asyncio.all_tasks()) == 1, "tasks are left behind"
        return world

    return asyncio.run(whole())


def test_a_serve_that_is_what_it_should_be_is_verified_with_the_time_of_the_last_proof() -> None:
    async def story(world: World) -> None:
        world.start("a")
        assert world.dog.report("a")["verified_at"] is None
        assert world.health() == "unknown"
        await world.pass_(60)
        report = world.dog.report("a")
        assert report["health"] == "verified"
        assert world.clock.wall() - report["verified_at"] <= SETTINGS.interval
        assert {finding["ok"] for finding in report["findings"]} == {True}

    assert tell(story).done == []


def test_looks_are_an_interval_apart_and_staggered_and_a_quiet_serve_costs_one_request_each() -> None:
    async def story(world: World) -> None:
        for name in "abcd":
            world.start(name)
        await world.pass_(200)
        firsts = []
        for name in "abcd":
            times = [at for at, asked in world.asked if asked == name]
            firsts.append(times[0])
            assert {round(later - sooner, 6) for sooner, later in pairwise(times)} == {10.0}
        gaps = [later - sooner for sooner, later in pairwise(sorted(firsts))]
        assert min(gaps) > 1.0
        assert not [asked for _, asked in world.asked if asked.endswith("counters")]
        times = [at for at, asked in world.asked if asked == "a host_state"]
        assert min(b - a for a, b in pairwise(times)) >= HOST_STATE_EVERY

    tell(story)


def test_a_look_that_hangs_holds_up_no_other_serve_and_is_not_repeated_meanwhile() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.start("b")
        world.gates["a"] = asyncio.Event()
        await world.pass_(100)
        assert [asked for _, asked in world.asked].count("a") == 1
        assert world.health("b") == "verified"
        assert world.health("a") == "unknown"
        world.gates.pop("a").set()
        await world.pass_(30)
        assert world.health("a") == "verified"

    tell(story)


def test_a_single_miss_is_unknown_and_three_in_a_row_restart_once() -> None:
    async def story(world: World) -> None:
        world.start("a")
        await world.pass_(30)
        world.listing["a"] = Listing(None, miss="nothing listens on port 1")
        await world.pass_(10)
        assert world.health() == "unknown"
        assert world.dog.report("a")["verified_at"] is not None, "when it was last verified is still said"
        await world.pass_(20)
        assert world.health() == "sick"
        await world.pass_(500)
        assert len(world.done) == 1, "this start of it was restarted already"
        assert "answers: 3 probes in a row without an answer" in world.done[0]
        assert "nothing listens on port 1" in world.done[0]
        assert world.dog.report("a")["restarts"] == 1

    tell(story)


def test_an_answer_in_between_ends_the_count_of_misses() -> None:
    async def story(world: World) -> None:
        world.start("a")
        for _ in range(5):
            world.listing["a"] = Listing(None, miss="late")
            await world.pass_(20)
            world.listing["a"] = Listing(("a",))
            await world.pass_(10)

    assert tell(story).done == []


def test_another_id_restarts_and_one_restart_too_many_parks() -> None:
    async def story(world: World) -> None:
        for _ in range(3):
            world.start("a")
            world.listing["a"] = Listing(("b",))
            await world.pass_(60)
        assert [done.partition(":")[0] for done in world.done] == ["restart a", "restart a", "park a"]
        assert "restarted 2 times within 600 s" in world.done[2]
        assert "stoker serves up a" in world.done[2]
        assert world.dog.report("a")["parked"] in world.done[2]
        world.dog.forget("a")
        assert world.dog.report("a")["parked"] is None
        world.start("a")
        world.listing["a"] = Listing(("b",))
        await world.pass_(20)
        assert world.done[3].startswith("restart a"), "its owner started it: it has its budget again"

    tell(story)


def test_a_second_restart_waits_for_its_back_off() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.listing["a"] = Listing(("b",))
        await world.pass_(2)
        for _ in range(2):
            while len(world.done) == 0:
                await world.pass_(1)
            world.start("a")
            world.listing["a"] = Listing(("b",))
            restarted = world.clock.now()
            await world.pass_(2)
        while len(world.done) < 2:
            await world.pass_(1)
            assert world.clock.now() < restarted + 40
        assert world.clock.now() >= restarted + 8

    tell(story, Watchdog(interval=1.0, restarts=5))


def test_ends_that_nobody_asked_for_are_counted_and_park_at_last() -> None:
    async def story(world: World) -> None:
        world.dog.exited("a", "was ended by SIGKILL")
        world.dog.exited("a", "was ended by SIGKILL")
        assert world.done == []
        assert world.dog.report("a")["restarts"] == 2
        world.dog.exited("a", "was ended by SIGKILL")
        assert world.done[0].startswith("park a: serve 'a' exited again (was ended by SIGKILL): it was restarted")

    tell(story)


def test_what_a_restart_does_not_cure_is_reported_once_and_nothing_is_done(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.host_states["a"] = STRANGE
        await world.pass_(100)
        assert world.health() == "sick"
        assert world.dog.report("a")["act"] == "report"
        world.host_states["a"] = GOOD
        await world.pass_(100)
        assert world.health() == "verified"

    with caplog.at_level(logging.INFO, "test.watchdog"):
        assert tell(story).done == ["report a: profile: its environment differs in X"]
    assert [record.getMessage() for record in caplog.records] == [
        "serve a is sick, but goes on running: profile: its environment differs in X",
        "serve a is not sick any more",
    ]


def test_what_stays_wrong_through_ends_starts_and_sleep_is_reported_once_until_it_holds_again() -> None:
    idle = HostState(EngagedDevices(("0",), frozenset("1")), (), ())

    async def story(world: World) -> None:
        for _ in range(3):
            world.start("a")
            world.host_states["a"] = idle
            await world.pass_(100)
            assert world.health() == "sick"
            world.asleep = {"a"}
            await world.pass_(100)
            world.asleep = set()
            await world.pass_(100)
            del world.serves["a"]
            await world.pass_(30)
        assert len(world.done) == 1
        world.start("a")
        await world.pass_(100)
        assert world.health() == "verified"
        world.host_states["a"] = idle
        await world.pass_(100)
        assert len(world.done) == 2, "it held in the meantime"
        world.dog.forget("a")
        await world.pass_(100)
        assert len(world.done) == 3, "somebody started it, or changed its configuration"

    assert set(tell(story).done) == {"report a: devices: 0 of 0 are not used by it"}


def test_a_serve_that_somebody_else_runs_is_never_restarted() -> None:
    async def story(world: World) -> None:
        world.start("a", driver=Driver.EXTERNAL)
        world.listing["a"] = Listing(("b",))
        await world.pass_(100)
        assert world.health() == "sick"

    assert tell(story).done == ["report a: exact_id: wanted 'a', GET /v1/models shows 'b'"]


def test_work_without_progress_restarts_after_stall_where_the_engine_shows_prompts_and_later_where_not() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.start("b")
        world.work = {"a": 1, "b": 1}
        world.bytes = {"a": 7, "b": 7}
        world.counts["a"] = Signals(steps=3, running=1)
        await world.pass_(119)
        assert world.done == []
        await world.pass_(31)
        assert [done.partition(":")[0] for done in world.done] == ["restart a"]
        await world.pass_(205)
        assert len(world.done) == 1
        await world.pass_(30)
        assert [done.partition(":")[0] for done in world.done] == ["restart a", "restart b"]

    tell(story)


def test_a_long_prompt_that_moves_and_a_stream_that_flows_are_left_alone() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.start("b")
        world.work = {"a": 1, "b": 1}
        for step in range(100):
            world.counts["a"] = Signals(steps=step, running=1)
            world.bytes["b"] = step
            await world.pass_(10)
        assert (world.health("a"), world.health("b")) == ("verified", "verified")

    assert tell(story).done == []


def test_without_an_interval_nothing_is_asked_and_progress_is_still_watched() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.work["a"] = 1
        await world.pass_(300)
        assert world.asked == []
        assert world.health() == "unknown"
        await world.pass_(150)
        assert world.done[0].startswith("restart a: progress: 1 in flight")

    tell(story, Watchdog(interval=0.0, stall=120.0))


def test_what_is_seen_of_a_start_that_is_over_counts_for_nothing() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.gates["a"] = asyncio.Event()
        await world.pass_(20)
        gate = world.gates.pop("a")
        world.listing["a"] = Listing(("b",))
        del world.serves["a"]
        gate.set()
        await world.pass_(20)
        assert world.dog.report("a")["findings"] == []

    assert tell(story).done == []


def test_a_sleeping_serve_is_asked_for_no_devices_and_no_progress() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.asleep.add("a")
        world.host_states["a"] = HostState(EngagedDevices(("0",), frozenset()), (), ())
        await world.pass_(30)
        assert world.health() == "verified"

    tell(story)


def test_what_was_found_long_ago_is_unknown_now() -> None:
    async def story(world: World) -> None:
        world.start("a")
        await world.pass_(20)
        assert world.health() == "verified"
        world.gates["a"] = asyncio.Event()
        await world.pass_(100)
        report = world.dog.report("a")
        assert (report["health"], report["findings"], report["looked_at"]) == ("unknown", [], None)
        assert report["verified_at"] is not None
        world.gates["a"].set()

    tell(story)


def test_a_bug_in_one_look_is_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.start("b")
        del world.listing["a"]
        await world.pass_(30)
        assert world.health("b") == "verified"

    tell(story)
    assert "the watchdog of serve a failed inside Stoker" in caplog.text


def test_cancelling_the_dog_ends_a_look_under_way() -> None:
    async def story(world: World) -> None:
        world.start("a")
        world.gates["a"] = asyncio.Event()
        await world.pass_(20)
        assert world.at_once["a"] == 1

    assert tell(story).at_once["a"] == 0
