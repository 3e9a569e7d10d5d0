"""Files that cannot be opened, as on a mount whose server is gone: a FIFO that nobody writes to."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve
from stoker.fleet.memory.devices import machine
from stoker.fleet.memory.fit.check import with_contexts
from stoker.fleet.supervision import start_checks

Tell = Callable[[Any], None]
SOON = 0.2
MODELS = Path(__file__).parents[3] / "src" / "stoker" / "models"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_checks, "READ_WITHIN", SOON)
    monkeypatch.setattr("stoker.fleet.weights.copying.STOPS_WITHIN", SOON)
    monkeypatch.setattr("stoker.fleet.memory.fit.check.READ_WITHIN", SOON)


def blocked(workshop: Any, name: str = "dead", **fields: Any) -> Serve:
    path = workshop.directory / f"{name}.gguf"
    os.mkfifo(path)
    return Serve(name=name, model=str(path), directory=str(workshop.directory), **fields)


def let_go(path: str) -> None:
    """Ends every thread that waits for the FIFO."""
    os.close(os.open(path, os.O_RDWR))


async def no_longer_than(seconds: float, work: Any) -> Any:
    """Its result; meanwhile the event loop never stands still for more than a moment."""

    async def done() -> Any:
        return await work

    task, worst, last = asyncio.get_running_loop().create_task(done()), 0.0, time.monotonic()
    until = last + seconds
    while not task.done():
        await asyncio.sleep(0.005)
        worst, last = max(worst, time.monotonic() - last), time.monotonic()
        assert last < until
    assert worst < 0.15
    return await task


def test_such_a_start_fails_by_a_bound_with_what_to_do(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet, serve = workshop.supervisor(), blocked(workshop)
        [problem] = await no_longer_than(3, workshop.quick_check(fleet, serve))
        assert "the files of serve 'dead'" in problem
        assert serve.model in problem
        assert "does not answer; mount it again" in problem
        assert await no_longer_than(3, fleet.full_check(serve)) == [problem]
        with pytest.raises(StartFailed, match="does not answer"):
            await no_longer_than(3, fleet.start(serve, workshop.on_exit))
        let_go(serve.model)
        await fleet.close(False)

    tell(story)


def test_however_often_it_is_asked_for_it_costs_one_thread_and_once_it_answers_it_is_read(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet, serve = workshop.supervisor(), blocked(workshop, embedded=True)
        before = threading.active_count()
        for _ in range(20):
            assert await no_longer_than(3, workshop.quick_check(fleet, serve))
        assert threading.active_count() <= before + 1
        let_go(serve.model)
        Path(serve.model).unlink()
        async with asyncio.timeout(3):
            while "does not exist" not in (found := await workshop.quick_check(fleet, serve))[0]:
                assert "does not answer" in found[0]
                await asyncio.sleep(0.01)
        await fleet.close(False)

    tell(story)


def test_other_serves_start_meanwhile(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet, serve = workshop.supervisor(), blocked(workshop)
        checking = asyncio.get_running_loop().create_task(workshop.quick_check(fleet, serve))
        await fleet.start(workshop.serve(), workshop.on_exit)
        assert await checking
        let_go(serve.model)
        await fleet.close(False)

    tell(story)


def test_a_model_that_is_there_and_of_which_no_more_can_be_read_is_refused_too(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.fleet.supervision.memory_meter.READ_WITHIN", SOON)
    gate = threading.Event()
    monkeypatch.setattr("stoker.fleet.memory.fit.check.check_fit", lambda *_: gate.wait(10))
    monkeypatch.setattr("stoker.fleet.memory.fit.check.choose_context", lambda *_: gate.wait(10))

    async def story(workshop: Any) -> None:
        fleet, model = workshop.supervisor(), workshop.directory / "w.gguf"
        model.write_bytes((MODELS / "spark.gguf").read_bytes())
        serve = Serve(name="slow", model=str(model), directory=str(workshop.directory), embedded=True)
        for one in (serve, replace(serve, auto_context=True)):
            [problem] = await no_longer_than(3, fleet.full_check(one))
            assert f"could not be read within {SOON:g} s: {model}" in problem
        with pytest.raises(StartFailed, match="could not be read"):
            await no_longer_than(3, fleet.start(replace(serve, auto_context=True), workshop.on_exit))
        gate.set()
        await fleet.close(False)

    tell(story)


def test_weights_that_are_fetched_from_such_a_place_are_given_up_on_cancel(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        source = workshop.directory / "source.gguf"
        os.mkfifo(source)
        serve = Serve(name="far", model=str(workshop.directory / "far.gguf"), source=str(source))
        fleet = workshop.supervisor()
        fetching = asyncio.get_running_loop().create_task(fleet.download(serve))
        await asyncio.sleep(0.1)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await no_longer_than(3, fetching)
        let_go(str(source))
        await fleet.close(False)

    tell(story)


def test_hashing_them_is_given_up_on_cancel(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        serve = blocked(workshop, sha256={"dead.gguf": "0" * 64})
        checks = workshop.supervisor()
        verifying = asyncio.get_running_loop().create_task(checks.full_check(serve))
        await asyncio.sleep(0.05)
        verifying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await no_longer_than(3, verifying)
        let_go(serve.model)
        await checks.close(False)

    tell(story)


def test_a_context_that_is_to_be_chosen_waits_for_the_start(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    os.mkfifo(path)
    serve = Serve(name="auto", model=str(path), auto_context=True)
    [found] = with_contexts([serve], [], machine())
    assert (found.context, found.context_problem) == (None, "")
    let_go(str(path))
