"""Memory of the whole machine that is in use, for /metrics."""

from __future__ import annotations

from stoker.fleet.memory.device import DeviceProbe
from stoker.fleet.memory.host import host_memory


def memory_in_use(probe: DeviceProbe) -> dict[str, int | None]:
    """Bytes by the name of their series; None: unknown, or there is no accelerator. Blocks as the probe does."""
    host = host_memory()
    ram = None if host.total is None or host.available is None else host.total - host.available
    used = [d.total - d.free for d in probe.devices() if d.total is not None and d.free is not None]
    return {"vram_used_bytes": sum(used) if used else None, "ram_used_bytes": ram}
