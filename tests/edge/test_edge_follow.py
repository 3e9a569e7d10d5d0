"""The address of a worker for the serves behind its edge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker_edge import follow
from stoker_edge.edge import DiscoveryCommand, Edge, EdgeWorker
from stoker_edge.follow import EdgeFollower
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer


def edge(port: int, addresses: Path) -> Edge:
    return Edge("gpu", EdgeWorker(DiscoveryCommand(("cat", str(addresses))), port, "qwen", allow_loopback=True))


def test_the_first_question_finds_the_worker_and_later_ones_keep_its_address(tmp_path: Path) -> None:
    async def body() -> None:
        addresses = tmp_path / "addresses"
        server = ScriptedServer(Script(id="qwen"), host="127.0.0.2")
        await server.start()
        follower = EdgeFollower(FakeClock())
        follower.configure([edge(server.port, addresses)], ["gpu"])
        with pytest.raises(StartFailed, match="type it to see why"):
            await follower.target("gpu")
        addresses.write_text("127.0.0.2\n")
        assert (await follower.target("gpu")).host == "127.0.0.2"
        addresses.unlink()
        assert (await follower.target("gpu")).host == "127.0.0.2"
        await server.close()

    asyncio.run(body())


def test_a_failed_look_keeps_the_last_address_and_says_what_is_wrong(tmp_path: Path) -> None:
    async def body() -> None:
        addresses = tmp_path / "addresses"
        addresses.write_text("127.0.0.2\n")
        server = ScriptedServer(Script(id="qwen"), host="127.0.0.2")
        await server.start()
        follower, proved = EdgeFollower(FakeClock()), asyncio.Queue[Target]()

        async def on_proved(name: str, target: Target) -> None:
            assert name == "gpu"
            proved.put_nowait(target)

        follower.configure([edge(server.port, addresses)], ["gpu"])
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(follower.run(on_proved))
            assert (await asyncio.wait_for(proved.get(), 5)).port == server.port
            addresses.write_text("8.8.8.8\n")
            follower.wake()
            while not follower.status()[0]["problem"]:
                await asyncio.sleep(0.02)
            (seen,) = follower.status()
            assert seen["address"] == f"127.0.0.2:{server.port}"
            assert "8.8.8.8 is a public address" in seen["problem"]
            assert proved.empty()
            running.cancel()
        await server.close()

    asyncio.run(body())


def test_an_edge_that_changes_is_found_again_and_one_that_nothing_uses_is_dropped(tmp_path: Path) -> None:
    async def body() -> None:
        addresses = tmp_path / "addresses"
        addresses.write_text("127.0.0.2\n")
        server = ScriptedServer(Script(id="qwen"), host="127.0.0.2")
        await server.start()
        follower = EdgeFollower(FakeClock())
        follower.configure([edge(server.port, addresses)], ["gpu"])
        await follower.target("gpu")
        follower.configure([edge(server.port, addresses)], ["gpu"])
        assert follower.status()[0]["address"]
        follower.configure([edge(server.port, tmp_path / "other")], ["gpu"])
        assert follower.status()[0]["address"] is None
        follower.configure([edge(server.port, addresses)], [])
        assert follower.status() == []
        with pytest.raises(StartFailed, match="there is no edge 'gpu'"):
            await follower.target("gpu")
        await server.close()

    asyncio.run(body())


@pytest.mark.parametrize("turns", range(8))
def test_it_ends_when_it_is_cancelled_also_in_the_moment_in_which_it_is_woken(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a reload that is followed by the end of Stoker. `turns`: of the event loop, between the two."""
    monkeypatch.setattr(follow, "AT_ONCE", 0.0)

    async def on_proved(name: str, target: Target) -> None:
        raise AssertionError("there is no edge")

    async def story() -> None:
        follower = EdgeFollower(FakeClock())
        running = asyncio.get_running_loop().create_task(follower.run(on_proved))
        for _ in range(10):
            await asyncio.sleep(0)  # until it waits for an edge
        follower.wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        assert (await asyncio.wait([running], timeout=5.0))[0], "it goes on"

    asyncio.run(story())
