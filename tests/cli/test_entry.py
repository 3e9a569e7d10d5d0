"""`stoker up` as a process: what it has in memory while it serves, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from stoker_lab.testing.client import RawClient, compose_request
from stoker_lab.testing.server import ScriptedServer

SPARK = Path(__file__).parents[2] / "src" / "stoker" / "models" / "spark.gguf"
NOT_FOR_SERVING = (
    "argparse", "email", "http.client", "importlib.metadata", "multiprocessing", "prometheus_client", "psutil",
    "pydantic", "rich", "urllib.request", "zipfile",
    "stoker_setup.commands.init", "stoker.cli.console.control", "stoker.engines.embedded",
    "stoker.fleet.weights.http_download", "stoker_lab.preflight.run",
    "stoker_orchestrator.orchestrators", "stoker_auto.classify.asks", "stoker_auto.classify.classify",
    "stoker.request.translate.chat.read_prompt", "stoker.request.translate.messages",
    "stoker.request.translate.responses",
)  # fmt: skip
"""What most of memory would go to. A module of this list that a plain request needs belongs out of it, with a word
about its size in the commit."""
PROGRAM = f"""
import atexit, os, sys

def tell(serving=os.getpid()):
    if os.getpid() == serving:
        print("imported:", *(name for name in {NOT_FOR_SERVING!r} if name in sys.modules), flush=True)

atexit.register(tell)
from stoker.cli.entry import main
main()
"""
CONFIG = """
[front_door]
port = {port}
{keys}

[paths]
state = "state"

[[serve]]
name = "scripted"
engine = "openai"
base_url = "{url}/v1"
"""


async def start(*words: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, *words, stdout=PIPE, stderr=PIPE)


def test_a_plain_up_keeps_nothing_in_memory_that_only_other_work_needs_not_after_a_reload_either(port: int) -> None:
    async def story() -> None:
        async with ScriptedServer() as model:
            Path("stoker.toml").write_text(CONFIG.format(port=port, url=model.url, keys=""))
            stoker = await start("up")
            assert stoker.stdout is not None
            try:
                assert (await stoker.stdout.readline()).startswith(b"listening on ")
                client = RawClient(port, timeout=30)
                await client.connect()
                question = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "stream": True}
                await client.send(compose_request("POST", "/v1/chat/completions", question))
                assert (await client.reply()).status == 200
                await client.send(compose_request("POST", "/admin/reload", {}))
                assert (await client.reply()).json()["settings"] == []
                await client.close()
            finally:
                stoker.terminate()
                said, _ = await stoker.communicate()
        assert said.decode().splitlines()[-2:] == ["stopped", "imported:"]
        assert stoker.returncode == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("up", "--config", "missing.toml"), 2, "stoker: missing.toml: there is no such file"),
        (("up", "--colour"), 2, "No such option: --colour"),
        (("up", "--help"), 0, ""),
    ],
    ids=["configuration", "usage", "help"],
)
def test_what_is_wrong_is_told_before_anything_is_started(words: tuple[str, ...], code: int, told: str) -> None:
    async def story() -> None:
        stoker = await start(*words)
        _, problems = await stoker.communicate()
        assert (stoker.returncode, told in problems.decode()) == (code, True)

    asyncio.run(story())


def test_ctrl_c_while_the_configuration_is_read_ends_it(port: int) -> None:
    keys = 'keys = [{ name = "me", value = "file:key" }]'
    Path("stoker.toml").write_text(CONFIG.format(port=port, url="http://127.0.0.1:9", keys=keys))
    os.mkfifo("key")

    async def story() -> None:
        stoker = await start("up")
        writing = await asyncio.to_thread(os.open, "key", os.O_WRONLY)  # until it reads its secret
        stoker.send_signal(signal.SIGINT)
        _, problems = await stoker.communicate()
        os.close(writing)
        assert (stoker.returncode, b"Traceback" in problems) == (130, False)

    asyncio.run(story())


@pytest.mark.llama
def test_a_model_is_found_by_its_name_and_loaded_in_a_locale_of_ascii(home: Path, port: int) -> None:
    model = home / "work" / "modèle" / "gut.gguf"
    model.parent.mkdir()
    model.write_bytes(SPARK.read_bytes())
    text = f'[front_door]\nport = {port}\n[paths]\nstate = "state"\n[[serve]]\nname = "m"\nmodel = "{model}"\n'
    Path("stoker.toml").write_text(f"{text}embedded = true\ncontext = 512\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    async def story() -> None:
        words = (sys.executable, "-c", "from stoker.cli.entry import main; main()", "up")
        stoker = await asyncio.create_subprocess_exec(*words, env=environment, stdout=PIPE, stderr=PIPE)
        assert stoker.stdout is not None
        try:
            assert (await stoker.stdout.readline()).startswith(b"listening on ")
            client = RawClient(port, timeout=60)
            await client.connect()
            question = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
            await client.send(compose_request("POST", "/v1/chat/completions", question))
            reply = await client.reply()
            assert reply.status == 200, reply
            await client.close()
        finally:
            stoker.terminate()
            await stoker.communicate()

    asyncio.run(story())
