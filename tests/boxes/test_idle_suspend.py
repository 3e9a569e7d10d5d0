"""The machine sleeps only when nothing is asked for, and everything comes back: on a fake clock, with a fake fleet."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.scenarios.caller import story

from stoker.domain.key import Priority
from stoker.domain.lease import Lease
from stoker.domain.serve import Serve, Slot
from stoker.fleet.swapping.conductor import Conductor
from stoker.request.lease.state import PauseCause
from stoker_boxes.idle import Activity, IdleState, has_slept, is_due, next_state
from stoker_boxes.suspend import IdleSuspender, run_bounded
from stoker_boxes.table import IdleSuspend
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.fleet import FakeFleet

SETTINGS = IdleSuspend(command=("sleep-now",), after=600.0)
NOTHING = Activity(float("-inf"))


class TestTheDecision:
    @pytest.mark.parametrize(
        ("seen", "expected"),
        [
            (Activity(5.0, requests=1), IdleState(100.0, 5.0)),
            (Activity(50.0), IdleState(100.0, 50.0)),
            (Activity(5.0, work="a load"), IdleState(100.0, 5.0, was_tried=True)),
            (Activity(5.0), IdleState(10.0, 5.0, was_tried=True)),
        ],
    )
    def test_requests_begin_it_anew_and_other_work_only_puts_it_off(self, seen: Activity, expected: IdleState) -> None:
        assert next_state(IdleState(10.0, 5.0, was_tried=True), seen, 100.0) == expected

    def test_it_is_due_once_after_the_time(self) -> None:
        assert not is_due(IdleState(10.0, 5.0), 100.0, 109.9)
        assert is_due(IdleState(10.0, 5.0), 100.0, 110.0)
        assert not is_due(IdleState(10.0, 5.0, was_tried=True), 100.0, 1000.0)

    def test_a_sleep_is_seen_by_the_two_clocks(self) -> None:
        assert has_slept(1000.0, 1060.0)
        assert not has_slept(1000.0, 1000.5)


class SleepingClock(FakeClock):
    """Wall time goes on while the machine sleeps."""

    slept = 0.0

    def wall(self) -> float:
        return super().wall() + self.slept


class Machine:
    """A conductor with one serve, its suspender, and a command that the test carries out."""

    def __init__(self) -> None:
        self.clock = SleepingClock()
        self.fleet = FakeFleet()
        self.conductor = Conductor([Slot("gpu0")], [Serve("a", slot="gpu0")], self.fleet, self.clock)
        self.notes: list[str] = []
        self.work = ""
        self.commands = 0
        self.during: Callable[[], Awaitable[str]] = self.sleeps
        self.suspender = IdleSuspender(
            self.conductor, self.clock, lambda: self.work, self._note, self._run, self._pass_time
        )
        self.suspender.configure(SETTINGS)

    def _note(self, kind: str, serve: str, text: str) -> None:
        self.notes.append(kind)

    async def _run(self, settings: IdleSuspend) -> str:
        self.commands += 1
        return await self.during()

    async def _pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    async def sleeps(self) -> str:
        """The command succeeds, and the machine sleeps for an hour."""
        self.clock.slept += 3600
        return ""

    async def ask(self) -> None:
        got = self.conductor.acquire("a")
        lease = got if isinstance(got, Lease) else await got
        self.clock.advance(1)
        lease.release()

    async def idle(self, seconds: float) -> None:
        await self.suspender.look_once()
        self.clock.advance(seconds)
        await self.suspender.look_once()


async def _settled() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


@story
async def test_models_end_first_and_come_back_when_it_is_awake() -> None:
    machine = Machine()
    await machine.ask()
    loaded: list[bool] = []

    async def sleeps() -> str:
        loaded.append("a" in machine.fleet.alive)
        return await machine.sleeps()

    machine.during = sleeps
    await machine.idle(599)
    assert machine.commands == 0
    await machine.idle(600)
    assert (machine.commands, loaded) == (1, [False])
    await _settled()
    assert "a" in machine.fleet.alive
    assert machine.notes == ["suspending", "awake"]
    await machine.idle(600)
    assert machine.commands == 2


@story
@pytest.mark.parametrize("what", ["request", "work", "load"])
async def test_never_during_work(what: str) -> None:
    machine = Machine()
    machine.work = "a benchmark" if what == "work" else ""
    if what == "load":
        machine.fleet.gates["a"] = asyncio.Event()
    got = machine.conductor.acquire("a") if what != "work" else None
    lease = await got if what == "request" and not isinstance(got, Lease) and got is not None else None
    for _ in range(5):
        await machine.idle(600)
    assert machine.commands == 0
    if isinstance(lease, Lease):
        lease.release()
    await machine.conductor.shut_down(0)


@story
async def test_a_request_before_the_command_calls_it_off_and_is_answered() -> None:
    machine = Machine()
    await machine.ask()
    asked: list[asyncio.Task[None]] = []
    pause = machine.conductor.pause

    def pause_and_ask(*given: object) -> None:
        pause(*given)  # type: ignore[arg-type]
        asked.append(asyncio.get_running_loop().create_task(machine.ask()))

    machine.conductor.pause = pause_and_ask  # type: ignore[method-assign, assignment]
    await machine.idle(600)
    await asyncio.gather(*asked)
    assert machine.commands == 0
    assert machine.notes == ["suspending", "suspend_cancelled"]


@story
async def test_a_request_during_the_command_ends_it() -> None:
    machine = Machine()
    await machine.ask()
    asked: list[asyncio.Task[None]] = []

    async def hangs() -> str:
        asked.append(asyncio.get_running_loop().create_task(machine.ask()))
        await asyncio.Event().wait()
        return ""

    machine.during = hangs
    await machine.idle(600)
    await asyncio.gather(*asked)
    assert machine.notes == ["suspending", "suspend_cancelled"]


@story
@pytest.mark.parametrize("when", ["while models end", "while the command runs"])
@pytest.mark.parametrize("what", ["work", "pause", "settings"])
async def test_what_begins_before_the_command_has_ended_calls_it_off(what: str, when: str) -> None:
    machine = Machine()
    await machine.ask()
    pause = machine.conductor.pause

    def begin() -> None:
        if what == "work":
            machine.work = "weights of big are downloaded"
        elif what == "pause":
            pause("gpu0", PauseCause.PROGRAM, "a game runs")
        else:
            machine.suspender.configure(None)

    def pause_and_begin(*given: object) -> None:
        pause(*given)  # type: ignore[arg-type]
        begin()

    async def hangs() -> str:
        begin()
        await asyncio.Event().wait()
        return ""

    if when == "while models end":
        machine.conductor.pause = pause_and_begin  # type: ignore[method-assign, assignment]
    machine.during = hangs
    await machine.idle(600)
    assert machine.commands == (when == "while the command runs")
    assert machine.notes == ["suspending", "suspend_cancelled"]
    await machine.conductor.shut_down(0)


@story
@pytest.mark.parametrize("cause", [PauseCause.PROGRAM, PauseCause.OPERATOR])
async def test_a_device_that_was_handed_to_somebody_else_is_in_use(cause: PauseCause) -> None:
    machine = Machine()
    await machine.ask()
    machine.conductor.pause("gpu0", cause, "a game runs")
    await _settled()
    await machine.idle(600)
    assert machine.commands == 0
    machine.conductor.resume("gpu0", cause, "it is gone")
    await machine.idle(600)
    assert machine.commands == 1
    await machine.conductor.shut_down(0)


@story
async def test_background_requests_are_requests() -> None:
    machine = Machine()
    await machine.ask()
    for _ in range(30):
        await machine.suspender.look_once()
        got = machine.conductor.acquire("a")
        lease = got if isinstance(got, Lease) else await got
        machine.conductor.allow_preemption(lease, Priority.BACKGROUND)
        machine.clock.advance(1)
        lease.release()
        machine.clock.advance(29)
    assert machine.commands == 0
    await machine.conductor.shut_down(0)


@story
async def test_a_switch_during_the_command_calls_it_off_as_a_request_does() -> None:
    machine = Machine()
    await machine.ask()
    switching: list[asyncio.Task[object]] = []

    async def hangs() -> str:
        switching.append(asyncio.get_running_loop().create_task(machine.conductor.switch("a")))
        await asyncio.Event().wait()
        return ""

    machine.during = hangs
    await machine.idle(600)
    await asyncio.gather(*switching)
    assert "a" in machine.fleet.alive
    assert machine.notes == ["suspending", "suspend_cancelled"]
    await machine.conductor.shut_down(0)


@story
async def test_a_look_that_fails_is_followed_by_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    looks: list[None] = []
    done = asyncio.Event()

    async def look_once() -> None:
        looks.append(None)
        if len(looks) > 1:
            done.set()
        raise PermissionError(1, "Operation not permitted")

    machine.suspender.look_once = look_once  # type: ignore[method-assign]
    running = asyncio.get_running_loop().create_task(machine.suspender.run())
    async with asyncio.timeout(10):
        await done.wait()
    running.cancel()
    assert "Operation not permitted" in caplog.text


@story
async def test_a_command_of_another_user_that_cannot_be_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `sudo`: only root may end it."""
    pids: list[int] = []
    kill = os.killpg

    def refuse(group: int, signal: int) -> None:
        pids.append(group)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refuse)
    said = await run_bounded(IdleSuspend(command=("sleep", "60"), timeout=0.2))
    assert said.endswith("could not be ended: it runs as another user")
    kill(pids[0], 9)
    while Path(f"/proc/{pids[0]}").exists():
        await asyncio.sleep(0.01)
    await _settled()


@story
async def test_a_failure_is_told_once_and_not_repeated_before_the_next_request() -> None:
    machine = Machine()
    await machine.ask()

    async def fails() -> str:
        return "`sleep-now` ended with code 1"

    machine.during = fails
    await machine.idle(600)
    await _settled()
    assert "a" in machine.fleet.alive
    for _ in range(5):
        await machine.idle(600)
    assert (machine.commands, machine.notes) == (1, ["suspending", "suspend_failed"])
    await machine.ask()
    await machine.idle(600)
    assert machine.commands == 2


@story
async def test_a_command_after_which_the_machine_does_not_sleep_is_a_failure() -> None:
    machine = Machine()
    await machine.ask()

    async def does_nothing() -> str:
        return ""

    machine.during = does_nothing
    await machine.idle(600)
    assert machine.notes == ["suspending", "suspend_failed"]


@story
async def test_the_command_is_bounded_with_all_that_it_started(tmp_path: Path) -> None:
    child = tmp_path / "pid"
    said = await run_bounded(IdleSuspend(command=("sh", "-c", f"sleep 60 & echo $! > {child}; wait"), timeout=1.0))
    assert "did not end within 1" in said
    pid = int(child.read_text())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            break
        time.sleep(0.02)
    else:
        os.kill(pid, 9)
        pytest.fail("its child lives")
    assert "cannot be run" in await run_bounded(IdleSuspend(command=("/nonexistent/x",)))
    said = await run_bounded(IdleSuspend(command=("sh", "-c", "echo no such state; exit 3")))
    assert said.endswith("ended with code 3: no such state")
    assert await run_bounded(IdleSuspend(command=("true",))) == ""
