"""`stoker eval sweep`: every way for a variant to end has a name; the slot is given back; what was measured is kept."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.fake_stoker import FakeStoker, error, serve_status

from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import find_installation
from stoker.cli.main import run
from stoker.domain.run import Subject
from stoker.domain.serve import Serve, ServeIdentity, Tuning
from stoker_lab.commands import slot_takeover, sweep_variant
from stoker_lab.commands.own_engine import OwnEngine
from stoker_lab.commands.sweep_variant import SweepLoad
from stoker_lab.trials.sweep import Variant

SCRIPTED = (sys.executable, "-m", "stoker_lab.testing.scripted", "--port", "{port}", "--id", "a")
LOAD = SweepLoad(clients=2, seconds=0.0, limit=20.0, output=4)


def ended(words: tuple[str, ...], tmp_path: Path, load: SweepLoad = LOAD, **keys: object) -> Variant:
    serve = Serve("a", engine="openai", cmd=words, served_name="a", directory=str(tmp_path),
                  env={"PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    serve = replace(serve, **keys)  # type: ignore[arg-type]
    row = Variant({"parallel": "2"})
    engine = OwnEngine(serve, tmp_path / "log", 1)
    asyncio.run(sweep_variant.measure_variant(row, serve, engine, load, Subject("a", "a", "")))
    return row


def says(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({text!r}); raise SystemExit(1) # {{port}}")


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out_of_memory"),
        ("error: unrecognized arguments: --no-such-flag", "bad_option"),
        ("something nobody has seen before", "start_failed"),
    ],
)
def test_a_variant_that_does_not_start_says_why_by_name(text: str, failure: str, tmp_path: Path) -> None:
    row = ended(says(text), tmp_path)
    assert (row.outcome, row.failure) == ("failed", failure)
    assert text[:20] in row.observed


def test_a_start_that_takes_too_long_has_its_own_name(tmp_path: Path) -> None:
    row = ended((sys.executable, "-c", "import time; time.sleep(60) # {port}"), tmp_path, ready_timeout=0.3)
    assert (row.outcome, row.failure) == ("failed", "start_timeout")


def test_what_its_engine_cannot_express_is_not_started(tmp_path: Path) -> None:
    serve = Serve("a", engine="llama.cpp", model="/x.gguf", tuning=Tuning(kv_cache_type="q7_9"))
    row = Variant({"kv_cache_type": "q7_9"})
    engine = OwnEngine(Serve("a", engine="openai", cmd=SCRIPTED), tmp_path / "log", 1)
    asyncio.run(sweep_variant.measure_variant(row, serve, engine, LOAD, Subject("a", "a", "")))
    assert (row.outcome, row.failure) == ("failed", "unsupported")
    assert "q7_9" in row.observed
    assert not (tmp_path / "log").exists()


def test_an_engine_without_a_list_of_models_is_not_asked_for_its_identity(tmp_path: Path) -> None:
    row = ended((*SCRIPTED, "--absent", "/v1/models"), tmp_path, identity=ServeIdentity.NONE, probe="/health")
    assert row.observed.startswith("echo: "), "the next check"


def test_a_variant_that_answers_wrongly_is_not_measured(tmp_path: Path) -> None:
    row = ended((*SCRIPTED, "--shown-id", "a"), tmp_path)  # it says tok0 tok1, whatever it is asked
    assert (row.outcome, row.failure) == ("failed", "smoke_failed")
    assert row.observed.startswith("echo: ")


def test_a_variant_that_runs_is_measured_and_one_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_variant, "SMOKE", ("model",))
    row = ended(SCRIPTED, tmp_path)
    assert (row.outcome, row.failure, row.numbers["parallel"]) == ("measured", "", 2), row.observed
    assert (row.numbers["output_rate"] or 0) > 0
    assert row.numbers["clients"] == 2
    slow = (*SCRIPTED, "--first-event-after", "30")
    late = ended(slow, tmp_path, replace(LOAD, limit=1.0))
    assert (late.outcome, late.failure) == ("failed", "timeout")
    dies = (*slow, "--crash-after", "4", "--last-words", "out of memory")
    died = ended(dies, tmp_path)
    assert (died.outcome, died.failure) == ("failed", "out_of_memory"), died.observed


def test_the_slot_is_taken_and_given_back_whatever_happens(
    stoker: FakeStoker, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("drain", "undrain", "unload", "switch"):
        stoker.answer(f"POST /admin/{verb}", {"serve": "x"})
    installation = find_installation(None)
    found = slot_takeover.slot_tenants(installation, installation.serve("slow"))
    assert found is not None
    assert "fast is stopped, and requests to fast, slow are refused (503)" in found.announcement()

    def broken_off() -> None:
        with slot_takeover.take_over(installation, found):
            assert [asked for asked, _ in stoker.posts()] == ["POST /admin/drain"] * 2 + ["POST /admin/unload"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert [(asked, body["serve"]) for asked, body in stoker.posts()[3:]] == [
        ("POST /admin/undrain", "fast"), ("POST /admin/undrain", "slow"), ("POST /admin/switch", "fast"),
    ]  # fmt: skip
    stoker.answer("POST /admin/switch", error("out of memory", "start_failed"), code=500)
    with slot_takeover.take_over(installation, found):
        pass
    assert f"load it: stoker serves up fast --config {config}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("slow",), "--vary is required"),
        (("slow", "--vary", "parallel=4", "--goal", "speed"), "known goals: throughput, ttft, decode, context"),
        (("slow", "--resume", "nothing"), "no result of that name"),
        (("slow", "--resume", "x", "--vary", "parallel=4"), "leave --vary out"),
        (("odd", "--vary", "colour=1"), "unknown key 'colour'"),
    ],
)
def test_what_cannot_be_is_said(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    stoker.status(serve_status("fast", "ready"), serve_status("slow"))
    assert run(["eval", "sweep", *words]) != 0
    assert why in capsys.readouterr().err
    assert stoker.posts() == []


def test_a_dry_run_lists_the_variants_and_touches_nothing(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "sweep", "slow", "--vary", "parallel=4,8", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"parallel": "4"}, {"parallel": "8"}]
    assert stoker.posts() == []


def test_an_engine_that_cannot_be_kept_to_its_devices_is_not_started(tmp_path: Path) -> None:
    serve = Serve("a", engine="openai", cmd=SCRIPTED, device_problem="no device is 7")
    with pytest.raises(UsageError, match="no device is 7"):
        OwnEngine(serve, tmp_path / "log", 1)
