"""Loads and unloads models, and shows which are loaded, in the words of llama-swap and of llama.cpp's router."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec

from stoker.domain.errors import ClientError, StokerError
from stoker.domain.host_port import host_port
from stoker.domain.serve import Serve
from stoker.fleet.swapping.conductor import Conductor

log = logging.getLogger("stoker.compat")

LLAMA_SWAP_STATES = {"starting": "starting", "ready": "ready", "draining": "stopping", "stopping": "stopping"}
"""A model in any other phase is not running. Source: llama-swap v250, internal/process."""
LLAMA_CPP_STATES = {"starting": "loading", "ready": "loaded", "draining": "loaded"}
"""A model in any other phase is `unloaded`. Source: llama.cpp, tools/server/server-models.cpp."""
FAILURE_WITHIN = 0.1
"""A load or unload that fails within so many seconds is reported in the answer."""


def llama_cpp_state(phase: str) -> str:
    """`loading`, `loaded` or `unloaded`, for the name of a ServePhase."""
    return LLAMA_CPP_STATES.get(phase, "unloaded")


class ModelControl:
    """Acts on serves. Its actions go on even if the client leaves."""

    def __init__(self, conductor: Conductor, loop: asyncio.AbstractEventLoop) -> None:
        self._conductor = conductor
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- llama-swap ----------------------------------------------------------------------------------------------

    def running(self, serves: Iterable[Serve]) -> list[dict[str, Any]]:
        """One entry for each model that runs, by name."""
        entries = []
        for serve in sorted(serves, key=lambda one: one.name):
            state = LLAMA_SWAP_STATES.get(self._conductor.residency.phase(serve.name))
            if state is not None:
                entries.append({
                    "model": serve.name, "state": state, "cmd": "", "proxy": self._address(serve),
                    "ttl": int(serve.idle_unload or 0), "name": serve.title, "description": serve.description,
                })  # fmt: skip
        return entries

    async def unload(self, serve: Serve) -> None:
        """Unloads it; returns when it has stopped. Raises ClientError 404 for a serve that Stoker does not start."""
        _refuse_external(serve, 404)
        await asyncio.shield(self._begin(self._conductor.unload(serve.name, None)))

    async def unload_all(self, serves: Iterable[Serve]) -> None:
        """Unloads all at once; returns when they have stopped. Raises the first StokerError, after all have ended."""
        running = (one for one in serves if one.base_url is None and self._phase(one) != "stopped")
        tasks = [self._begin(self._conductor.unload(one.name, None)) for one in running]
        for ended in await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True)):
            if isinstance(ended, BaseException):
                raise ended

    # -- llama.cpp -----------------------------------------------------------------------------------------------

    async def begin_load(self, serve: Serve) -> None:
        """Returns once it is loading. Raises ClientError 400 if it already runs, StokerError if it cannot start."""
        if llama_cpp_state(self._phase(serve)) != "unloaded":
            raise ClientError("model is already running", code="already_running")
        await self._begin_or_fail(self._conductor.switch(serve.name, None, False))

    async def begin_unload(self, serve: Serve) -> None:
        """Returns once it is draining. Raises ClientError 400 if it does not run, or if Stoker does not start it."""
        _refuse_external(serve, 400)
        if llama_cpp_state(self._phase(serve)) == "unloaded":
            raise ClientError("model is not running", code="not_running")
        await self._begin_or_fail(self._conductor.unload(serve.name, None))

    def status_events(self, serves: Iterable[Serve], seen: dict[str, tuple[str, int | None]]) -> bytes:
        """Server-sent events for the changes since the last call; `seen` holds the states of that call."""
        events = []
        for serve in serves:
            state = llama_cpp_state(self._phase(serve)), self._conductor.load_percent(serve.name)
            if seen.get(serve.name, state) != state:
                events.append(b"data: %b\n\n" % msgspec.json.encode(self._status_change(serve.name, *state)))
            seen[serve.name] = state
        return b"".join(events)

    def _status_change(self, name: str, state: str, percent: int | None) -> dict[str, Any]:
        data: dict[str, Any] = {"status": state}
        if state == "unloaded":
            data["exit_code"] = 1 if self._conductor.failure_code(name) else 0
        elif percent is not None:
            data["progress"] = {"stages": ["text_model"], "current": "text_model", "value": percent / 100}
        return {"model": name, "event": "status_change", "data": data}

    # -- both ----------------------------------------------------------------------------------------------------

    def _phase(self, serve: Serve) -> str:
        return self._conductor.residency.phase(serve.name)

    def _address(self, serve: Serve) -> str:
        target = self._conductor.target(serve.name)
        return "" if target is None else f"http{'s' if target.tls else ''}://{host_port(target.host, target.port)}"

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work, name="compat")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def _begin_or_fail(self, work: Coroutine[Any, Any, Any]) -> None:
        task = self._begin(work)
        done, _ = await asyncio.wait((task,), timeout=FAILURE_WITHIN)
        if done:
            task.result()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a load or unload that a client asked for failed: %s", error, exc_info=_unexpected(error))


def _unexpected(error: BaseException) -> BaseException | None:
    return None if isinstance(error, StokerError) else error


def _refuse_external(serve: Serve, status: int) -> None:
    if serve.base_url is not None:
        text = f"Stoker does not start '{serve.name}', so it does not stop it: it answers at its own base_url"
        raise ClientError(text, code="external_serve", status=status)
