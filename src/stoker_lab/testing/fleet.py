"""A fleet without processes, for tests: it starts and stops serves on command, and records what it did."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker.domain.protocols import QuickCheck, Running
from stoker.domain.serve import Serve


class FakeFleet:
    """Implements `domain.protocols.Fleet`.

    `ports` maps a serve's name to the port where something answers for it. A serve named in `gates` starts when its
    event is set; one in `broken` fails with that text; one in `problems` does not pass its quick check. `journal` lists
    what was done, in order: `start a`, `ready a`, `stop a`, `gone a`.
    """

    def __init__(self, ports: dict[str, int] | None = None) -> None:
        self.ports = ports or {}
        self.gates: dict[str, asyncio.Event] = {}
        self.broken: dict[str, str] = {}
        self.problems: dict[str, list[str]] = {}
        self.lasting: dict[str, list[str]] = {}
        """Problems of its quick check that are lasting."""
        self.versions: dict[str, int] = {}
        """Of a serve's files: another number, other files."""
        self.failures: dict[str, str] = {}
        """The cause of a serve's next exit or broken start, as one word."""
        self.missing: dict[str, asyncio.Event] = {}
        """Serves whose weights are missing. They exist once the event is set and `fetch` has ended."""
        self.reading: dict[str, asyncio.Event] = {}
        """Serves whose files take until the event is set to be read."""
        self.percents: dict[str, int] = {}
        self.steps: dict[str, str] = {}
        """How much of a starting serve is loaded."""
        self.full_check_problems: dict[str, list[str]] = {}
        """The problems that the full check finds."""
        self.quick_checks = 0
        """How often a quick check was asked for."""
        self.leftovers: list[str] = []
        self.is_busy = False
        """Whether leases are held."""
        self.journal: list[str] = []
        self.alive: dict[str, Callable[[str, str], None]] = {}

    def quick_check(self, serve: Serve) -> QuickCheck | Awaitable[QuickCheck]:
        self.quick_checks += 1
        lasting = self.lasting.get(serve.name, [])
        found = [*lasting, *self.problems.get(serve.name, ())]
        files = () if lasting else ((serve.name, 0, 0, self.versions.get(serve.name, 0)),)
        check = QuickCheck(found, serve.name in self.missing, lasting, files)
        gate = self.reading.get(serve.name)
        return check if gate is None else self._read(gate, check)

    async def _read(self, gate: asyncio.Event, check: QuickCheck) -> QuickCheck:
        await gate.wait()
        return check

    async def download(self, serve: Serve) -> None:
        self.journal.append(f"fetch {serve.name}")
        await self.missing[serve.name].wait()
        if serve.name in self.broken:
            raise StartFailed(self.broken[serve.name], code="source_unreachable")
        del self.missing[serve.name]

    def download_progress(self, name: str) -> str:
        return "half of it"

    def load_percent(self, name: str) -> int | None:
        return self.percents.get(name)

    def start_step(self, name: str) -> str:
        return self.steps.get(name, "")

    async def full_check(
        self, serve: Serve, victims: tuple[str, ...] = (), checked: QuickCheck | None = None
    ) -> list[str]:
        if checked is None:
            self.quick_check(serve)
        return self.full_check_problems.get(serve.name, [])

    def failure_of(self, name: str) -> str:
        return self.failures.get(name, "")

    async def start(self, serve: Serve, on_exit: Callable[[str, str], None]) -> Running:
        self.journal.append(f"start {serve.name}")
        try:
            if serve.name in self.gates:
                await self.gates[serve.name].wait()
            else:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.journal.append(f"gone {serve.name}")
            raise
        if serve.name in self.broken:
            self.journal.append(f"gone {serve.name}")
            raise StartFailed(self.broken[serve.name], code=self.failures.get(serve.name))
        return self._running(serve, on_exit)

    async def stop(self, name: str, grace: float, keep_warm: bool = False) -> None:
        self.journal.append(f"stop {name}")
        await asyncio.sleep(0)
        self.alive.pop(name, None)
        self.journal.append(f"gone {name}")

    async def forget(self, name: str) -> None:
        self.journal.append(f"forget {name}")

    async def adopt(self, serves: list[Serve], on_exit: Callable[[str, str], None]) -> list[Running]:
        return [self._running(serve, on_exit) for serve in serves if serve.name in self.leftovers]

    async def close(self, leave_running: bool) -> list[str]:
        if not leave_running:
            for name in list(self.alive):
                await self.stop(name, 0)
        return []

    def set_busy(self, is_busy: bool) -> None:
        self.is_busy = is_busy

    def hurry(self, leave_running: bool) -> None:
        self.journal.append("hurry")

    def die(self, name: str, detail: str = "signal 9") -> None:
        """Makes the serve exit."""
        self.journal.append(f"died {name}")
        self.alive.pop(name)(name, detail)

    def _running(self, serve: Serve, on_exit: Callable[[str, str], None]) -> Running:
        self.alive[serve.name] = on_exit
        self.journal.append(f"ready {serve.name}")
        target = Target("127.0.0.1", self.ports.get(serve.name, 1), "", serve.served_name or serve.name)
        return Running(serve, target, None, 0.0, {})
