"""What a swap asks before anybody is stopped: the device's own figures, who holds it, and what a victim gives back."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve, Slot, Tuning
from stoker.fleet.memory.devices import Device
from stoker.fleet.supervision.memory_meter import MemoryMeter

GIB = 2**30
MODELS = Path(__file__).parents[3] / "src" / "stoker" / "models"


class Clock:
    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


class Card:
    """One device of 24 GiB, and who holds what of it."""

    def __init__(self, free: int | None, held: dict[int, int]) -> None:
        self.free = free
        self.held = held

    def devices(self) -> list[Device]:
        return [Device(0, "GPU-1", "card", "nvidia", 24 * GIB, self.free, "8.9")]

    def by_process(self) -> dict[int, dict[str, int | None]]:
        return {pid: {"GPU-1": size} for pid, size in self.held.items()}


def ask(card: Card, ours: tuple[int, ...] = (), context: int = 4_000_000) -> list[str]:
    slot = Slot("gpu0", devices=("0",))
    scales = MemoryMeter(card, Clock(), lambda name: slot, logging.getLogger("test"))  # type: ignore[arg-type]
    serve = Serve(
        "big", model=str(MODELS / "ember.gguf"), slot="gpu0", context=context, parallel=2, gpu_layers=99,
        tuning=Tuning(kv_cache_type="f16"),
    )  # fmt: skip
    return asyncio.run(scales.memory_problems(serve, ours))


def test_what_fits_an_empty_device_has_nothing_in_its_way() -> None:
    assert ask(Card(24 * GIB, {})) == []


def test_a_process_that_is_none_of_ours_and_holds_the_device_is_named() -> None:
    me = os.getpid()
    with pytest.raises(StartFailed, match=rf"short of .* GiB on its devices, held by process {me} ") as refused:
        ask(Card(2 * GIB, {me: 22 * GIB}))
    assert refused.value.code == "startup_memory"
    assert "stoker fit big" in refused.value.message


def test_what_a_victim_holds_is_credit() -> None:
    assert ask(Card(2 * GIB, {4242: 22 * GIB}), ours=(4242,)) == []


def test_a_device_that_does_not_say_what_is_free_refuses_nobody() -> None:
    assert ask(Card(None, {})) == []


def test_what_no_device_of_the_slot_could_hold_is_too_large() -> None:
    with pytest.raises(StartFailed, match="is too large by") as refused:
        ask(Card(24 * GIB, {}), context=400_000_000)
    assert refused.value.code == "startup_memory"


def test_what_other_engines_hold_is_not_asked_of_a_command_of_its_own() -> None:
    scales: Any = MemoryMeter(Card(0, {}), Clock(), lambda name: None, logging.getLogger("test"))  # type: ignore[arg-type]
    assert asyncio.run(scales.memory_problems(Serve("a", cmd=("run",), model="/m"), ())) == []
