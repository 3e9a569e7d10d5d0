"""Wrong input: a clear error, in the caller's dialect or on the terminal, with what to do next; all else goes on."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.caller import PATHS, STREAMING, ask, document, story
from tests.scenarios.plane import MODELS, Plane, llama, running, serve
from tests.scenarios.preloaded import Command

from stoker_lab.testing.client import RawClient, compose_request
from stoker_lab.testing.script.script import Script


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("a", slot=None),
        serve("vectors-only", slot=None, dialects=["embeddings"]),
        serve("exits", slot="x1", cmd=["sh", "-c", "echo 'cannot open the frobnicator' >&2; exit 7; : {port}"]),
        serve("never", Script(never_ready=True), slot="x2", ready_timeout="1500ms"),
        serve("deaf", Script(listen_after=60), slot="x3", ready_timeout="500ms"),
        serve("other-id", Script(shown_id="llama-99"), slot="x4"),
        serve("no-command", slot="x5", cmd="no-such-program-anywhere --port {port}"),
        serve("blocked", slot="x6", status="blocked-crashes the driver"),
        serve("locked", Script(api_key="right"), slot="x7"),
        llama("no-weights", slot="x8", model="gone"),
        slots="\n".join(f"[slots.x{number}]" for number in range(1, 9)),
        front_door='body_limit = "100KiB"',
        keeps_engines=True,
    ) as plane:
        yield plane


@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_a_wrong_request_is_told_in_its_dialect_and_the_next_one_is_served(plane: Plane, dialect: str) -> None:
    """Behaviour 40, and the list of wrong requests."""
    path = PATHS[dialect]
    right = document("a", dialect=dialect)
    wrong: list[tuple[object, int, str, str]] = [
        ({**right, "model": "aa"}, 404, "unknown_model", "'a'"),
        ({**right, "model": 5}, 400, "bad_model", "model"),
        ({**right, "model": None}, 400, "bad_model", "model"),
        ({key: value for key, value in right.items() if key != "model"}, 400, "bad_model", "model"),
        ({**right, "stream": "yes"}, 400, "bad_field", "stream"),
        ([1, 2], 400, "bad_json", "object"),
        ({**right, "pad": "x" * 110_000}, 413, "body_too_large", "body_limit"),
    ]
    for given, status, code, word in wrong:
        async with RawClient(plane.port, timeout=30) as client:
            await client.send(compose_request("POST", path, given))
            reply = await client.reply()
        error = reply.json()["error"]
        assert (reply.status, error["code"], error["source"]) == (status, code, "stoker"), given
        assert word in error["message"], error
        assert (reply.json().get("type") == "error") == (dialect == "messages")
        assert reply.header("x-request-id") is not None
    for body in (b"", b"{", b'{"model": "a",}', b'{"model": "a"} x', b"\xff\xfe", b'{"model": "\xff"}', b'{"a": NaN}'):
        async with RawClient(plane.port, timeout=30) as client:
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            await client.send(head.encode() + body)
            reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "bad_json"), (body, reply)
    assert (await ask(plane, "a", dialect=dialect)).status == 200


@story
async def test_a_dialect_that_the_serve_does_not_speak_is_refused_by_name(plane: Plane) -> None:
    """Where no translation helps it is said, and nothing is started for it."""
    reply = await ask(plane, "vectors-only", dialect="messages")
    error = reply.json()["error"]
    assert (reply.status, error["code"]) == (400, "dialect_not_spoken")
    assert "vectors-only" in error["message"]
    assert "it speaks embeddings" in error["message"]
    assert plane.starts("vectors-only") == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/status", 405),
        ("GET", "/nothing/here", 404),
        ("POST", "/v1/audio/nothing", 404),
        ("GET", "/v1/models/unheard", 404),
        ("GET", "/upstream/unheard/health", 404),
    ],
)
@story
async def test_a_wrong_path_or_method_is_said(plane: Plane, method: str, path: str, status: int) -> None:
    """And the connection can be used again, or is closed in order."""
    async with RawClient(plane.port, timeout=30) as client:
        reply = await client.ask(method, path)
    assert (reply.status, reply.json()["error"]["source"]) == (status, "stoker")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("exits", "start_failed", ["exited with code 7", "cannot open the frobnicator"]),
        ("never", "start_failed", ["1.5 s", "ready_timeout", "503"]),
        ("deaf", "start_failed", ["0.5 s", "ready_timeout"]),
        ("other-id", "start_failed", ["'other-id'", "'llama-99'", "served_name"]),
        ("no-command", "cannot_load", ["no-such-program-anywhere", "PATH"]),
        ("blocked", "needs_force", ["crashes the driver", "--force"]),
        ("locked", "start_failed", ["key"]),
        ("no-weights", "cannot_load", ["gone.gguf"]),
    ],
)
@story
async def test_an_engine_that_cannot_come_up_is_explained_and_what_ran_keeps_running(
    plane: Plane, name: str, code: str, words: list[str]
) -> None:
    """To whoever asked, and where it concerns the engine in /status too; nothing of the failed start is left."""
    await ask(plane, "a")
    pid = plane.serve("a")["pid"]
    for dialect in ("chat", "messages"):
        reply = await ask(plane, name, dialect=dialect)
        assert reply.status == (403 if code == "needs_force" else 503), reply
        error = reply.json()["error"]
        assert (error["code"], error["source"]) == (code, "stoker"), error
        assert all(word in error["message"] for word in words), error["message"]
        assert name in error["message"]
        if code != "start_failed":
            continue
        assert error["message"] == plane.serve(name)["last_error"]
        break  # the second attempt would wait for the back-off
    assert list(plane.processes()) == [pid]
    assert (plane.serve("a")["state"], (await ask(plane, "a")).status) == ("ready", 200)


@story
async def test_many_engines_that_exit_at_once_each_tell_their_own_reason() -> None:
    """However late the one who waits comes to look: it is never taken for a stop that somebody asked for."""
    names = [f"x{number}" for number in range(12)]
    quits = ["sh", "-c", "echo 'no frobnicator' >&2; exit 7; : {port}"]
    with running(*(serve(name, slot=None, cmd=quits) for name in names)) as plane:
        for reply in await asyncio.gather(*(ask(plane, name) for name in names)):
            error = reply.json()["error"]
            assert (reply.status, error["code"]) == (503, "start_failed"), error
            assert "exited with code 7" in error["message"]
            assert "no frobnicator" in error["message"]


@pytest.mark.llama
@story
async def test_a_corrupt_gguf_is_explained_and_the_model_that_runs_is_not_touched() -> None:
    """No GGUF at all, and one that is cut off: both are seen beforehand."""
    with running(serve("a"), llama("noise", model="noise"), llama("torn", model="torn"), started=False) as plane:
        whole = (MODELS / "spark.gguf").read_bytes()
        (plane.directory / "noise.gguf").write_bytes(b"this is no model" * 100)
        (plane.directory / "torn.gguf").write_bytes(whole[: len(whole) // 2])
        plane.write(plane.config.read_text().replace(str(MODELS), str(plane.directory)))
        plane.start()
        await ask(plane, "a")
        pid = plane.serve("a")["pid"]
        noise = await ask(plane, "noise")
        assert (noise.status, noise.json()["error"]["code"]) == (503, "cannot_load")
        assert "noise.gguf" in noise.json()["error"]["message"]
        assert plane.serve("a")["pid"] == pid, "the running serve was touched"
        torn = await ask(plane, "torn")
        assert torn.status == 503
        assert "torn" in torn.json()["error"]["message"]
        assert (await ask(plane, "a")).status == 200


# -- on the terminal -------------------------------------------------------------------------------------------------


def up(directory: Path, *arguments: str) -> tuple[int, str]:
    """`stoker up` that is to fail: (exit code, what it printed)."""
    command = Command(("up", *arguments), directory, os.environ)
    out, err = command.communicate(30)
    return command.wait(), out + err


def test_a_configuration_with_problems_is_refused_with_all_of_them_at_once(tmp_path: Path) -> None:
    """Unknown key, duplicate name, literal secret, bare number: each with file and line."""
    text = f"""[front_door]
prot = 8000
keys = [{{ name = "k", value = "literal-hunter2" }}]

[[serve]]
name = "a"
engine = "openai"
cmd = "x --port {{port}}"
idle_unload = 5

[[serve]]
name = "a"
engine = "openai"
cmd = "x --port {{port}}"
dialects = {["chat", "chatt"]}
"""
    (tmp_path / "stoker.toml").write_text(text)
    code, said = up(tmp_path, "--config", "stoker.toml")
    assert code == 2
    for line, word in ((2, "did you mean 'port'"), (3, "env:"), (9, "idle_unload"), (15, "chatt")):
        assert any(f"stoker.toml:{line}:" in row and word in row for row in said.splitlines()), (line, word, said)
    assert any("'a'" in row and ("stoker.toml:12" in row or "stoker.toml:6" in row) for row in said.splitlines()), said
    assert "hunter2" not in said


def test_a_configuration_that_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    """The first thing that a new user may meet."""
    code, said = up(tmp_path, "--config", "nowhere.toml")
    assert code == 2
    assert "nowhere.toml" in said
    assert "stoker init" in said


def test_a_taken_port_names_its_holder_and_another_one(tmp_path: Path) -> None:
    """Nothing is started, nothing is written but the state directory."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "stoker.toml").write_text(f'[front_door]\nport = {port}\n[paths]\nstate = "state"\n')
        code, said = up(tmp_path, "--config", "stoker.toml")
    assert code == 1
    assert f"port {port}" in said
    assert "--port" in said


def test_listening_beyond_loopback_needs_keys_or_an_explicit_none(tmp_path: Path) -> None:
    """Row R13."""
    (tmp_path / "stoker.toml").write_text('[front_door]\nhost = "0.0.0.0"\n')
    code, said = up(tmp_path, "--config", "stoker.toml")
    assert code == 2
    assert 'auth = "none"' in said


@story
async def test_a_wrong_reload_and_a_wrong_switch_leave_the_door_open(plane: Plane) -> None:
    """The operator's own mistakes."""
    status, answer = await asyncio.to_thread(plane.admin, "switch", serve="aa")
    assert (status, answer["error"]["code"]) == (404, "unknown_model")
    assert "'a'" in answer["error"]["message"]
    status, answer = await asyncio.to_thread(plane.admin, "switch", srve="a")
    assert (status, answer["error"]["code"]) == (400, "bad_json")
    assert "srve" in answer["error"]["message"]
    assert plane.admin("cancel", request_id="nobody")[0] == 404
    assert plane.admin("frobnicate")[0] == 404
    assert (await ask(plane, "a")).status == 200
