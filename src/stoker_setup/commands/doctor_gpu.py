"""`stoker doctor --gpu`: a small model is started on each GPU, and what Stoker says of it is compared with the driver.

Nothing of the configuration is read or changed: a Stoker of its own runs meanwhile, on a free port.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import stoker
from stoker.cli.machine import nvidia_smi
from stoker.domain.errors import StokerError
from stoker.fleet.memory.measure import Snapshot, snapshot
from stoker_setup import gpu_proof
from stoker_setup.gpu_proof import GPU_FIELDS, PROCESS_FIELDS, GpuProof

if TYPE_CHECKING:
    from stoker.cli.console.control import Control
    from stoker.cli.console.installation import Installation
    from stoker.fleet.memory.devices import Device, DeviceProbe

MODEL = Path(stoker.__file__).parent / "models" / "ember.gguf"
WITHIN = 60.0
"""Seconds after which no further device is begun."""
READY_WITHIN = 30
"""Seconds for one start."""
MEASURED_WITHIN = 5.0
"""Seconds after it is ready."""
FREE_WITHIN, LOOK_EVERY = 10.0, 0.02
"""Seconds until the memory of a stopped engine has to be free, and between two looks."""
_STEPS = ("mask", "memory", "memory by process", "freed memory")


def prove(
    probe: DeviceProbe, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> list[GpuProof]:
    """Every proof; what could not be tried says why. `say` gets a line before each step that takes seconds.

    It blocks for about a minute at most, unless a driver hangs.
    """
    devices = probe.devices()
    if not devices:
        why = "; ".join(probe.notes()) or "no GPU was found"
        return [gpu_proof.skipped(part, why) for part in ("telemetry", *_STEPS)]
    found = gpu_proof.telemetry(devices, nvidia_smi.query("gpu", GPU_FIELDS))
    with tempfile.TemporaryDirectory(prefix="stoker-doctor-") as folder:
        return found + _starts(probe, devices, Path(folder), say, clock() + WITHIN, clock)


def places(devices: Sequence[Device]) -> list[tuple[str, Device]]:
    """The `devices` of each slot that is tried: each device by its number, and the first by its uuid, too."""
    numbered = [(str(device.index), device) for device in devices]
    return [*numbered, (devices[0].uuid, devices[0])]


def configuration(folder: Path, words: Sequence[str]) -> str:
    """One slot and one serve for each of these `devices`."""
    places = "".join(
        f"""
[slots.place{number}]
devices = ["{word}"]
[[serve]]
name = "place{number}"
model = "{MODEL}"
gpu_layers = 99
context = 4096
parallel = 1
ready_timeout = "{READY_WITHIN}s"
slot = "place{number}"
"""
        for number, word in enumerate(words)
    )
    return f'[paths]\nstate = "{folder / "state"}"\nlogs = "{folder / "logs"}"\n[warm]\nmemory = "0B"\n{places}'


def _starts(
    probe: DeviceProbe,
    devices: Sequence[Device],
    folder: Path,
    say: Callable[[str], None],
    until: float,
    clock: Callable[[], float],
) -> list[GpuProof]:
    from stoker.cli.commands.run_stoker import started_stoker
    from stoker.cli.console.installation import find_installation

    tried = places(devices)
    file = folder / "stoker.toml"
    file.write_text(configuration(folder, [word for word, _ in tried]))
    found: list[GpuProof] = []
    try:
        installation = find_installation(str(file))
        with started_stoker(installation):
            for number, (word, device) in enumerate(tried):
                name = f"devices = [{word}]"
                if clock() > until:
                    found += _named(name, [gpu_proof.skipped(part, "the minute was over") for part in _STEPS])
                    continue
                say(f"starting a small model with {name}")
                try:
                    found += _named(name, list(_start(installation, f"place{number}", device, probe, clock)))
                except StokerError as error:
                    found += _named(name, [gpu_proof.failed("start", error.message)])
    except StokerError as error:
        found.append(gpu_proof.failed("start", error.message))
    return found


def _named(place: str, proofs: Sequence[GpuProof]) -> list[GpuProof]:
    return [replace(proof, part=f"{proof.part}, {place}") for proof in proofs]


def _start(
    installation: Installation, name: str, device: Device, probe: DeviceProbe, clock: Callable[[], float]
) -> Iterator[GpuProof]:
    """What one start shows. Raises StokerError if it does not come up."""
    from stoker.engines.registry import engine_of
    from stoker.fleet.drivers import process_group
    from stoker.fleet.memory.fit.check import check_fit
    from stoker.fleet.memory.host import host_memory

    serve = installation.serve(name)
    estimate = check_fit(serve, [device], host_memory()).needed
    with installation.control() as control:
        control.switch(name)
        pid, measured = _measured(control, name, clock)
    pids = process_group.members(pid) if pid is not None else []
    before = snapshot(probe)
    held = None if before.accounting is None else {uuid for one in pids for uuid in before.accounting.get(one, {})}
    is_embedded = engine_of(serve.engine).package(serve) is not None
    yield gpu_proof.mask([device.uuid], held, may_compute_on_processors=is_embedded)
    if held:
        yield gpu_proof.memory(measured, estimate)
        yield gpu_proof.held_by_process(before.accounting, nvidia_smi.query("compute-apps", PROCESS_FIELDS), pids)
    else:
        for part in ("memory", "memory by process"):
            yield gpu_proof.skipped(part, "the engine is not known to hold memory of a device")
    began = clock()
    with installation.control() as control:
        control.unload(name)
    yield until_freed(probe, before, pids, began, clock) if held else gpu_proof.skipped("freed memory", "none was held")


def _measured(control: Control, name: str, clock: Callable[[], float]) -> tuple[int | None, int | None]:
    """The serve's process, and what Stoker measured of its memory: it does so right after it is ready."""
    until = clock() + MEASURED_WITHIN
    while True:
        seen = control.status().serve(name)
        if seen is None or seen.measured is not None or clock() > until:
            return (None, None) if seen is None else (seen.pid, seen.measured)
        time.sleep(LOOK_EVERY)


def until_freed(
    probe: DeviceProbe, before: Snapshot, pids: Sequence[int], began: float, clock: Callable[[], float] = time.monotonic
) -> GpuProof:
    """Looks until the memory of `pids`, which were told to stop at `began`, is free: FREE_WITHIN seconds at most."""
    while True:
        proof = gpu_proof.freed(before, snapshot(probe), pids, clock() - began)
        if not proof.is_wrong or clock() - began > FREE_WITHIN:
            return proof
        time.sleep(LOOK_EVERY)


def report(proofs: Sequence[GpuProof], devices: Sequence[Device]) -> list[str]:
    """What to send to the authors, line by line; empty: nothing differs."""
    wrong = [proof for proof in proofs if proof.is_wrong]
    if not wrong:
        return []
    cards = [f"{device.vendor} {device.index}: {device.name}, driver {device.driver}" for device in devices]
    lines = [f"{one.part}: {one.result}: {_beside(one)}" for one in wrong]
    return [f"stoker {stoker.__version__}", *cards, *lines]


def _beside(proof: GpuProof) -> str:
    return proof.why or f"{proof.measured}; expected {proof.expected}"
