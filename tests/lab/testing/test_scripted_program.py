"""The scripted model server as a process of its own: how it starts, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from stoker_lab.testing.client import FramingError, RawClient
from stoker_lab.testing.script.script import Script


@contextmanager
def program(script: Script, *more: str) -> Iterator[subprocess.Popen[str]]:
    """In a process group of its own, which is gone afterwards."""
    child = subprocess.Popen(
        [*script.command(0), *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield child
    finally:
        for member in group(child.pid):
            member.kill()
        child.communicate(timeout=5)


def group(leader: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue  # it ended while the list was read
    return found


def listens(child: subprocess.Popen[str]) -> int:
    """Its port, once it listens."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert "listens on http://127.0.0.1:" in line
    return int(line.rpartition(":")[2])


def catches_sigterm(pid: int) -> bool:
    with open(f"/proc/{pid}/status") as status:
        mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt"))
    return bool(mask >> (signal.SIGTERM - 1) & 1)


def soon(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.005)  # another process: nothing here can be waited on
    return False


@pytest.mark.parametrize("more", [[], ["--uvloop"]])
async def test_it_serves_and_ends_by_sigterm(more: list[str]) -> None:
    with program(Script(id="mine", tokens=2), *more) as child:
        async with RawClient(listens(child)) as client:
            assert (await client.ask("GET", "/v1/models")).json()["data"][0]["id"] == "mine"
            reply = await client.ask("POST", "/v1/completions", {"prompt": "x", "stream": True})
            assert b"tok1" in reply.body
            with pytest.raises((ConnectionError, FramingError)):
                await client.ask("POST", "/v1/completions", {"prompt": "script: die_how=reset die_after=1"})
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0


async def test_it_exits_at_once_with_its_last_words() -> None:
    with program(Script(exit_code=7, last_words="CUDA out of memory")) as child:
        assert child.wait(5) == 7
        out, err = child.communicate()
        assert (out, err) == ("", "CUDA out of memory\n")


async def test_it_crashes_when_its_time_is_over() -> None:
    with program(Script(crash_after=0.1, exit_code=3, last_words="illegal instruction")) as child:
        async with RawClient(listens(child)) as client:
            assert await client.read() == b""
        assert child.wait(5) == 3
        assert child.communicate()[1] == "illegal instruction\n"


async def test_it_may_ignore_sigterm_until_told_otherwise() -> None:
    with program(Script(ignore_sigterm=True)) as child:
        async with RawClient(listens(child)) as client:
            child.send_signal(signal.SIGTERM)
            assert (await client.ask("GET", "/health")).status == 200
            assert (await client.ask("POST", "/control", {"ignore_sigterm": False})).status == 200
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0


async def test_it_may_take_its_time_to_stop() -> None:
    with program(Script(stop_after=0.3)) as child:
        listens(child)
        start = time.monotonic()
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0
        assert time.monotonic() - start >= 0.3


async def test_it_may_listen_late() -> None:
    started = time.monotonic()
    with program(Script(listen_after=0.4)) as child:
        listens(child)
        assert time.monotonic() - started >= 0.4


async def test_sigterm_ends_it_before_it_listens() -> None:
    with program(Script(listen_after=60.0)) as child:
        assert soon(lambda: catches_sigterm(child.pid))
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0


async def test_a_wrapper_leaves_a_grandchild_behind_when_only_it_is_stopped() -> None:
    with program(Script(wrapper=True)) as child:
        port = listens(child)
        assert len(group(child.pid)) == 2
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == -signal.SIGTERM
        async with RawClient(port) as client:
            assert (await client.ask("GET", "/health")).status == 200
        (server,) = group(child.pid)
        os.killpg(child.pid, signal.SIGTERM)
        assert soon(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


async def test_a_wrapper_passes_on_the_exit_code() -> None:
    with program(Script(wrapper=True, exit_code=5, last_words="no")) as child:
        assert child.wait(5) == 5
        assert child.communicate()[1] == "no\n"


async def test_memory_is_really_touched() -> None:
    with program(Script(memory_mb=64)) as child:
        listens(child)
        assert psutil.Process(child.pid).memory_info().rss > 64 * 2**20


async def test_a_taken_port_is_named() -> None:
    with program(Script()) as child:
        port = listens(child)
        with program(Script(), "--port", str(port)) as second:
            assert second.wait(5) == 1
            assert f"cannot listen on 127.0.0.1:{port}" in second.communicate()[1]


async def test_a_wrong_flag_is_a_usage_error() -> None:
    with program(Script(), "--gap", "soon") as child:
        assert child.wait(5) == 2
        assert "gap = 'soon': give float" in child.communicate()[1]
