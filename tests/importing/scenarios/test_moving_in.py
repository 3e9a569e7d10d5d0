"""From a home directory that another program left to a first answer: one command imports, one starts Stoker.

The models are real ones, loaded by the embedded llama.cpp; LiteLLM's server is a scripted one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.importing.ollama_home import OllamaHome
from tests.scenarios.caller import document, story
from tests.scenarios.plane import MODELS, STOKER, Plane, free_port, running

from stoker_lab.testing.client import RawClient
from stoker_lab.testing.script.script import Script

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put(source: str, target: Path) -> Path:
    target.parent.mkdir(parents=True)
    shutil.copy(MODELS / source, target)
    return target


def ollama(home: Path) -> list[str]:
    OllamaHome(home / ".ollama" / "models").model("spark/latest", (MODELS / "spark.gguf").read_bytes())
    return ["ollama"]


def lm_studio(home: Path) -> list[str]:
    put("spark.gguf", home / ".lmstudio" / "models" / "me" / "Spark-GGUF" / "spark.gguf")
    return ["lmstudio"]


def hugging_face(home: Path) -> list[str]:
    folder = home / ".cache" / "huggingface" / "hub" / "models--me--spark-GGUF"
    blob = put("spark.gguf", folder / "blobs" / "0123")
    link = folder / "snapshots" / COMMIT / "spark-Q8_0.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    return ["hf"]


def llama_cpp(home: Path) -> list[str]:
    put("spark.gguf", home / "gguf" / "weights.gguf")
    (home / "models.ini").write_text("[*]\nctx-size = 1024\n\n[spark]\nmodel = gguf/weights.gguf\ntemp = 0\n")
    return ["llama.cpp", "models.ini"]


def llama_swap(home: Path) -> list[str]:
    put("spark.gguf", home / "gguf" / "spark.gguf")
    server = home / "bin" / "llama-server"
    server.parent.mkdir()
    server.write_text(f'#!/bin/sh\nexec {sys.executable} -m stoker.engines.embedded "$@"\n')
    server.chmod(0o755)
    (home / "config.yaml").write_text(
        "macros:\n  server: llama-server --port ${PORT}\nmodels:\n  spark:\n"
        "    cmd: ${server} -m gguf/spark.gguf -c 1024 --jinja\n    aliases: [gpt-4o-mini]\n"
    )
    return ["llama-swap", "config.yaml"]


LOCAL: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "ollama": (ollama, "spark:latest"),
    "lmstudio": (lm_studio, "spark"),
    "hf": (hugging_face, "me/spark-GGUF"),
    "llama.cpp": (llama_cpp, "spark"),
    "llama-swap": (llama_swap, "gpt-4o-mini"),
}


def import_and_start(plane: Plane, *words: str) -> None:
    """The two commands."""
    state = plane.directory / ".local" / "state"
    state.mkdir(parents=True)
    plane.state.mkdir(mode=0o700)
    (state / "stoker").symlink_to(plane.state)
    plane.config.unlink()
    done = subprocess.run(
        [STOKER, "import", *words], cwd=plane.directory, env=plane.environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "next: stoker up" in done.stdout + done.stderr
    plane.start("--port", str(plane.port))


async def first_answer(plane: Plane, model: str) -> str:
    async with RawClient(plane.port, timeout=30) as client:
        body = document(model, "What is your name?", max_tokens=20, temperature=0)
        reply = await client.ask("POST", "/v1/chat/completions", body)
    assert reply.status == 200, reply.body
    return str(reply.json()["choices"][0]["message"]["content"])


@pytest.mark.parametrize("program", LOCAL)
@story
async def test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer(program: str) -> None:
    prepare, model = LOCAL[program]
    path = {"PATH": f"bin:{os.environ['PATH']}"}  # llama-swap starts the llama-server that it finds there
    with running(started=False, environment=path) as plane:
        import_and_start(plane, *prepare(plane.directory))
        assert "spark" in (await first_answer(plane, model)).lower()


@contextlib.contextmanager
def scripted_server(directory: Path) -> Iterator[int]:
    """Its port."""
    port = free_port()
    command = Script(id="upstream").command(port)
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            yield port
        finally:
            server.terminate()


@story
async def test_two_commands_lead_from_litellms_configuration_to_a_first_answer() -> None:
    with running(started=False) as plane:
        with scripted_server(plane.directory) as port:
            params = {"model": "hosted_vllm/upstream", "api_base": f"http://127.0.0.1:{port}/v1", "api_key": "none"}
            listed = {"model_list": [{"model_name": "gpt-4o", "litellm_params": params}]}
            (plane.directory / "config.yaml").write_text(json.dumps(listed))
            import_and_start(plane, "litellm", "config.yaml")
            assert await first_answer(plane, "gpt-4o")
        plane.finish()
