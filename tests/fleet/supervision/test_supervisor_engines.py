"""vLLM and SGLang under the supervisor, by imitations of them on PATH: everything but the models themselves."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker.domain.serve import Serve, Tuning
from stoker.engines.signals import read
from stoker.http import client

Tell = Callable[[Any], None]


def install(directory: Path, engine: str, *flags: str) -> None:
    """A command of the engine's name that imitates it."""
    path = directory / "bin" / engine
    path.parent.mkdir(exist_ok=True)
    said = " ".join(f"'{flag}'" for flag in flags)
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m stoker_lab.testing.imitation {engine} {said} -- "$@"\n')
    path.chmod(0o755)


def serve(workshop: Any, engine: str, **fields: Any) -> Serve:
    env = {"PATH": f"{workshop.directory}/bin:{os.environ['PATH']}"}
    given = {"model": "org/model", "served_name": "big", "context": 512, "stop_grace": 3.0, "env": env, **fields}
    return Serve(name="big", engine=engine, directory=str(workshop.directory), ready_timeout=20.0, **given)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_engine_found_on_path_gets_ready_with_its_settings(tell: Tell, engine: str) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, engine)
        fleet = workshop.supervisor()
        given = serve(workshop, engine, canary=True, tuning=Tuning(memory_fraction=0.5, graphs=False))
        assert await workshop.quick_check(fleet, given) == []
        running = await fleet.start(given, workshop.on_exit)
        assert running.facts["max_model_len"] == 512
        assert running.target.served_name == "big"
        metrics = (await client.ask(running.target, "/metrics")).body.decode()
        assert read(engine, metrics).generated_tokens == 1, "the canary's"
        without = Target(running.target.host, running.target.port)
        assert (await client.ask(without, "/v1/models")).status == 401, "it asks for the key that we gave it"
        assert running.target.key not in workshop.log("big")
        await fleet.close(False)

    tell(story)


@pytest.mark.parametrize(("engine", "level"), [("vllm", 1), ("vllm", 2), ("sglang", 1)])
def test_it_sleeps_instead_of_stopping_and_wakes_as_the_same_process(tell: Tell, engine: str, level: int) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, engine, "--memory-mb", "192")
        fleet = workshop.supervisor()
        given = serve(workshop, engine, sleep_level=level)
        running = await fleet.start(given, workshop.on_exit)
        held = psutil.Process(running.pid).memory_info().rss
        await fleet.stop("big", 3, keep_warm=True)
        assert psutil.Process(running.pid).memory_info().rss < held - 150 * 2**20
        again = await fleet.start(given, workshop.on_exit)
        assert (again.pid, again.start_kind) == (running.pid, "asleep")
        await fleet.close(False)

    tell(story)


def test_a_sleep_that_frees_nothing_is_a_stop(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, "vllm", "--memory-mb", "192", "--no-sleep-frees")
        fleet = workshop.supervisor()
        running = await fleet.start(serve(workshop, "vllm", sleep_level=1), workshop.on_exit)
        await fleet.stop("big", 3, keep_warm=True)
        assert not psutil.pid_exists(running.pid)
        await fleet.close(False)

    tell(story)


def test_an_engine_that_wakes_up_in_gibberish_is_started_anew(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, "vllm", "--memory-mb", "192", "--no-wake-restores")
        fleet = workshop.supervisor()
        given = serve(workshop, "vllm", sleep_level=2)
        running = await fleet.start(given, workshop.on_exit)
        await fleet.stop("big", 3, keep_warm=True)
        again = await fleet.start(given, workshop.on_exit)
        assert again.pid != running.pid
        assert again.start_kind != "asleep"
        await fleet.close(False)

    tell(story)


def test_a_start_that_fails_says_why_and_what_to_do(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        words = (
            "ValueError: Free memory on device (0.49/79.32 GiB) on startup is less than desired GPU memory utilization"
        )
        install(workshop.directory, "vllm", "--exit-code", "1", "--last-words", words)
        fleet = workshop.supervisor()
        with pytest.raises(StartFailed) as failure:
            await fleet.start(serve(workshop, "vllm"), workshop.on_exit)
        assert "Free memory on device (0.49/79.32 GiB)" in failure.value.message
        assert "`memory_fraction`" in failure.value.message
        await fleet.close(False)

    tell(story)


def test_an_engine_that_is_not_installed_is_refused_before_anything_runs(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        nowhere = {"PATH": str(workshop.directory)}
        for engine in ("vllm", "sglang"):
            [problem] = await workshop.quick_check(workshop.supervisor(), serve(workshop, engine, env=nowhere))
            assert f"`pip install {engine}`" in problem

    tell(story)
