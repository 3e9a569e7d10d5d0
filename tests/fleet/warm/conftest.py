"""Files whose pages can be told to leave the page cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.fleet.warm import pages

MIB = 2**20
Write = Callable[..., str]


@pytest.fixture(scope="session")
def cold_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where files in the temporary directory cannot be made cold."""
    probe = tmp_path_factory.mktemp("cold") / "probe"
    probe.write_bytes(bytes(MIB))
    pages.evict(str(probe))
    if pages.cached_share(str(probe)) != 0.0:
        pytest.skip("the temporary directory's file system does not evict pages (tmpfs), or does not tell")


@pytest.fixture
def write(tmp_path: Path, cold_directory: None) -> Write:
    """Writes a file of random bytes, out of the page cache unless `cached`."""

    def one(name: str, size: int, cached: bool = False) -> str:
        path = tmp_path / name
        path.write_bytes(os.urandom(size))
        pages.evict(str(path))
        assert pages.cached_share(str(path)) == 0.0
        if cached:
            path.read_bytes()
        return str(path)

    return one
