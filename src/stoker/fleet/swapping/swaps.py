"""What a swap needs: a journal that keeps nothing, its refusals, and the time of its phases."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from stoker.domain.errors import ClientError, StartFailed
from stoker.domain.protocols import Interrupted
from stoker.domain.serve import Serve


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
def timed(phases: dict[str, float], phase: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        phases[phase] = time.monotonic() - began
