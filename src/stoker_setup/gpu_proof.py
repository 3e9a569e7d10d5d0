"""What Stoker says of a GPU, beside what the driver and a real engine say. Pure.

`stoker doctor --gpu` and `python -m bench.gpu` judge by these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from stoker.cli.machine.nvidia_smi import mebibytes
from stoker.domain import figures
from stoker.engines.registry import DEFAULT
from stoker.fleet.memory.devices import Accounting, Device
from stoker.fleet.memory.measure import SLACK, Snapshot, still_missing

ESTIMATE_SHARE = 0.05
ESTIMATE_MARGIN = 300 * 2**20
"""How far off an estimate of llama.cpp's memory may be: docs/how-it-works/memory.md."""
GPU_FIELDS = ("uuid", "name", "driver_version", "memory.total", "memory.free")
PROCESS_FIELDS = ("pid", "gpu_uuid", "used_memory")
"""What `nvidia-smi` is asked for."""


class ProofResult(StrEnum):
    OK = "ok"
    DIFFERS = "differs"
    SKIPPED = "skipped"
    """It could not be tried; `why` says why."""
    FAILED = "failed"
    """It was tried and came to no result; `why` says why."""


@dataclass(frozen=True, slots=True)
class GpuProof:
    """One comparison. `figures`: the numbers behind the words, named with their unit."""

    part: str
    result: ProofResult
    measured: str = ""
    expected: str = ""
    why: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_wrong(self) -> bool:
        return self.result in (ProofResult.DIFFERS, ProofResult.FAILED)


def skipped(part: str, why: str) -> GpuProof:
    return GpuProof(part, ProofResult.SKIPPED, why=why)


def failed(part: str, why: str) -> GpuProof:
    return GpuProof(part, ProofResult.FAILED, why=why)


def mask(wanted: Collection[str], held: Collection[str] | None, *, may_compute_on_processors: bool) -> GpuProof:
    """Does the engine use the devices of its slot and no other? `wanted`, `held`: uuids; `held` by memory.

    1. the driver does not show memory by process -> skipped
    2. none, by an engine that may have no GPU support -> skipped
    3. others than wanted -> differs
    """
    part = "mask"
    if held is None:
        return skipped(part, "the driver does not show which process holds memory")  # 1
    if not held and may_compute_on_processors:
        why = (
            f"the embedded {DEFAULT.title} of this installation uses no GPU: put a `{DEFAULT.program}` with GPU "
            "support on PATH"
        )
        return skipped(part, why)  # 2
    result = ProofResult.OK if set(held) == set(wanted) else ProofResult.DIFFERS  # 3
    return GpuProof(part, result, ", ".join(sorted(held)) or "no device", ", ".join(sorted(wanted)))


def memory(measured: int | None, estimate: int) -> GpuProof:
    """Memory that an engine holds beside the estimate of `stoker fit`. Bytes.

    Right is within 5 % or 300 MiB of the estimate, whichever is more.
    """
    part = "memory"
    if not measured:
        return skipped(part, "nobody reports how much memory the engine holds")
    allowed = max(ESTIMATE_SHARE * estimate, ESTIMATE_MARGIN)
    result = ProofResult.OK if abs(measured - estimate) <= allowed else ProofResult.DIFFERS
    numbers = {
        "measured_bytes": float(measured), "fit_bytes": float(estimate), "off_percent": 100 * (measured / estimate - 1),
    }  # fmt: skip
    return GpuProof(part, result, figures.size(measured), f"{figures.size(estimate)} (fit)", figures=numbers)


def telemetry(devices: Sequence[Device], smi: Sequence[Mapping[str, str]] | None) -> list[GpuProof]:
    """Name, driver and memory of each NVIDIA device by NVML, beside `nvidia-smi`. Free memory may move by 64 MiB."""
    part = "telemetry"
    ours = [device for device in devices if device.vendor == "nvidia"]
    if not ours:
        return [skipped(part, "no NVIDIA GPU: no other vendor's tool is compared")]
    if smi is None:
        return [skipped(part, "`nvidia-smi` is not on PATH, or failed")]
    rows = {row["uuid"]: row for row in smi}
    return [_telemetry(part, device, rows.get(device.uuid)) for device in ours]


def _telemetry(part: str, device: Device, row: Mapping[str, str] | None) -> GpuProof:
    ours = f"{device.name}, driver {device.driver}, {_free(device.free, device.total)}"
    if row is None:
        return GpuProof(part, ProofResult.DIFFERS, ours, f"nvidia-smi shows no {device.uuid}")
    total, free = mebibytes(row["memory.total"]), mebibytes(row["memory.free"])
    theirs = f"{row['name']}, driver {row['driver_version']}, {_free(free, total)}"
    same = (device.name, device.driver) == (row["name"], row["driver_version"])
    near = _near(device.total, total) and _near(device.free, free)
    numbers = {
        name: float(value)
        for name, value in (
            ("nvml_total_bytes", device.total), ("smi_total_bytes", total),
            ("nvml_free_bytes", device.free), ("smi_free_bytes", free),
        )
        if value is not None
    }  # fmt: skip
    return GpuProof(part, ProofResult.OK if same and near else ProofResult.DIFFERS, ours, theirs, figures=numbers)


def held_by_process(
    accounting: Accounting | None, smi: Sequence[Mapping[str, str]] | None, pids: Collection[int]
) -> GpuProof:
    """Bytes that these processes hold by NVML, beside `nvidia-smi`."""
    part = "memory by process"
    if accounting is None or smi is None:
        which = "the driver does not" if accounting is None else "`nvidia-smi` does not"
        return skipped(part, f"{which} show memory by process")
    ours = sum(size or 0 for pid in pids for size in accounting.get(pid, {}).values())
    told = {str(pid) for pid in pids}
    theirs = sum(mebibytes(row["used_memory"]) or 0 for row in smi if row["pid"] in told)
    result = ProofResult.OK if _near(ours, theirs) else ProofResult.DIFFERS
    numbers = {"nvml_bytes": float(ours), "smi_bytes": float(theirs)}
    return GpuProof(part, result, figures.size(ours), f"{figures.size(theirs)} (nvidia-smi)", figures=numbers)


def freed(before: Snapshot, after: Snapshot, pids: Collection[int], seconds: float) -> GpuProof:
    """Whether the memory that `pids` held is free `seconds` after they were told to stop."""
    part = "freed memory"
    if not before.has_devices:
        return skipped(part, "no GPU: main memory is freed with the process")
    missing, holders = still_missing(before, after, pids)
    if missing is None:
        return skipped(part, "the driver does not show memory by process")
    numbers = {"seconds": seconds, "missing_bytes": float(missing)}
    if missing or holders:
        measured = f"{figures.size(missing)} missing after {seconds:.1f} s"
        return GpuProof(part, ProofResult.DIFFERS, measured, "all of it is free", figures=numbers)
    return GpuProof(part, ProofResult.OK, f"all of it after {seconds:.2f} s", "all of it is free", figures=numbers)


def _near(ours: int | None, theirs: int | None) -> bool:
    return ours is None or theirs is None or abs(ours - theirs) <= SLACK


def _free(free: int | None, total: int | None) -> str:
    return f"{figures.size(free)} of {figures.size(total)} free"
