"""Putting an engine to sleep and waking it, by its own HTTP endpoints.

A 200 proves nothing: some builds send it while a later step still runs, or without releasing anything. So after `sleep`
the caller measures the memory, and after `wake` it compares a completion with an earlier one. No request may be in
flight: vLLM aborts them, SGLang's scheduler crashes.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.lease import Target
from stoker.engines.record import SleepApi, Step
from stoker.engines.registry import engine_of
from stoker.http import client
from stoker.http.client import NoResponse

TIMEOUT = 300.0
"""Seconds for one step; the caller bounds the whole with its own timeout."""
_MAX_SHOWN = 200


class VerbFailed(Exception):
    """A step was refused, or not answered. The text names the step and the answer."""


async def sleep(address: Target, engine: str, level: int) -> None:
    """Makes the engine release its memory. Level 1 keeps the weights in host memory, level 2 drops them.

    Raises VerbFailed. On cancel the connection is closed, but the engine may continue.
    """
    api = engine_of(engine).sleep
    if api is None or level not in api.sleep:
        raise VerbFailed(f"engine {engine} cannot sleep at level {level}")
    await _post(address, api, api.sleep[level])


async def wake(address: Target, engine: str, level: int) -> None:
    """Wakes the engine after a sleep at `level`. Raises as `sleep`; after a failure the engine has to be stopped."""
    api = engine_of(engine).sleep
    if api is None or level not in api.wake:
        raise VerbFailed(f"engine {engine} cannot wake from level {level}")
    await _post(address, api, api.wake[level])


async def is_asleep(address: Target, engine: str) -> bool | None:
    """What the engine reports; None if it does not (some never do). Never raises NoResponse."""
    page = engine_of(engine).asleep_page
    if not page:
        return None
    try:
        answer = await client.ask(address, page)
    except NoResponse:
        return None
    found = answer.json() if answer.status == 200 else None
    said = found.get("is_sleeping") if isinstance(found, dict) else None
    return said if isinstance(said, bool) else None


async def _post(address: Target, api: SleepApi, steps: Sequence[Step]) -> None:
    """Raises VerbFailed."""
    for path, payload in steps:
        try:
            answer = await client.ask(address, path, payload, TIMEOUT)
        except NoResponse as error:
            raise VerbFailed(f"POST {path}: {error}") from error
        if answer.status in (404, 405):
            raise VerbFailed(f"POST {path} answered {answer.status}: the engine runs without {api.needs}")
        if not 200 <= answer.status < 300:
            text = answer.body[:_MAX_SHOWN].decode("utf-8", "replace")
            raise VerbFailed(f"POST {path} answered {answer.status}: {text or 'nothing more'}")
