"""The imitation takes an engine's own command line, and gives memory back as a process does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from stoker_lab.testing.client import RawClient

VLLM = ("serve", "org/model", "--served-model-name", "big", "--host", "127.0.0.1", "--port", "0", "--seed", "1")
SGLANG = ("serve", "--model-path", "m", "--served-model-name", "big", "--host", "127.0.0.1", "--port", "0")
BALLAST = 64


@contextmanager
def imitation(
    engine: str, *words: str, flags: tuple[str, ...] = (), env: Mapping[str, str] | None = None
) -> Iterator[tuple[psutil.Process, int]]:
    """The process and its port."""
    child = subprocess.Popen(
        [sys.executable, "-m", "stoker_lab.testing.imitation", engine, *flags, "--", *words],
        stdout=subprocess.PIPE, text=True, env=os.environ | dict(env or {}),
    )  # fmt: skip
    try:
        assert child.stdout is not None
        yield psutil.Process(child.pid), int(child.stdout.readline().rpartition(":")[2])
    finally:
        child.kill()
        child.communicate(timeout=5)


async def test_a_sleep_is_seen_in_the_memory_of_the_process() -> None:
    words = (*VLLM, "--enable-sleep-mode")
    with imitation("vllm", *words, flags=("--memory-mb", "64"), env={"VLLM_SERVER_DEV_MODE": "1"}) as (process, port):
        held = process.memory_info().rss
        async with RawClient(port) as client:
            await client.ask("POST", "/sleep?level=1", {})
            asleep = process.memory_info().rss
            assert held - asleep > 0.9 * BALLAST * 2**20
            await client.ask("POST", "/wake_up", {})
            assert process.memory_info().rss - asleep > 0.9 * BALLAST * 2**20


async def test_the_verbs_are_there_only_if_the_engine_would_have_them() -> None:
    dev = {"VLLM_SERVER_DEV_MODE": "1"}
    for words, env in ((VLLM, dev), ((*VLLM, "--enable-sleep-mode"), {})):
        with imitation("vllm", *words, env=env) as (_, port):
            async with RawClient(port) as client:
                assert (await client.ask("POST", "/sleep?level=1", {})).status == 404


async def test_the_key_comes_from_where_the_engine_takes_it() -> None:
    for engine, words, env in (
        ("vllm", VLLM, {"VLLM_API_KEY": "sesame"}),
        ("sglang", (*SGLANG, "--api-key", "sesame"), {}),
    ):
        with imitation(engine, *words, env=env) as (_, port):
            async with RawClient(port) as client:
                assert (await client.ask("GET", "/v1/models")).status == 401
                models = (await client.ask("GET", "/v1/models", authorization="Bearer sesame")).json()
                assert models["data"][0]["id"] == "big"


async def test_an_sglang_that_keeps_no_copy_of_its_weights_wakes_up_wrong() -> None:
    for more, same in (("--enable-weights-cpu-backup",), True), ((), False):
        with imitation("sglang", *SGLANG, "--enable-memory-saver", *more) as (_, port):
            async with RawClient(port) as client:
                before = (await client.ask("POST", "/v1/completions", {"prompt": "x"})).json()["choices"]
                await client.ask("POST", "/release_memory_occupation", {})
                await client.ask("POST", "/resume_memory_occupation", {})
                after = (await client.ask("POST", "/v1/completions", {"prompt": "x"})).json()["choices"]
                assert (before == after) is same
