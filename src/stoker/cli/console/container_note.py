"""Whether the container of a serve is as it should be, for `serves up` and `doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.domain.access import Paths
    from stoker.domain.serve import Serve
    from stoker.fleet.drivers.container_driver import ContainerDriver


def container_note(serve: Serve, paths: Paths) -> str:
    """What is not as it should be with its running container; empty: nothing, or it does not run."""
    import asyncio

    from stoker.fleet.drivers.containers import ContainerMatch, ContainerState

    found = asyncio.run(container_driver(paths).inspect(serve))
    if found.state is ContainerState.PAUSED:
        return f"container '{serve.container}' is paused, so it answers no request; a running Stoker resumes it"
    if found.state is ContainerState.RUNNING and found.match is ContainerMatch.CHANGED:
        return f"container '{serve.container}' runs on, but {found.why}"
    return ""


def container_driver(paths: Paths) -> ContainerDriver:
    """Docker as the running Stoker asks it, for questions of a command."""
    import logging

    from stoker.fleet.drivers.container_driver import ContainerDriver
    from stoker.fleet.process.identity import Keys, KeySigner

    key = Path(paths.state) / "signing.key"  # without it nothing was ever made by us, and any key will do
    keys = Keys(KeySigner(lambda: key.read_bytes() if key.exists() else bytes(32)))
    return ContainerDriver(paths, keys, logging.getLogger("stoker.fleet"), lambda: ())
