"""How a worker is found, and which addresses are refused before anything is sent there."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from stoker_edge.discover import discover
from stoker_edge.edge import Discovery, DiscoveryCommand, DnsName, Edge, EdgeWorker, StaticAddress, WorkerAddress
from stoker_edge.probe import prove
from stoker_edge.problem import EdgeProblem


def edge(discovery: Discovery, **settings: bool) -> Edge:
    return Edge("gpu", EdgeWorker(discovery, 8000, "qwen", **settings))


def printing(*lines: str) -> DiscoveryCommand:
    return DiscoveryCommand(("printf", "%s\\n", *lines))


def found(one: Edge) -> list[str]:
    return [address.host for address in asyncio.run(discover(one))]


def problem(one: Edge) -> str:
    with pytest.raises(EdgeProblem) as failure:
        asyncio.run(discover(one))
    return failure.value.message


def test_addresses_that_may_be_used_are_found_once_each() -> None:
    assert found(edge(StaticAddress("10.0.0.7"))) == ["10.0.0.7"]
    assert found(edge(printing("10.0.0.7", "", "10.0.0.7", "fd00::7"))) == ["10.0.0.7", "fd00::7"]
    assert found(edge(printing("10.0.0.7", "8.8.8.8"))) == ["10.0.0.7"]
    assert found(edge(printing("8.8.8.8"), allow_public=True)) == ["8.8.8.8"]
    assert found(edge(StaticAddress("127.0.0.2"))) == ["127.0.0.2"]
    assert "127.0.0.1" in found(edge(DnsName("localhost"), allow_loopback=True))


@pytest.mark.parametrize(
    ("discovery", "text"),
    [
        (printing("8.8.8.8"), "8.8.8.8 is a public address, not a private one: .* or set allow_public = true in "),
        (printing(*[f"8.8.8.{n}" for n in range(10)]), "and neither is any other of the 10 addresses"),
        (printing("127.0.0.1"), "is this machine itself, .* set allow_loopback = true"),
        (printing("169.254.169.254"), "cannot be a worker's address"),
        (printing("gpu.lan"), "printed 'gpu.lan', which is not an IP address"),
        (printing(), "gave no address: type the command"),
        (printing(*[f"10.0.0.{n}" for n in range(33)]), "gave 33 addresses, at most 32 are probed"),
        (DiscoveryCommand(("no-such-program",)), "cannot be started .*: correct `command`"),
        (DiscoveryCommand(("false",)), "`false` ended with 1: type it to see why"),
        (DiscoveryCommand(("yes", "10.0.0.7")), "printed more than"),
        (DnsName("no-such-host.invalid"), "cannot be resolved .*: `getent hosts no-such-host.invalid`"),
    ],
)
def test_what_cannot_be_used_says_what_to_do(discovery: Discovery, text: str) -> None:
    with pytest.raises(EdgeProblem, match=text):
        asyncio.run(discover(edge(discovery)))


def test_a_command_that_takes_too_long_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_edge.discover.TIMEOUT", 0.3)
    script = f"import subprocess,time; subprocess.Popen(['sh','-c','sleep 1; touch {tmp_path}/late']); time.sleep(9)"
    text = problem(edge(DiscoveryCommand((sys.executable, "-c", script))))
    assert "gave no address within 0.3 s" in text
    asyncio.run(asyncio.sleep(1.2))
    assert not (tmp_path / "late").exists()


def test_a_worker_that_does_not_answer_is_named_with_the_command_that_tries_it() -> None:
    with pytest.raises(EdgeProblem, match=r"at 127.0.0.9:8000 does not answer: .*`curl http://127.0.0.9:8000/health`"):
        asyncio.run(prove(edge(StaticAddress("127.0.0.9")), [WorkerAddress("127.0.0.9", 8000)]))


def test_a_name_with_ten_addresses_gives_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are probed; which one is the worker, the probe decides."""
    ten = [f"10.0.0.{number}" for number in range(9)] + ["8.8.8.8"]

    def resolve(host: str, port: int, *details: int, **more: int) -> list[tuple[object, ...]]:
        assert host == "gpu.lan"
        return [(0, 0, 0, "", (address, port)) for address in ten]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    assert found(edge(DnsName("gpu.lan"))) == ten[:9]
