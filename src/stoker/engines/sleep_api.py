"""Putting an engine to sleep and waking it, by its own HTTP endpoints.

A 200 proves nothing: some builds send it while a later step still runs, or without releasing anything. So after `sleep`
the caller measures the memory, and after `wake` it compares a completion with an earlier one. No request may be in
flight: vLLM aborts them, SGLang's scheduler crashes.
"""

from __future__ import annotations

from typing import Any

from stoker.domain.lease import Target
from stoker.http import client
from stoker.http.client import NoResponse

TIMEOUT = 300.0
"""Seconds for one step; the caller bounds the whole with its own timeout."""
_MAX_SHOWN = 200

Step = tuple[str, dict[str, Any]]
"""Path with its query, and the JSON to POST."""

_VLLM_WAKE: dict[int, tuple[Step, ...]] = {
    1: (("/wake_up", {}),),
    # Level 2 dropped the weights: without the reload it answers gibberish (vllm-project/vllm#29341). The KV cache comes
    # last, so that it need not fit beside the memory that the reload uses.
    2: (
        ("/wake_up?tags=weights", {}),
        ("/collective_rpc", {"method": "reload_weights"}),
        ("/wake_up?tags=kv_cache", {}),
    ),
}
_NEEDS = {
    "vllm": "`--enable-sleep-mode` and VLLM_SERVER_DEV_MODE=1",
    "sglang": "`--enable-memory-saver`",
}


class VerbFailed(Exception):
    """A step was refused, or not answered. The text names the step and the answer."""


def sleep_steps(engine: str, level: int) -> tuple[Step, ...]:
    """The requests of `sleep`, in order. Raises VerbFailed for an engine or a level without this verb."""
    if engine == "vllm" and level in _VLLM_WAKE:
        return ((f"/sleep?level={level}&sleep_level={level}", {}),)  # the second is the spelling of early builds
    if engine == "sglang" and level == 1:
        return (("/release_memory_occupation", {}),)  # without tags: all of it, in every version
    raise VerbFailed(f"engine {engine} cannot sleep at level {level}")


def wake_steps(engine: str, level: int) -> tuple[Step, ...]:
    """The requests of `wake`, in order; `level` is that of the sleep. Raises VerbFailed as `sleep_steps`."""
    if engine == "vllm" and level in _VLLM_WAKE:
        return _VLLM_WAKE[level]
    if engine == "sglang" and level == 1:
        return (("/resume_memory_occupation", {}),)
    raise VerbFailed(f"engine {engine} cannot wake from level {level}")


async def sleep(address: Target, engine: str, level: int) -> None:
    """Makes the engine release its memory. Level 1 keeps the weights in host memory, vLLM's level 2 drops them.

    Raises VerbFailed. On cancel the connection is closed, but the engine may continue.
    """
    for path, payload in sleep_steps(engine, level):
        await _post(address, engine, path, payload)


async def wake(address: Target, engine: str, level: int) -> None:
    """Wakes the engine after a sleep at `level`. Raises as `sleep`; after a failure the engine has to be stopped."""
    for path, payload in wake_steps(engine, level):
        await _post(address, engine, path, payload)


async def is_asleep(address: Target, engine: str) -> bool | None:
    """What the engine reports; None if it does not (SGLang never does). Never raises NoResponse."""
    path = {"vllm": "/is_sleeping", "llama.cpp": "/props"}.get(engine)
    if path is None:
        return None
    try:
        answer = await client.ask(address, path)
    except NoResponse:
        return None
    found = answer.json() if answer.status == 200 else None
    said = found.get("is_sleeping") if isinstance(found, dict) else None
    return said if isinstance(said, bool) else None


async def _post(address: Target, engine: str, path: str, payload: dict[str, Any]) -> None:
    """Raises VerbFailed."""
    try:
        answer = await client.ask(address, path, payload, TIMEOUT)
    except NoResponse as error:
        raise VerbFailed(f"POST {path}: {error}") from error
    if 200 <= answer.status < 300:
        return
    if answer.status in (404, 405):
        raise VerbFailed(f"POST {path} answered {answer.status}: the engine runs without {_NEEDS[engine]}")
    text = answer.body[:_MAX_SHOWN].decode("utf-8", "replace")
    raise VerbFailed(f"POST {path} answered {answer.status}: {text or 'nothing more'}")
