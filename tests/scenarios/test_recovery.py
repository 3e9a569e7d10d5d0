"""A crash or a power cut at any step of a swap: the next start knows all that runs, and finishes or undoes it."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.crashing import STEPS, crash_at
from tests.scenarios.plane import Plane, poll, running, serve

FINISHED = ("the victim is gone", "the start is intended", "the target is spawned", "the target is on record",
            "the target is proved", "the target is on record as ready", "before it leaves the journal",
            "out of the journal")  # fmt: skip
"""From these steps on the victim cannot be had back for nothing: the swap is finished."""
QUICKLY = ("in the journal", "the victim is gone", "the target is proved")
"""The steps of the default run."""


async def answers_as_itself(plane: Plane, name: str) -> None:
    reply = await ask(plane, name)
    assert (reply.status, reply.json()["model"]) == (200, name)


@pytest.mark.parametrize(
    "step", [step if step in QUICKLY else pytest.param(step, marks=pytest.mark.slow) for step in STEPS]
)
@story
async def test_a_swap_that_a_crash_cuts_off_is_finished_or_undone_at_the_next_start(step: str) -> None:
    with running(serve("a"), serve("b"), started=False) as plane:
        plane.start(prepare=partial(crash_at, step))
        await answers_as_itself(plane, "a")
        before = plane.serve("a")["pid"]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.to_thread(plane.admin, "switch", serve="b")
        await asyncio.to_thread(plane.exit_code)

        plane.start()
        poll(lambda: plane.slot()["swap"] is None and plane.slot()["resident"], "the slot has a resident")
        [resident] = plane.slot()["resident"]
        assert resident == ("b" if step in FINISHED else "a")
        poll(lambda: len(plane.processes()) == 1, lambda: f"only the resident runs: {plane.processes()}")
        assert plane.serve(resident)["pid"] in plane.processes()
        if step in ("before it is in the journal", "in the journal"):
            assert plane.serve("a")["pid"] == before, "what was not touched goes on"
        assert list(plane.state.glob("swaps/*.json")) == []
        for name in ("a", "b"):
            await answers_as_itself(plane, name)
