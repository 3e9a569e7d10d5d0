"""One Stoker replaces another: no client notices more than a wait."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.scenarios.caller import Talk, ask, story
from tests.scenarios.plane import PATIENCE, LocalConnection, Plane, poll, running, serve, until

SHORT = "script: gap=0.01 tokens=30"
LONG = "script: gap=0.01 tokens=150"


def replace(plane: Plane) -> None:
    """Start another Stoker in the place of the one that runs, and wait for the end of that one."""
    before = plane.process
    assert before is not None
    plane.start("--config", str(plane.config), "--replace")
    assert before.wait(PATIENCE) == 0


async def streams(plane: Plane, count: int, ended: asyncio.Event) -> list[str]:
    """The text of each stream that `count` clients read, one after the other, until `ended`."""
    found: list[str] = []

    async def client() -> None:
        while not ended.is_set():
            async with Talk(plane, "a", SHORT, stream=True) as talk:
                found.append(await talk.text())

    await asyncio.gather(*(client() for _ in range(count)))
    return found


@story
async def test_restarts_under_streams_refuse_no_connection_and_cut_no_stream() -> None:
    with running(serve("a", max_active=64)) as plane:
        await ask(plane, "a")
        pid, ended = plane.serve("a")["pid"], asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            clients = tasks.create_task(streams(plane, 16, ended))
            for _ in range(3):
                await asyncio.to_thread(replace, plane)
            ended.set()
        texts = clients.result()
        assert len(texts) >= 32
        assert len(set(texts)) == 1, "every stream is complete"
        assert (plane.serve("a")["pid"], plane.starts("a")) == (pid, 1)


@story
async def test_an_idle_connection_moves_and_goes_on_with_the_new_process() -> None:
    with running(serve("a")) as plane:
        connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=PATIENCE)
        connection.auto_open = 0
        connection.connect()
        for _ in range(3):
            connection.request("GET", "/healthz")
            reply = connection.getresponse()
            assert (reply.status, json.loads(reply.read())) == (200, {"status": "ok"})
            await asyncio.to_thread(replace, plane)
        connection.close()


@story
async def test_a_request_under_way_keeps_its_connection_and_the_next_one_uses_it_with_the_new_process() -> None:
    with running(serve("a")) as plane:
        await ask(plane, "a")
        connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=PATIENCE)
        connection.auto_open = 0
        connection.connect()
        body = json.dumps({"model": "a", "messages": [{"role": "user", "content": LONG}]})
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        await asyncio.to_thread(replace, plane)
        for _ in range(2):
            reply = connection.getresponse()
            assert reply.status == 200
            reply.read()
            connection.request("GET", "/healthz")
        connection.getresponse().read()
        connection.close()


@story
async def test_requests_that_wait_for_a_place_are_served_not_refused() -> None:
    with running(serve("a", max_active=1)) as plane:
        async with Talk(plane, "a", LONG, stream=True) as talk, asyncio.TaskGroup() as tasks:
            await talk.event()
            waiting = [tasks.create_task(ask(plane, "a")) for _ in range(4)]
            await until(lambda: plane.serve("a")["queued"] == 4, "they wait")
            await asyncio.gather(asyncio.to_thread(replace, plane), talk.rest())
        assert [request.result().status for request in waiting] == [200] * 4


@story
async def test_if_the_new_process_dies_first_the_old_one_goes_on() -> None:
    with running(serve("a")) as plane:
        await ask(plane, "a")
        old = plane.process
        async with Talk(plane, "a", LONG, stream=True) as talk, asyncio.TaskGroup() as tasks:
            await talk.event()
            new = plane.begin("up", "--replace")
            poll(lambda: "no more connections are accepted" in plane.log("stoker"), "it is being replaced")
            waiting = tasks.create_task(ask(plane, "a"))
            new.kill()
            assert (await waiting).status == 200, "who connected meanwhile is served"
            await talk.rest()
        assert old is plane.process
        assert old is not None
        assert old.poll() is None
        assert "which goes on" in plane.log("stoker")
        await asyncio.to_thread(replace, plane)


@story
async def test_if_the_old_process_is_stopped_meanwhile_the_new_one_takes_over_when_it_has_ended() -> None:
    with running(serve("a")) as plane:
        old = plane.process
        assert old is not None
        async with Talk(plane, "a", LONG, stream=True) as talk, asyncio.TaskGroup() as tasks:
            await talk.event()
            new = tasks.create_task(asyncio.to_thread(plane.start, "--config", str(plane.config), "--replace"))
            await until(lambda: "no more connections are accepted" in plane.log("stoker"), "it is being replaced")
            async with Talk(plane, "a") as late:
                old.terminate()
                await talk.rest()
                await new
                assert (await late.reply()).status == 200
        assert old.wait(PATIENCE) == 0
        assert plane.status()["serves"][0]["name"] == "a", "commands reach it"


@story
async def test_a_replacement_at_another_address_is_refused_and_changes_nothing() -> None:
    with running(serve("a")) as plane:
        done = await asyncio.to_thread(plane.run, "up", "--replace", "--port", "1")
        assert done.returncode == 1
        assert f"this Stoker listens on 127.0.0.1:{plane.port}, the new one would listen on 127.0.0.1:1" in done.stdout
        assert (await ask(plane, "a")).status == 200


@story
async def test_only_the_control_socket_may_ask_for_the_sockets() -> None:
    with running(serve("a")) as plane:
        connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=PATIENCE)
        body = json.dumps({"host": "127.0.0.1", "port": plane.port, "process": 1})
        connection.request("POST", "/admin/hand-over", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        assert (reply.status, json.loads(reply.read())["error"]["code"]) == (403, "local_only")
        connection.close()


@story
async def test_a_new_process_that_takes_nothing_is_forgotten_after_the_grace() -> None:
    with running(serve("a"), front_door='shutdown_grace = "300ms"') as plane:
        body = json.dumps({"host": "127.0.0.1", "port": plane.port, "process": 1})
        other = LocalConnection(plane.state / "stoker.sock")
        other.request("POST", "/admin/hand-over", body, {"content-type": "application/json"})
        assert other.getresponse().status == 200
        assert (await ask(plane, "a")).status == 200
        other.close()


@story
async def test_where_no_stoker_runs_replacing_one_is_a_start() -> None:
    with running(serve("a"), started=False) as plane:
        plane.start("--config", str(plane.config), "--replace")
        assert (await ask(plane, "a")).status == 200


# -- systemd keeps the socket ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def activated(plane: Plane, listening: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    """`stoker up` as systemd starts it with a socket: descriptor 3, and two variables."""
    command = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", str(Path(sys.executable).with_name("stoker"))]
    with (plane.directory / "activated.txt").open("ab") as out:
        process = subprocess.Popen(
            [*command, "up", "--config", str(plane.config), "--leave-running"],
            env=plane.environment, preexec_fn=lambda: os.dup2(listening.fileno(), 3), pass_fds=(3,),
            stdout=out, stderr=out,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@story
async def test_with_a_socket_that_systemd_keeps_a_restart_serves_who_waits_and_who_comes_meanwhile() -> None:
    with running(serve("a", max_active=1), started=False) as plane:
        listening = socket.create_server(("127.0.0.1", plane.port), backlog=128)
        with listening, activated(plane, listening) as first:
            async with Talk(plane, "a", LONG, stream=True) as talk, asyncio.TaskGroup() as tasks:
                await talk.event()
                waiting = tasks.create_task(ask(plane, "a"))
                await until(lambda: plane.serve("a")["queued"] == 1, "it waits")
                first.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.1)  # the signal is handled; that is not visible from outside
                late = tasks.create_task(ask(plane, "a"))
                await talk.rest()
                assert (await waiting).status == 200
                assert await asyncio.to_thread(first.wait, PATIENCE) == 0
                assert not late.done()
                with activated(plane, listening) as second:
                    assert (await late).status == 200
                    second.send_signal(signal.SIGTERM)
                    assert await asyncio.to_thread(second.wait, PATIENCE) == 0
        plane.start()
        assert plane.starts("a") == 1
