"""The warm pool with a real holder: what it brings in, what it tells, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import uvloop
from tests.fleet.conftest import holdings

from stoker.domain.access import WarmPool
from stoker.domain.prediction import Prediction
from stoker.domain.prediction import PredictionReason as Why
from stoker.domain.serve import Serve, Warmth
from stoker.fleet.warm import keeper as module
from stoker.fleet.warm import pages
from stoker.fleet.warm.holder import HoldRequest
from stoker.fleet.warm.keeper import WarmKeeper, next_pause
from stoker.fleet.warm.pool import WarmStatistics
from stoker.system.memory import MainMemory

MIB = 2**20
Write = Callable[..., str]
Story = Callable[[], Awaitable[None]]
LOG = logging.getLogger("test.warm")


@pytest.fixture(params=["asyncio", "uvloop"])
def tell(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Runs a story; afterwards no process, descriptor or task of it may be left."""
    make = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    async def whole(story: Story) -> None:
        first = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
        assert first.stdin is not None
        first.stdin.close()
        await first.stdin.wait_closed()
        await first.wait()
        before = holdings()  # only now: uvloop keeps one descriptor from its first child on
        async with asyncio.timeout(40):
            await story()
            await until(lambda: holdings().are_none_but(before))
        assert len(asyncio.all_tasks()) == 1, "tasks are left behind"

    def run(story: Story) -> None:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(whole(story))

    return run


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for it; the story's own time limit bounds it."""
    while not is_so():
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def kept(*serves: Serve, budget: int = 100 * MIB, **options: Any):
    keeper = WarmKeeper(budget, serves, LOG, **options)
    try:
        yield keeper
    finally:
        await keeper.close()


def serve(name: str, path: str, **fields: Any) -> Serve:
    return Serve(name, model=path, slot="gpu0", **fields)


def read(keeper: WarmKeeper) -> dict[str, int | None]:
    """Bytes that the holder brought in, by serve."""
    return {one.serve: one.read for one in keeper.statistics().warm}


def why(keeper: WarmKeeper) -> dict[str, str]:
    """What has it expected, by serve."""
    return {one.serve: one.why for one in keeper.statistics().warm}


def test_what_left_stays_in_memory_and_a_start_finds_it_warm(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        a = serve("a", write("a.gguf", MIB))
        async with kept(a, predict=False) as keeper:
            assert await keeper.start_kind(a) == "cold"
            assert keeper.on_stopped(a) == ()
            await until(lambda: read(keeper) == {"a": MIB})
            pages.evict(a.model)
            assert await keeper.start_kind(a) == "warm", "what is held is not evicted"
            keeper.on_started(a)
            assert keeper.statistics().warm == ()

    tell(story)


def test_pins_are_brought_in_from_the_beginning(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        async with kept(serve("p", write("p.gguf", MIB), warm=Warmth.PIN), serve("a", write("a.gguf", MIB))) as keeper:
            await until(lambda: read(keeper) == {"p": MIB})
            assert [(one.how, one.pinned) for one in keeper.statistics().warm] == [("pages", True)]

    tell(story)


def test_the_model_that_followed_before_is_brought_in_ahead(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        a, b, c = (serve(name, write(f"{name}.gguf", MIB)) for name in "abc")
        async with kept(a, b, c, budget=MIB) as keeper:
            for before, after in ((a, b), (b, c), (c, a), (a, b)):
                keeper.on_stopped(before)
                keeper.on_started(after)
            pages.evict(c.model)
            await until(lambda: read(keeper) == {"c": MIB})
            assert await keeper.start_kind(c) == "warm"
            keeper.on_started(c)
            assert keeper.statistics().predictions == {"hit": 2, "miss": 1, "none": 1}

    tell(story)


def test_without_prediction_nothing_is_brought_in_ahead(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        a, b = (serve(name, write(f"{name}.gguf", MIB)) for name in "ab")
        async with kept(a, b, predict=False) as keeper:
            for one in (a, b, a):
                keeper.on_started(one)
            assert read(keeper) == {}
            assert keeper.statistics().predictions == {"hit": 0, "miss": 0, "none": 0}
            assert keeper.statistics().holder is None, "no process without work"

    tell(story)


def test_slots_are_predicted_apart(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        a, b = (serve(name, write(f"{name}.gguf", MIB)) for name in "ab")
        other = Serve("o", model=write("o.gguf", MIB), slot="gpu1")
        async with kept(a, b, other) as keeper:
            for one in (a, other, b):
                keeper.on_started(one)
            keeper.on_stopped(a)
            keeper.on_started(b)
            assert keeper.statistics().predictions == {"hit": 0, "miss": 0, "none": 1}
            await until(lambda: read(keeper) == {"a": MIB})

    tell(story)


def test_what_routing_foresees_is_brought_in_before_habit_and_each_says_why(
    tell: Callable[[Story], None], write: Write
) -> None:
    async def story() -> None:
        a, b, c, d = (serve(name, write(f"{name}.gguf", MIB)) for name in "abcd")
        foreseen: list[Prediction] = []
        async with kept(a, b, c, d, budget=2 * MIB, predictions=lambda: foreseen) as keeper:
            for before, after in ((d, a), (a, b)):
                keeper.on_stopped(before)
                keeper.on_started(after)
            assert why(keeper) == {"d": "", "a": "frequency"}, "d is there because it was used"
            foreseen += [
                ("c", Why.RULE),
                ("b", Why.PATTERN),
                ("cloud", Why.PATTERN),
            ]
            assert keeper.on_predictions_changed() == ()
            assert why(keeper) == {"c": "rule", "a": "frequency"}, "b is in the slot, and the cloud in none"
            await until(lambda: read(keeper) == {"c": MIB, "a": MIB})
            keeper.on_stopped(b)
            keeper.on_started(c)
            assert keeper.statistics().predictions == {"hit": 1, "miss": 0, "none": 1}
            assert why(keeper)["b"] == "pattern"

    tell(story)


def test_a_sleeper_is_ended_for_what_is_foreseen(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        a, s = serve("a", write("a.gguf", MIB)), serve("s", "org/s")
        async with kept(a, s, budget=MIB, predictions=lambda: [("a", Why.RULE)]) as keeper:
            keeper.on_stopped(s, asleep=MIB)
            assert keeper.on_predictions_changed() == ("s",)

    tell(story)


def test_without_prediction_nothing_is_foreseen_and_a_reload_turns_it_on(
    tell: Callable[[Story], None], write: Write
) -> None:
    async def story() -> None:
        a = serve("a", write("a.gguf", MIB))
        async with kept(a, predict=False, predictions=lambda: [("a", Why.RULE)]) as keeper:
            keeper.on_predictions_changed()
            assert why(keeper) == {}
            keeper.reload(MIB, (a,), predict=True)
            assert why(keeper) == {"a": "rule"}
            keeper.reload(MIB, (a,), predict=False)
            assert why(keeper) == {"a": ""}

    tell(story)


def test_the_holder_is_told_to_pause_while_anybody_is_busy(
    tell: Callable[[Story], None], write: Write, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"

    def told() -> list[HoldRequest]:
        return [msgspec.json.decode(line, type=HoldRequest) for line in lines.read_bytes().splitlines()]

    async def story() -> None:
        lines.touch()
        a, b = serve("a", write("a.gguf", MIB)), serve("b", write("b.gguf", MIB))
        command = (sys.executable, "-c", "import sys; list(map(open(sys.argv[1], 'wb', 0).write, sys.stdin.buffer))")
        async with kept(a, b, predict=False, command=(*command, str(lines))) as keeper:
            keeper.set_busy(True)
            keeper.set_busy(True)
            keeper.on_stopped(a)
            await until(lambda: told() == [HoldRequest((a.model,), pause=True)])
            keeper.set_busy(False)
            keeper.on_stopped(b)
            await until(lambda: told()[1:] == [HoldRequest((b.model, a.model), pause=True)])
            assert keeper.statistics().is_paused
            keeper.set_busy(False)
            await until(lambda: told()[2:] == [HoldRequest((b.model, a.model), pause=False)])

    tell(story)


def test_a_holder_that_was_killed_is_replaced_and_holds_again(
    tell: Callable[[Story], None], write: Write, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)

    async def story() -> None:
        a = serve("a", write("a.gguf", MIB))
        async with kept(a) as keeper:
            keeper.on_stopped(a)
            await until(lambda: read(keeper) == {"a": MIB})
            first = keeper.statistics().holder
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await until(lambda: keeper.statistics().restarts == 1)
            await until(lambda: read(keeper) == {"a": MIB})
            assert keeper.statistics().holder not in (None, first)
        assert "was ended by SIGKILL" in caplog.text

    tell(story)


def test_a_holder_that_cannot_be_started_is_told_and_tried_again(
    tell: Callable[[Story], None], write: Write, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []

    def next_pause(pause: float, lived: float) -> float:
        pauses.append(pause)
        return len(pauses) / 1000

    monkeypatch.setattr(module, "next_pause", next_pause)

    async def story() -> None:
        a = serve("a", write("a.gguf", MIB, cached=True))
        async with kept(a, command=("/nowhere/holder",)) as keeper:
            keeper.on_stopped(a)
            await until(lambda: keeper.statistics().restarts >= 3)
            assert pauses[:3] == [0.0, 0.001, 0.002]
            assert await keeper.start_kind(a) == "warm", "the pool goes on without it"
        assert "cannot be started" in caplog.text

    tell(story)


def test_holders_that_end_soon_come_ever_more_seldom_and_one_that_lived_is_forgiven() -> None:
    pauses = [0.0]
    for _ in range(8):
        pauses.append(next_pause(pauses[-1], lived=1.0))
    assert pauses[1:] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert next_pause(60.0, lived=61.0) == 1.0


def test_a_file_that_cannot_be_held_shows_why(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        a = serve("a", write("a.gguf", MIB))
        async with kept(a) as keeper:
            keeper.set_busy(True)
            keeper.on_stopped(a)
            os.unlink(a.model)
            keeper.set_busy(False)
            await until(lambda: any(one.problem for one in keeper.statistics().warm))

    tell(story)


@pytest.mark.parametrize("rounds", range(4))
def test_a_cancel_at_any_moment_leaves_no_holder(tell: Callable[[Story], None], write: Write, rounds: int) -> None:
    """While it is spawned, while it starts, while it reads."""

    before = set(psutil.Process().children())

    async def story() -> None:
        a = serve("a", write("a.gguf", MIB))
        keeper = WarmKeeper(100 * MIB, (a,), LOG)
        keeper.on_stopped(a)
        for _ in range(rounds):
            await asyncio.sleep(0)
        closing = asyncio.get_running_loop().create_task(keeper.close())
        await asyncio.sleep(0)
        closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing
        assert [one.get_name() for one in asyncio.all_tasks() if one.get_name().startswith("warm")] == []
        assert set(psutil.Process().children()) <= before
        await keeper.close()
        keeper.on_stopped(a)
        assert keeper.statistics().holder is None, "nothing is started any more"

    tell(story)


def test_sleepers_that_must_end_come_back_to_the_caller(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        big = serve("big", write("big.gguf", 2 * MIB))
        s, never = serve("s", "org/s"), serve("n", "org/n", warm=Warmth.NEVER)
        async with kept(big, s, never, budget=2 * MIB, predict=False) as keeper:
            assert keeper.on_stopped(never, asleep=1) == ("n",)
            assert keeper.on_stopped(s, asleep=MIB) == ()
            assert [(one.serve, one.how, one.read) for one in keeper.statistics().warm] == [("s", "asleep", None)]
            assert keeper.on_stopped(big) == ("s",)
            assert keeper.on_gone("s") == ()

    tell(story)


def test_a_new_configuration_lets_go_of_what_it_changed(tell: Callable[[Story], None], write: Write) -> None:
    async def story() -> None:
        a, b, s = serve("a", write("a.gguf", MIB)), serve("b", write("b.gguf", MIB)), serve("s", "org/s")
        async with kept(a, b, s, predict=False) as keeper:
            keeper.on_stopped(a)
            keeper.on_stopped(b)
            keeper.on_stopped(s, asleep=MIB)
            pin = serve("p", write("p.gguf", MIB), warm=Warmth.PIN)
            assert keeper.reload(2 * MIB, (a, pin), predict=False) == ("s",)
            await until(lambda: read(keeper) == {"p": MIB, "a": MIB})
            keeper.reload(MIB, (a, pin), predict=False)
            assert read(keeper) == {"p": MIB}

    tell(story)


def test_where_the_weights_lie_is_not_known_the_temperature_is_not_either(tell: Callable[[Story], None]) -> None:
    async def story() -> None:
        hub = serve("hub", "org/name")
        async with kept(hub) as keeper:
            assert await keeper.start_kind(hub) == "unknown"
            keeper.on_stopped(hub)
            assert keeper.statistics() == WarmStatistics(
                100 * MIB, 0, (), None, 0, False, {"hit": 0, "miss": 0, "none": 0}
            )

    tell(story)


def test_the_automatic_budget_is_half_of_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "main_memory", lambda: MainMemory(4000, 1000))
    assert module.budget(WarmPool()) == 500
    assert module.budget(WarmPool(memory=0)) == 0
