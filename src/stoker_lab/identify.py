"""Fingerprints a running serve: asks its engine, and reads its files."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

from stoker.blocking import in_own_thread
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.engines.registry import engine_of
from stoker.http import client
from stoker.store.files.hashes import HashCache
from stoker_lab.artifacts import fingerprint as marks
from stoker_lab.artifacts.fingerprint import EngineReport

PAGES = ("props", "v1/models", "version")
"""Where engines say what they are, in the order of the fields of `EngineReport`."""


class KeyRejected(Exception):
    """The engine wants another key."""


async def identify(serve: Serve, target: Target, state: Path) -> Fingerprint:
    """Weights are hashed once, on a thread, at about a gigabyte per second. Raises KeyRejected."""
    report = await ask(target)

    def made() -> Fingerprint:
        return marks.fingerprint(serve, report, HashCache(state).hash_all(marks.identity_files(serve)), packages(serve))

    return await in_own_thread(made)


async def ask(target: Target, pages: Collection[str] = PAGES) -> EngineReport:
    """What an engine says of itself on those pages; None for a page that it does not have. Raises KeyRejected."""
    asked = [page for page in PAGES if page in pages]
    said = dict(zip(asked, await asyncio.gather(*(_json(target, page) for page in asked)), strict=True))
    return EngineReport(*(said.get(page) for page in PAGES))


async def _json(target: Target, page: str) -> Any:
    try:
        answer = await client.ask(target, f"/{page}", timeout=10.0)
    except client.NoResponse:
        return None
    if answer.status == 401:
        raise KeyRejected
    return answer.json() if answer.status == 200 else None


def packages(serve: Serve) -> dict[str, str]:
    """Versions of the packages that its engine consists of, if they are in our own environment."""
    package = engine_of(serve.engine).package(serve)
    if package is None:
        return {}
    from importlib.metadata import PackageNotFoundError, version  # zipfile and email come with it

    try:
        return {package: version(package)}
    except PackageNotFoundError:
        return {}
