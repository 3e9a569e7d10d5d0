"""Serves that run elsewhere: found by their `base_url`, watched by their health."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from urllib.parse import urlsplit

from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker.domain.protocols import EdgeTargets
from stoker.domain.serve import Serve
from stoker.http.client import KeptConnection

START_LIMIT = 5.0
"""Seconds that a start may take at most: nothing has to be loaded."""
FIRST_POLL_INTERVAL = 0.02
MAX_POLL_INTERVAL = 0.5
POLL_INTERVAL = 5.0
"""Seconds between two checks of a serve that answers, over a connection whose end is noticed at once."""
CLOUD_POLL_INTERVAL = 30.0
"""Seconds between two checks of a cloud: each one counts as a request there."""
FAILURES = 3


def address_of(serve: Serve) -> Target:
    """The address in `base_url`, without a trailing `/v1`, which is part of the request paths. Raises StartFailed."""
    url = urlsplit(serve.base_url or "")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if url.scheme not in ("http", "https") or not host:
        raise StartFailed(
            f"serve '{serve.name}' has no usable base_url: write it like \"http://host:port/v1\"", code="cannot_start"
        )
    path = url.path.rstrip("/").removesuffix("/v1")
    tls = url.scheme == "https"
    key = serve.key.reveal() if serve.key else None
    name = serve.served_name or serve.name
    return Target(
        host, port or (443 if tls else 80), path, name, key, tls, key_header=serve.key_header,
        is_replica_elsewhere=bool(serve.replica_of),
    )  # fmt: skip


async def locate(serve: Serve, edges: EdgeTargets | None) -> Target:
    """The serve's address; behind an edge, the present address of its worker. Raises StartFailed."""
    name = serve.edge
    if name is None:
        return address_of(serve)
    if edges is None:
        raise StartFailed(f"serve '{serve.name}': this program follows no edges", code="cannot_start")
    return on_worker(serve, await edges.target(name))


def on_worker(serve: Serve, worker: Target) -> Target:
    """The serve's target on this worker: its own key, or else that of the edge."""
    key = serve.key.reveal() if serve.key else worker.key
    return replace(worker, served_name=serve.served_name or serve.name, key=key, key_header=serve.key_header)


class ExternalWatch:
    """Asks `is_healthy` every POLL_INTERVAL seconds, and at once when `connection` is closed, over which it asks. Once
    the serve does not answer, or where it keeps no connection, every MAX_POLL_INTERVAL seconds.

    After FAILURES negative answers in a row it calls `on_lost()`, once, and ends. A process that ends closes its
    connections, so its loss is noticed within two intervals of MAX_POLL_INTERVAL.
    """

    def __init__(
        self,
        name: str,
        is_healthy: Callable[[], Awaitable[bool]],
        on_lost: Callable[[], None],
        connection: KeptConnection | None,
    ) -> None:
        """`connection`: None for a cloud, which is asked every CLOUD_POLL_INTERVAL seconds, whatever it answers."""
        self._connection = connection
        self._is_healthy = is_healthy
        self._on_lost = on_lost
        self._task = asyncio.get_running_loop().create_task(self._watch(), name=f"health-{name}")

    async def close(self) -> None:
        """Stops watching; returns when no check is under way."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (failure := self._task.exception()) is not None:
            raise failure

    async def _watch(self) -> None:
        pause = retry = FIRST_POLL_INTERVAL
        failures = 0
        try:
            while failures < FAILURES:
                await self._pause(pause)
                if await self._is_healthy():
                    failures, pause, retry = 0, POLL_INTERVAL, MAX_POLL_INTERVAL
                else:
                    retry = min(retry * 2, MAX_POLL_INTERVAL)
                    failures, pause = failures + 1, retry
        finally:
            if self._connection is not None:
                self._connection.close()
        self._on_lost()

    async def _pause(self, seconds: float) -> None:
        """Ends early if the connection does, but not before a check could be due where none is kept."""
        if self._connection is None:
            await asyncio.sleep(CLOUD_POLL_INTERVAL)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + min(seconds, MAX_POLL_INTERVAL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._connection.closed()
        await asyncio.sleep(due - loop.time())
