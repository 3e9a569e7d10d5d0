"""A worker at an address that changes: Stoker here and its engine there, or Stoker there and an ingress here."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.edge.ingresses import NGINX, configuration, free_port
from tests.edge.ingresses import running as running_ingress
from tests.scenarios.caller import Talk, ask, story
from tests.scenarios.plane import STOKER, Plane, config, running, serve, until

from stoker_edge.edge import IngressKind
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


@asynccontextmanager
async def engine(port: int, host: str, **script: Any) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(Script(id="qwen", text=f"{host[-1]}:").amended(script), host=host, port=port)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def edge(port: int, addresses: Path) -> str:
    return f"""[edge.gpu]
command = ["cat", "{addresses}"]
port = {port}
model = "qwen"
allow_loopback = true

[[serve]]
name = "qwen"
base_url = "edge:gpu"
max_active = 8"""


def edge_of(plane: Plane) -> dict[str, Any]:
    return dict(plane.status()["edges"][0])


def kinds(plane: Plane) -> set[str]:
    """Of the events so far."""
    return {event["kind"] for event in plane.status()["events"]}


@story
async def test_a_serve_behind_an_edge_follows_its_worker_without_a_restart(tmp_path: Path) -> None:
    """Streams end where they began; new requests go to the new address; a discovery that fails keeps the last one."""
    port, addresses = free_port(*HOSTS), tmp_path / "addresses"
    addresses.write_text("127.0.0.2\n")
    async with engine(port, "127.0.0.2") as first, engine(port, "127.0.0.3") as second:
        with running(edge(port, addresses), environment={}) as plane:
            pid = plane.status()["pid"]
            assert "2:0" in (await ask(plane, "qwen")).body.decode()
            async with Talk(plane, "qwen", "script: gap=0.05 tokens=200", stream=True) as talk:
                await first.until(lambda counters: counters.started >= 2)
                addresses.write_text("127.0.0.3\n")
                await until(lambda: "moved" in kinds(plane), "the serve has moved")
                assert plane.serve("qwen")["in_flight"] == 1
                assert "3:0" in (await ask(plane, "qwen")).body.decode()
                assert (await talk.text()).count("2:") == 200
            assert plane.status()["pid"] == pid
            addresses.write_text("not an address\n")
            await until(lambda: edge_of(plane)["problem"], "the failed discovery shows")
            seen = edge_of(plane)
            assert (seen["address"], "which is not an IP address" in seen["problem"]) == (f"127.0.0.3:{port}", True)
            assert (await ask(plane, "qwen")).status == 200
            said = await asyncio.to_thread(plane.run, "serves", "status")
            assert f"edge gpu stays at 127.0.0.3:{port}: edge 'gpu': `cat {addresses}` printed" in said.stdout
            await first.close()  # no connection that is kept for the next request is left to them
            await second.close()


def stoker_there(host: str) -> str:
    """Front door of a Stoker that only the ingress reaches."""
    return f'''host = "{host}"
keys = [{{ name = "team", value = "env:TEAM_KEY" }}]
allowed_hosts = ["llm.example", "app.example", "{host}"]'''


@pytest.mark.skipif(NGINX is None, reason="no nginx here: apt-get install nginx-light")
def test_an_ingress_follows_a_stoker_that_runs_on_the_worker(tmp_path: Path) -> None:
    """The team's key goes through the ingress; the route answers as before once Stoker runs somewhere else."""
    key = {"TEAM_KEY": "team-key-of-24-characters"}
    there = [
        running(serve("qwen", slot=None), front_door=stoker_there(host), environment=key, started=False)
        for host in HOSTS[1:]
    ]
    with there[0] as first, there[1] as second, running_ingress(IngressKind.NGINX, tmp_path) as ingress:
        edges = tmp_path / "edges.toml"
        edges.write_text(configuration(ingress, health='"/healthz"', key='"env:TEAM_KEY"'))
        for plane, host in ((first, "127.0.0.2"), (second, "127.0.0.3")):
            plane.port = ingress.worker_port
            plane.write(config(serve("qwen", slot=None), front_door=stoker_there(host)))
            plane.start()
            ingress.move_worker(host)
            command = [STOKER, "route-sync", "--config", edges]
            done = subprocess.run(command, env={**os.environ, **key}, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stdout) == (
                0, f"gpu: switched to {host}:{ingress.worker_port}, verified through the public route\n"
            ), done.stderr  # fmt: skip
            assert {one["key"] for one in plane.decisions()} == {"team"}
