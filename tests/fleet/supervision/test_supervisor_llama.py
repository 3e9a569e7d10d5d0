"""The real llama.cpp, embedded, on half a megabyte of random weights."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.fleet.tiny_gguf import content, write_tiny

from stoker.domain.dialect import Dialect
from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.memory.devices import machine
from stoker.fleet.memory.fit.check import with_contexts
from stoker.http import client
from stoker.system.processes import is_alive

pytestmark = [
    pytest.mark.llama,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed"),
]
Tell = Callable[[Any], None]
PATIENT = 15.0


def llama(workshop: Any, weights: Path | None = None, **fields: Any) -> Serve:
    model = weights if weights is not None else write_tiny(workshop.directory / "tiny.gguf")
    given = {"context": 256, "parallel": 2, "threads": 1, "embedded": True, "stop_grace": 3.0, **fields}
    return Serve(name="tiny", model=str(model), served_name="spark", directory=str(workshop.directory), **given)


async def chat(running: Any, key: str | None) -> client.HttpResponse:
    address = replace(running.target, key=key)
    payload = {"model": "spark", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
    return await client.ask(address, "/v1/chat/completions", payload, PATIENT)


def test_the_embedded_engine_starts_answers_and_ends_promptly(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        serve = llama(workshop, canary=True)
        assert await workshop.quick_check(fleet, serve) == []
        running = await fleet.start(serve, workshop.on_exit)
        assert running.facts["total_slots"] == 2
        assert running.facts["n_ctx"] == 256, "the context is what one request may use"
        assert (await chat(running, running.target.key)).json()["usage"]["completion_tokens"] <= 4
        assert (await chat(running, None)).status == 401
        assert (await chat(running, "wrong")).status == 401
        assert running.target.key not in " ".join(psutil.Process(running.pid).cmdline())
        loop = asyncio.get_running_loop()
        began = loop.time()
        await fleet.stop("tiny", 3)
        assert loop.time() - began < 1, "SIGTERM is enough"
        await fleet.close(False)

    tell(story)


def test_a_context_chosen_at_the_start_is_the_one_that_is_found_when_the_file_is_read_again(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        late = llama(workshop, context=None, auto_context=True)  # as read before the weights had arrived
        fleet = workshop.supervisor()
        before = await fleet.start(late, workshop.on_exit)
        assert before.facts["n_ctx"] == 2048, "what the model was trained for"
        await fleet.close(True)
        [again] = with_contexts([late], (), machine())
        assert again.context == 2048
        later = workshop.supervisor()
        [running] = await later.adopt([again], workshop.on_exit)
        assert running.pid == before.pid, "no other launch"
        await later.close(False)

    tell(story)


def test_an_embedded_engine_is_adopted(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        serve = llama(workshop)
        fleet = workshop.supervisor()
        before = await fleet.start(serve, workshop.on_exit)
        await fleet.close(True)
        later = workshop.supervisor()
        [running] = await later.adopt([serve], workshop.on_exit)
        assert (running.pid, running.target) == (before.pid, before.target)
        assert (await chat(running, running.target.key)).status == 200
        os.kill(running.pid, signal.SIGKILL)
        await asyncio.wait_for(workshop.exited.wait(), 2)
        await later.close(False)

    tell(story)


def test_a_gguf_that_is_cut_short_is_found_before_a_start_and_refused_by_the_engine_in_words(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        broken = workshop.directory / "broken.gguf"
        broken.write_bytes(content()[:6000])
        fleet = workshop.supervisor()
        serve = llama(workshop, broken)
        [problem] = await workshop.quick_check(fleet, serve)
        assert str(broken) in problem
        assert "download it again" in problem
        broken.write_bytes(content().replace(b"llama.block_count", b"llama.block_kount"))
        assert await workshop.quick_check(fleet, serve) == [], "not everything can be told from a header"
        with pytest.raises(StartFailed) as failure:
            await fleet.start(serve, workshop.on_exit)
        assert "exited with code 1" in failure.value.message
        assert failure.value.code == "unsupported_architecture"
        assert "stoker serves logs" in failure.value.remedy
        assert "llama" not in failure.value.remedy, "nothing that the engine printed"
        assert "update the engine" in failure.value.message
        assert len(failure.value.message) < 1200
        await fleet.close(False)

    tell(story)


def test_an_embedding_serve_gives_embeddings(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        only = frozenset({Dialect.EMBEDDINGS})
        serve = llama(workshop, extra_args=("--embeddings", "--pooling", "mean"), dialects=only, canary=True)
        await fleet.start(serve, workshop.on_exit)
        await fleet.close(False)

    tell(story)


PARENT = """
import os, subprocess, sys
model, port = sys.argv[1:]
words = ["-m", model, "--port", port, "--parent", str(os.getpid())]
words = [sys.executable, "-P", "-m", "stoker.engines.embedded", *words]
child = subprocess.Popen(words, stderr=subprocess.DEVNULL, cwd=os.path.dirname(model))
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_demo_engine_dies_with_its_parent(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        model = write_tiny(workshop.directory / "tiny.gguf")
        port = 20_000 + os.getpid() % 10_000
        argv = [sys.executable, "-c", PARENT, str(model), str(port)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            pid = int(await asyncio.to_thread(parent.stdout.readline))
            address = Target("127.0.0.1", port)
            async with asyncio.timeout(PATIENT):
                while True:
                    try:
                        await client.ask(address, "/health")
                        break
                    except client.NoResponse:
                        await asyncio.sleep(0.02)
                parent.kill()
                while is_alive(pid):
                    await asyncio.sleep(0.01)

    tell(story)
