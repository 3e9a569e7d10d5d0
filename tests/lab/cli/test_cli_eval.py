"""`stoker eval`: what stands in the way is said with what to type; an engine of one's own starts and ends."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status

from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import find_installation
from stoker.cli.main import run
from stoker.domain.serve import Driver, Serve
from stoker_lab.commands import context
from stoker_lab.commands.own_engine import OwnEngine
from stoker_lab.trials.context_search import EngineNotStarted


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["eval", *words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["canary", "soak"])
def test_a_serve_that_does_not_run_is_named_with_what_starts_it(
    stoker: FakeStoker, config: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert f"stoker serves up slow --config {config}" in refused(capsys, command, "slow")
    stoker.status(serve_status("fast", last_error="out of memory"))
    assert "out of memory" in refused(capsys, command)
    stoker.status(serve_status("fast", "ready"), serve_status("slow", "ready"))
    assert "name one of them: fast, slow" in refused(capsys, command)
    assert "did you mean 'fast'" in refused(capsys, command, "fas")


@pytest.mark.parametrize("command", ["canary", "soak"])
def test_without_a_stoker_the_command_that_starts_one_is_printed(
    config: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert "stoker up --config stoker.toml" in refused(capsys, command, "fast")


def test_a_front_door_with_keys_wants_one(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STOKER_KEY", raising=False)
    door = {"auth": "keys", "host": "0.0.0.0", "port": 1}
    stoker.status(serve_status("fast", "ready"), frontdoor=door)
    assert "STOKER_KEY" in refused(capsys, "canary", "fast")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("canary", "fast", "--record", "--baseline", "x"), "give one of them"),
        (("soak", "fast", "--for", "0s"), "must be above 0"),
        (("soak", "fast", "--every", "often"), "--every often"),
        (("context", "slow", "--from", "4096", "--to", "512"), "--from 4096 is more than --to 512"),
        (("context", "fast"), "stoker serves down fast"),
        (("context",), "name one of them: fast, slow, odd"),
        (("context", "nobody"), "nobody"),
    ],
)
def test_what_cannot_be_is_said(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    if words[:2] == ("context", "slow"):
        stoker.status(serve_status("slow"))
    assert why in refused(capsys, *words)


def test_candidates_see_the_devices_of_their_slot_only(config: Path) -> None:
    config.write_text(config.read_text().replace("[slots.gpu0]", '[slots.gpu0]\ndevices = ["1"]'))
    place = find_installation(None)
    assert place.settings is not None
    assert context.serve_on_its_devices(place, place.settings, "fast").env["CUDA_VISIBLE_DEVICES"] == "1"


def test_only_processes_of_our_own_are_searched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a process that Stoker starts"):
        OwnEngine(Serve("a", driver=Driver.EXTERNAL), tmp_path / "log", 1)
    with pytest.raises(UsageError, match="not on PATH"):
        OwnEngine(Serve("a", engine="openai", cmd=("no-such-command", "{port}")), tmp_path / "log", 1)


def test_an_engine_of_ones_own_comes_and_goes(tmp_path: Path) -> None:
    words = (sys.executable, "-m", "stoker_lab.testing.scripted", "--port", "{port}", "--id", "a", "--context", "512")
    serve = Serve("a", engine="llama.cpp", cmd=words, served_name="a", directory=str(tmp_path), env=path())
    engine = OwnEngine(serve, tmp_path / "logs" / "log", 9)

    before = children()

    async def story() -> None:
        started = await engine.start(512)
        assert started.report.props["default_generation_settings"] == {"n_ctx": 512}
        assert "listens on" in started.log
        assert started.target.served_name == "a"
        assert children() - before
        await started.stop()
        assert children() <= before

    asyncio.run(story())


@pytest.mark.parametrize("program", [sys.executable, "no-such-program"])
def test_an_engine_of_ones_own_is_stopped_by_the_serves_own_command(tmp_path: Path, program: str) -> None:
    words = (sys.executable, "-m", "stoker_lab.testing.scripted", "--port", "{port}", "--id", "a", "--ignore-sigterm")
    kill = (program, "-S", "-E", "-c", "import os, sys; print('ends', sys.argv[2]); os.kill(int(sys.argv[1]), 10)")
    has_program = program == sys.executable
    serve = Serve("a", engine="openai", cmd=words, served_name="a", directory=str(tmp_path), env=path(),
                  stop=(*kill, "{pid}", "{name}"), stop_grace=30.0 if has_program else 0.5)  # fmt: skip
    engine, before = OwnEngine(serve, tmp_path / "log", 1), children()

    async def story() -> None:
        began = time.monotonic()
        await (await engine.start(512)).stop()
        assert children() <= before
        assert time.monotonic() - began < 15, "the command ended it: SIGTERM is ignored, and SIGKILL far away"

    asyncio.run(story())
    assert ("ends a\n" in (tmp_path / "log").read_text()) is has_program


def test_an_engine_that_does_not_come_up_says_its_last_words(tmp_path: Path) -> None:
    before = children()
    command = (sys.executable, "-c", "print('starting'); print('no memory for {port}'); raise SystemExit(3)")
    engine = OwnEngine(Serve("a", engine="openai", cmd=command, directory=str(tmp_path)), tmp_path / "log", 1)
    with pytest.raises(EngineNotStarted, match=r"no memory for \d+"):
        asyncio.run(engine.start(512))
    slow = (sys.executable, "-c", "import time; time.sleep(60); {port}")
    engine = OwnEngine(
        Serve("a", engine="openai", cmd=slow, directory=str(tmp_path), ready_timeout=0.3), tmp_path / "log", 1
    )
    with pytest.raises(EngineNotStarted, match="not ready within"):
        asyncio.run(engine.start(512))
    assert children() <= before


def path() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(entry for entry in sys.path if entry)}


def children() -> set[int]:
    """Processes that this one started and that run."""
    return {one.pid for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE}


# -- command lines in other orders -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("serves", "--manifest", "FILE", "status"),
        ("serves", "-c", "FILE", "up", "m"),
        ("slot", "--config", "FILE", "list"),
        ("eval", "--manifest", "FILE", "preflight", "m"),
        ("config", "--manifest", "FILE", "show"),
        ("keys", "--manifest", "FILE", "list"),
    ],
    ids=" ".join,
)
def test_the_file_may_be_named_before_the_command_of_a_group(
    home: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(list(words)) == 2
    assert "FILE: there is no such file" in capsys.readouterr().err
    Path("own.toml").write_text('[paths]\nstate = "own"\n[[serve]]\nname = "m"\nmodel = "m.gguf"\n')
    given = [word.replace("FILE", "none.toml") for word in words]
    run([*given, "--config", "own.toml"])
    assert "none.toml" not in capsys.readouterr().err, "a file after the command counts more"


TIERS = """
[[tier]]
name = "heavy"
serve = "slow"
cost = { input = 1.0, output = 2.0 }
"""


@pytest.mark.parametrize("words", [("--tier", "heavy"), ("--tier", "slow"), ("heavy",)], ids=" ".join)
@pytest.mark.parametrize("command", ["preflight", "benchmark"])
def test_what_is_measured_may_be_named_as_a_tier(
    stoker: FakeStoker, config: Path, command: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text() + TIERS)
    assert run(["eval", command, *words]) == 2
    assert "serve 'slow' is not running" in capsys.readouterr().err


def test_a_serve_and_another_tier_are_too_much(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "preflight", "fast", "--tier", "slow"]) == 2
    assert "give either fast or --tier slow, not both" in capsys.readouterr().err
