"""One swap: what is reported of it, and where it is written down."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from stoker.domain.errors import ClientError, StartFailed
from stoker.domain.protocols import Interrupted
from stoker.domain.serve import Serve


@dataclass(slots=True)
class SwapReport:
    """What a swap did. `outcome` is `ready`, `failed`, `cancelled` or `stopped`.

    `phases`, in seconds, one after the other: `drain`; `check` (everything that can be known before the victims are
    touched); `stop` (the victims, until they are gone and their memory is free); `start` (until the target's health is
    good); `ready` (until its exact id, and its canary where asked, are proved).
    """

    generation: int
    serve: str | None
    slot: str
    victims: tuple[str, ...]
    outcome: str = "running"
    phases: dict[str, float] = field(default_factory=dict)
    temperature: str = "cold"
    """What the target was started from; see Running."""
    error: str = ""
    """Why it failed."""


class NoJournal:
    """For a fleet that nobody needs to find again."""

    async def begin(self, swap: Interrupted) -> None: ...

    def end(self, swap: Interrupted) -> None: ...

    def left(self) -> list[Interrupted]:
        return []


def needs_force(serve: Serve) -> ClientError:
    reason = f" ({serve.reason})" if serve.reason else ""
    command = f"stoker slot switch {serve.name} --force"
    text = f"serve '{serve.name}' is {serve.status.value}{reason}: `{command}` runs it all the same"
    return ClientError(text, code="needs_force", status=403, param="model")


def cannot_start(serve: Serve, problems: list[str]) -> StartFailed:
    own = f"serve '{serve.name}': "
    text = "; ".join(problem.removeprefix(own) for problem in problems)
    return StartFailed(f"serve '{serve.name}' cannot start: {text}", code="cannot_start", retry_after=30.0)


@contextlib.contextmanager
def timed(report: SwapReport, phase: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        report.phases[phase] = time.monotonic() - began
