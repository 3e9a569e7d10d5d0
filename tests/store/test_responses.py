"""The file of stored responses: its owners, its bounds, and its life across restarts."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stoker.domain.access import ResponseStorage
from stoker.domain.errors import StokerError
from stoker.store.responses import EntryKind, ResponseStore

RESPONSE = EntryKind.RESPONSE


class Wall:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def with_store(
    directory: Path, work: Callable[[ResponseStore, Wall], Awaitable[None]], storage: ResponseStorage | None = None
) -> None:
    async def main() -> None:
        wall = Wall()
        store = ResponseStore(directory, wall)
        store.configure(storage or ResponseStorage(store=True))
        try:
            await work(store, wall)
        finally:
            store.close()

    asyncio.run(main())


def test_an_entry_belongs_to_one_owner_and_survives_a_restart(tmp_path: Path) -> None:
    async def write(store: ResponseStore, wall: Wall) -> None:
        assert await store.write("ann", RESPONSE, "resp_1", lambda: b"text")

    async def read(store: ResponseStore, wall: Wall) -> None:
        assert await store.read("ann", RESPONSE, "resp_1") == b"text"
        assert await store.read("bob", RESPONSE, "resp_1") is None
        assert await store.read("", RESPONSE, "resp_1") is None
        assert await store.read("ann", EntryKind.CONVERSATION, "resp_1") is None
        assert not await store.delete("bob", RESPONSE, "resp_1")
        assert await store.delete("ann", RESPONSE, "resp_1")
        assert await store.read("ann", RESPONSE, "resp_1") is None

    with_store(tmp_path, write)
    with_store(tmp_path, read)


def test_what_is_too_old_is_gone_at_once_and_then_deleted(tmp_path: Path) -> None:
    async def work(store: ResponseStore, wall: Wall) -> None:
        await store.write("ann", RESPONSE, "resp_1", lambda: b"text")
        wall.now += 101
        assert await store.read("ann", RESPONSE, "resp_1") is None
        async with asyncio.TaskGroup() as tasks:
            pruning = tasks.create_task(store.run())
            while (status := store.status()) is not None and status["entries"]:
                await asyncio.sleep(0)
            pruning.cancel()

    with_store(tmp_path, work, ResponseStorage(store=True, keep=100))


def test_beyond_the_bound_the_oldest_of_the_owner_that_has_most_are_deleted(tmp_path: Path) -> None:
    async def work(store: ResponseStore, wall: Wall) -> None:
        await store.write("bob", RESPONSE, "resp_b", lambda: b"x" * 1000)
        for at in range(5):
            wall.now += 1
            assert await store.write("ann", RESPONSE, f"resp_{at}", lambda: b"x" * 2000)
        status = store.status()
        assert status is not None
        assert status["bytes"] <= status["max_bytes"] == 10_000
        assert await store.read("bob", RESPONSE, "resp_b") is not None
        assert await store.read("ann", RESPONSE, "resp_0") is None
        assert await store.read("ann", RESPONSE, "resp_4") is not None
        assert not await store.write("ann", RESPONSE, "resp_5", lambda: b"x" * 10_000)

    with_store(tmp_path, work, ResponseStorage(store=True, max_bytes=10_000))


def test_a_change_that_fails_leaves_the_record(tmp_path: Path) -> None:
    async def work(store: ResponseStore, wall: Wall) -> None:
        await store.write("ann", RESPONSE, "resp_1", lambda: b"text")
        with pytest.raises(StokerError):
            await store.change("ann", RESPONSE, "resp_1", lambda record: (b"x" * 10_000, None))
        assert await store.read("ann", RESPONSE, "resp_1") == b"text"
        await store.forget("ann")
        assert await store.read("ann", RESPONSE, "resp_1") is None

    with_store(tmp_path, work, ResponseStorage(store=True, max_bytes=10_000))


def test_nothing_is_created_where_nothing_is_stored(tmp_path: Path) -> None:
    async def work(store: ResponseStore, wall: Wall) -> None:
        assert not store.is_open
        await store.forget("ann")

    with_store(tmp_path, work, ResponseStorage())
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_set_aside_and_the_files_are_private(tmp_path: Path) -> None:
    async def work(store: ResponseStore, wall: Wall) -> None:
        assert await store.write("ann", RESPONSE, "resp_1", lambda: b"text")
        modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "responses").glob("responses.db")}
        assert modes == {0o600}

    directory = tmp_path / "responses"
    directory.mkdir(mode=0o700)
    (directory / "responses.db").write_bytes(b"no database" * 1000)
    with_store(tmp_path, work)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(list(directory.glob("responses.db.broken*"))) == 1
