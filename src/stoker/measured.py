"""Keeps what routing knows of its tiers in step with what runs: the fingerprint of each serve that is up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.engines.http import Address
from stoker.identify import NoEntry, identify
from stoker.routing import Routing

log = logging.getLogger("stoker.routing")


class Measured:
    """Owns one task per serve that is being looked at; `close` ends them. What is not known counts for nothing."""

    def __init__(self, state: Path, target: Callable[[str], Target | None]) -> None:
        self.routing: Routing | None = None
        self._state = state
        self._target = target
        self._looking: dict[str, asyncio.Task[None]] = {}

    def on_ready(self, name: str) -> None:
        """A serve came up, or was adopted."""
        self.on_stopped(name)
        serve = self._tier_of(name)
        target = self._target(name)
        if serve is not None and target is not None and not serve.translation.cloud:
            loop = asyncio.get_running_loop()
            self._looking[name] = loop.create_task(self._look(serve, target), name=f"identify-{name}")

    def on_stopped(self, name: str) -> None:
        task = self._looking.pop(name, None)
        if task is not None:
            task.cancel()
        if self.routing is not None:
            self.routing.fingerprints.pop(name, None)

    async def close(self) -> None:
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tier_of(self, name: str) -> Serve | None:
        if self.routing is None:
            return None
        return next((self.routing.serve(tier) for tier in self.routing.router.tiers if tier.serve == name), None)

    async def _look(self, serve: Serve, target: Target) -> None:
        address = Address(target.host, target.port, target.base_path, target.key, target.tls, target.key_header)
        try:
            found = await identify(serve, address, self._state)
        except (NoEntry, OSError) as error:
            log.warning("what serve %s is cannot be told (%r): its answers are checked", serve.name, error)
            return
        if self.routing is not None:
            self.routing.fingerprints[serve.name] = found
