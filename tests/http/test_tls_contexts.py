"""One TLS context for each file of trusted certificates, made beside the loop, and made again once the file changes."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
from pathlib import Path

import pytest

from stoker.blocking import StillBlocked
from stoker.http.tls_contexts import CHECKED_EVERY, TlsContexts


class Maker:
    """Makes contexts, and counts them."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.threads: set[int] = set()
        self.takes = 0.0
        self.now = 0.0
        self.gate: threading.Event | None = None
        self.contexts = TlsContexts(self.make, lambda: self.now)

    def make(self, ca_file: str) -> ssl.SSLContext:
        time.sleep(self.takes)
        if self.gate is not None:
            self.gate.wait(10)
        self.made.append(ca_file)
        self.threads.add(threading.get_ident())
        if ca_file and Path(ca_file).read_text() == "broken":
            raise ssl.SSLError("no certificate")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def test_the_loop_goes_on_while_it_is_made_and_all_who_ask_share_it() -> None:
    async def tell() -> None:
        maker = Maker()
        maker.takes = 0.2
        asking = [asyncio.get_running_loop().create_task(maker.contexts.get()) for _ in range(5)]
        worst, last = 0.0, time.monotonic()
        while not all(task.done() for task in asking):
            await asyncio.sleep(0.001)
            worst, last = max(worst, time.monotonic() - last), time.monotonic()
        assert worst < 0.15
        assert len({id(task.result()) for task in asking}) == 1
        assert maker.made == [""]
        assert threading.get_ident() not in maker.threads

    asyncio.run(tell())


def test_each_file_has_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")

    async def tell() -> None:
        maker = Maker()
        assert await maker.contexts.get(str(one)) is not await maker.contexts.get(str(other))
        assert await maker.contexts.get(str(one)) is await maker.contexts.get(str(one))
        assert len(maker.made) == 2

    asyncio.run(tell())


def test_a_renewed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("old")

    async def tell() -> None:
        maker = Maker()
        first = await maker.contexts.get(str(file))
        os.utime(file, (1, 1))
        assert await maker.contexts.get(str(file)) is first, "it was looked at a moment ago"
        maker.now += CHECKED_EVERY
        second = await maker.contexts.get(str(file))
        assert second is not first
        maker.now += CHECKED_EVERY
        assert await maker.contexts.get(str(file)) is second

    asyncio.run(tell())


def test_a_file_that_is_half_written_changes_nothing_until_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("old")

    async def tell() -> None:
        maker = Maker()
        first = await maker.contexts.get(str(file))
        file.write_text("broken")
        maker.now += CHECKED_EVERY
        assert await maker.contexts.get(str(file)) is first
        file.write_text("new and whole")
        maker.now += CHECKED_EVERY
        assert await maker.contexts.get(str(file)) is not first

    asyncio.run(tell())


def test_a_file_that_was_never_readable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(TlsContexts().get(str(tmp_path / "none.pem")))


def test_the_certificates_of_the_machine_may_change_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "system.pem"
    file.write_text("old")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))

    async def tell() -> None:
        maker = Maker()
        first = await maker.contexts.get()
        file.write_text("renewed")
        maker.now += CHECKED_EVERY
        assert await maker.contexts.get() is not first

    asyncio.run(tell())


def test_a_file_that_cannot_be_opened_costs_one_thread(tmp_path: Path) -> None:
    async def tell() -> None:
        maker = Maker()
        maker.gate = threading.Event()
        before = threading.active_count()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await maker.contexts.get()
        for _ in range(20):
            with pytest.raises(StillBlocked):
                await maker.contexts.get()
        assert threading.active_count() <= before + 1
        maker.gate.set()

    asyncio.run(tell())
