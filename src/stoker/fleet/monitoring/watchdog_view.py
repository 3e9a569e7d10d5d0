"""What the watchdog sees of the fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.domain.protocols import Running
from stoker.engines import signals
from stoker.fleet.swapping.conductor import Conductor
from stoker.fleet.watchdog.progress import EngineCounters


class ConductorView:
    """Implements `watchdog.ServesView`. `work(name)`: requests that wait for a serve, and bytes that came from it."""

    def __init__(
        self, conductor: Conductor, work: Callable[[str], tuple[int, int]], is_asleep: Callable[[str], bool]
    ) -> None:
        self._conductor = conductor
        self._work = work
        self.is_asleep = is_asleep

    def running(self) -> Mapping[str, Running]:
        return self._conductor.running

    def in_flight(self, name: str) -> int:
        return self._work(name)[0]

    def relayed(self, name: str) -> int | None:
        return self._work(name)[1]


def counters(engine: str, text: str) -> EngineCounters:
    """What an engine's /metrics counts, for `watchdog.probe.HttpProbe`."""
    read = signals.read(engine, text)
    return EngineCounters(
        steps=read.steps,
        kv_use=read.kv_use,
        prompt_tokens=read.prompt_tokens,
        generated_tokens=read.generated_tokens,
        running=read.running,
        queued=read.queued,
    )
