"""`context = "auto"`: the largest context that fits, the same at each start."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.memory.model_files import llama
from tests.fleet.memory.test_fit_check import gpu

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve, Slot
from stoker.fleet.memory.devices import Device
from stoker.fleet.memory.fit import check
from stoker.fleet.memory.fit.check import MIN_CONTEXT, ContextChoice, choose_context, with_contexts
from stoker.fleet.memory.fit.estimate import GIB, MIB, Layer, Shape
from stoker.fleet.memory.host import HostMemory
from stoker.fleet.supervision.memory_meter import MemoryMeter

MAIN = HostMemory(64 * GIB, 1 * GIB)
AUTO = Serve("eight", model="/eight.gguf", auto_context=True, parallel=2, gpu_layers=99, slot="gpu")
EIGHT = Shape(
    "eight", "llama", "gguf", "Q4_K", 5 * GIB, (Layer(140 * MIB, 8, 256),) * 32, context=131072, vocabulary=128256,
    width=4096,
)  # fmt: skip


class Card:
    source = "NVML"

    def __init__(self, *devices: Device) -> None:
        self._devices = list(devices)

    def devices(self) -> list[Device]:
        return self._devices

    def by_process(self) -> None:
        return None

    def notes(self) -> list[str]:
        return []


def choose(
    serve: Serve = AUTO, slot: Slot | None = None, devices: tuple[Device, ...] = (), main: HostMemory = MAIN,
    shape: Shape = EIGHT,
) -> ContextChoice:  # fmt: skip
    return choose_context(serve, slot, devices, main, shape)


def test_as_much_as_fits_on_the_device_whatever_is_free_now() -> None:
    idle, busy = choose(devices=(gpu(24),)), choose(devices=(gpu(24, free=1),))
    assert idle == busy
    assert idle.context is not None
    assert MIN_CONTEXT < idle.context < 131072
    assert idle.context % 256 == 0
    fits = check.check_fit(replace(AUTO, context=idle.context), [gpu(24)], MAIN, EIGHT)
    larger = check.check_fit(replace(AUTO, context=idle.context + 256), [gpu(24)], MAIN, EIGHT)
    assert not fits.problems
    assert larger.problems
    assert fits.context == idle.context, "what `stoker fit` says"


def test_never_above_what_the_model_was_trained_for() -> None:
    assert choose(devices=(gpu(640),)).context == 131072
    assert choose(devices=(gpu(640),), shape=replace(EIGHT, context=2048)).context == 2048
    assert choose(devices=(gpu(640),), shape=replace(EIGHT, context=None)).context == MIN_CONTEXT


def test_a_budget_of_the_configuration_counts_instead_of_the_device() -> None:
    by_slot = choose(slot=Slot("gpu", memory=12 * GIB), devices=(gpu(80),))
    by_serve = choose(replace(AUTO, memory=12 * GIB), Slot("gpu", memory=70 * GIB), (gpu(80),))
    assert by_slot == by_serve
    assert 0 < (by_slot.context or 0) < 131072
    main = HostMemory(20 * GIB, GIB)
    most = choose(slot=Slot("gpu", memory=999 * GIB), main=main)
    assert most.context == choose(slot=Slot("gpu", memory=19 * GIB), main=main).context, "no more than there is"
    assert choose(slot=Slot("gpu", memory=999 * GIB), devices=(gpu(24),)) == choose(devices=(gpu(24),))


def test_without_a_device_half_of_main_memory_counts() -> None:
    small = choose(replace(AUTO, parallel=4), main=HostMemory(32 * GIB, 1 * GIB))
    assert 0 < (small.context or 0) < 131072
    need = check.check_fit(replace(AUTO, parallel=4, context=small.context), [], HostMemory(64 * GIB, 64 * GIB), EIGHT)
    assert 15.5 * GIB < need.needed <= 16 * GIB
    assert choose(main=HostMemory(9 * GIB, 1 * GIB)).context == MIN_CONTEXT, "more than half, rather than not at all"


def test_too_little_memory_is_a_problem_that_names_the_next_step() -> None:
    choice = choose(devices=(gpu(4),))
    assert choice.context is None
    assert choice.problem == (
        "serve 'eight' has `context = \"auto\"`, and not even 4096 tokens for each of 2 requests fit into the memory "
        "of its devices: `stoker fit eight` says what would fit; lower `parallel`, or take a smaller model"
    )
    assert "stoker fit eight" in choose(main=HostMemory(4 * GIB, 4 * GIB)).problem
    small = Slot("gpu", memory=3 * GIB)
    assert "fit into the 3.0 GiB that `memory` allows: " in choose(slot=small, devices=(gpu(80),)).problem
    assert "fit into the 3.0 GiB that `memory` allows: " in choose(slot=small, devices=(gpu(80), gpu(80))).problem
    assert (
        "fit into the memory of its devices: " in choose(slot=Slot("gpu", memory=90 * GIB), devices=(gpu(4),)).problem
    )
    assert "memory is unknown" in choose(devices=(gpu(None),)).problem


@given(st.integers(1, 96), st.integers(0, 16), st.integers(1, 8), st.sampled_from([512, 5000, 8192, 131072]))
def test_more_memory_never_means_less_context(size: int, more: int, parallel: int, trained: int) -> None:
    serve, shape = replace(AUTO, parallel=parallel), replace(EIGHT, context=trained)
    for devices in (True, False):
        pair = [
            choose(serve, devices=(gpu(total),) if devices else (), main=HostMemory(total * GIB, GIB), shape=shape)
            for total in (size, size + more)
        ]
        small, large = [choice.context or 0 for choice in pair]
        assert small <= large <= trained
        for choice in pair:
            assert (choice.context is None) == bool(choice.problem)
            assert choice.context is None or choice.context >= min(MIN_CONTEXT, trained)


def test_only_serves_that_ask_for_it_get_one_and_missing_weights_wait(tmp_path: Path) -> None:
    model = str(llama(tmp_path / "eight.gguf"))
    there, absent = replace(AUTO, model=model), replace(AUTO, name="absent", model=str(tmp_path / "no.gguf"))
    fixed = Serve("fixed", model=model, context=512)
    found = with_contexts((there, absent, fixed), (Slot("gpu", ("0",)),), Card(gpu(24)))
    assert [serve.context for serve in found][1:] == [None, 512]
    assert found[0].context
    assert [serve.context_problem for serve in found] == ["", "", ""]
    assert found[0].launches_like(there), "chosen at the start: no other launch"
    assert there.launches_like(found[0])
    assert not found[0].launches_like(replace(found[0], context=256)), "another context is another launch"
    assert found[0].launches_like(replace(found[0], auto_context=False)), "the same number, written down"


def test_weights_that_arrive_later_get_their_context_at_the_start(tmp_path: Path) -> None:
    serve = replace(AUTO, model=str(llama(tmp_path / "eight.gguf")))
    slot = Slot("gpu", ("0",))

    def meter(device: Device) -> MemoryMeter:
        return MemoryMeter(Card(device), None, lambda name: slot, logging.getLogger("test"))  # type: ignore[arg-type]

    assert meter(gpu(24)).with_choices(serve) == with_contexts((serve,), (slot,), Card(gpu(24)))[0]
    with pytest.raises(StartFailed, match="stoker fit eight"):
        meter(gpu(4)).with_choices(serve)
