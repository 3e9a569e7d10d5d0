"""What a running serve is: asked of its engine, read off its files, as a fingerprint."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from stoker.disk.hashes import HashCache
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.fleet.engines.launch import find_command
from stoker.fleet.engines.llama_cpp import SERVER
from stoker.http import client
from stoker.measure.artifacts import fingerprint as marks
from stoker.measure.artifacts.fingerprint import EngineReport

PAGES = ("props", "v1/models", "version")
"""Where engines say what they are, in the order of `Told`."""


class NoEntry(Exception):
    """The address wants another key."""


async def identify(serve: Serve, address: Target, state: Path) -> Fingerprint:
    """Weights are hashed once, on a thread: a second per gigabyte or so. Raises NoEntry."""
    told = await ask(address)

    def made() -> Fingerprint:
        return marks.fingerprint(serve, told, HashCache(state).hash_all(marks.identity_files(serve)), packages(serve))

    return await asyncio.to_thread(made)


async def ask(address: Target, pages: Collection[str] = PAGES) -> EngineReport:
    """What an engine says of itself on those pages; what it does not have is None. Raises NoEntry."""
    asked = [page for page in PAGES if page in pages]
    said = dict(zip(asked, await asyncio.gather(*(_json(address, page) for page in asked)), strict=True))
    return EngineReport(*(said.get(page) for page in PAGES))


async def _json(address: Target, page: str) -> Any:
    try:
        answer = await client.ask(address, f"/{page}", timeout=10.0)
    except client.NoResponse:
        return None
    if answer.status == 401:
        raise NoEntry
    return answer.json() if answer.status == 200 else None


def packages(serve: Serve) -> dict[str, str]:
    """Versions of what its engine is made of, where that lies in our own environment."""
    if serve.engine != "llama.cpp" or serve.cmd is not None or (not serve.embedded and find_command(serve, SERVER)):
        return {}
    try:
        return {"xllamacpp": version("xllamacpp")}
    except PackageNotFoundError:
        return {}
