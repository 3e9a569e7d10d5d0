"""`stoker fit`: a table and a verdict with the next step, before anything is started."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status

from stoker.cli.main import run
from stoker.fleet.memory.devices import Accounting, Device, Machine
from stoker.fleet.memory.host import HostMemory
from stoker.store.state_dir import StateDir

Captured = pytest.CaptureFixture[str]
GIB = 2**30
SPARK = Path(__file__).parents[2] / "src" / "stoker" / "models" / "spark.gguf"


class Gpu:
    source = "NVML"

    def devices(self) -> list[Device]:
        return [Device(0, "GPU-a", "L4", "nvidia", 24 * GIB, 20 * GIB, "8.9", "570.1")]

    def by_process(self) -> Accounting | None:
        return {}

    def notes(self) -> list[str]:
        return ["nvidia: something to know"]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """8 GiB of main memory and no accelerator, until a test says otherwise."""

    def be(*probes: Any) -> None:
        monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine(probes))

    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(8 * GIB, 6 * GIB + credit))
    monkeypatch.setenv("PATH", "/nowhere")
    be()
    return be


@pytest.fixture
def models(config: Path) -> Path:
    """The configuration with two serves that are real models, and one whose weights are elsewhere."""
    for name in ("fast", "slow"):
        (config.parent / f"{name}.gguf").write_bytes(SPARK.read_bytes())
    return config


def documents(capsys: Captured) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_a_model_that_fits_gets_a_table_a_verdict_and_the_next_command(capsys: Captured) -> None:
    assert run(["fit", str(SPARK), "--context", "1024", "--parallel", "2"]) == 0
    header, row, _, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["SERVE", "PLACE", "WEIGHTS"]
    assert row.startswith("spark.gguf  main memory  488 KiB")
    assert row.endswith("fits")
    assert lines == [
        "spark.gguf: llama, 0.5 million parameters, Q8_0; 2 x 1024 tokens",
        "  largest context with 2 at once: 2048 (the limit of the model)",
        "  most at once with 1024 tokens: 1024 or more",
        f"  next: stoker serves experiment --model {SPARK} --port 8100",
    ]


def test_one_that_does_not_fit_fails_and_names_what_would(capsys: Captured) -> None:
    words = ["fit", str(SPARK), "--device-memory", "450MiB", "--parallel", "16"]
    assert run(words) == 1
    out = capsys.readouterr().out
    assert "refused: serve 'spark.gguf' is too large by " in out
    assert "for a device of 450 MiB" in out
    assert "next: set `context = 768`, or `parallel = 7`" in out
    assert run([*words, "--cache-type", "q4_0", "--json"]) == 0
    [found] = documents(capsys)
    assert (found["verdict"], found["cache_type"], found["short"]) == ("tight", "q4_0", 0)


def test_without_a_name_every_serve_is_judged_and_an_unreadable_one_is_unknown(models: Path, capsys: Captured) -> None:
    assert run(["fit", "--json"]) == 1
    fast, slow, odd = documents(capsys)
    assert (fast["serve"], fast["verdict"], fast["context"], fast["parallel"]) == ("fast", "fits", 512, 4)
    assert slow["needed"] == fast["needed"]
    assert odd["verdict"] == "unknown"
    assert "some/model is a model on the hub" in odd["problems"][0]
    assert run(["fit"]) == 1
    assert f"\n{odd['serve']}: some/model is a model on the hub" in capsys.readouterr().out


def test_a_serve_is_found_by_its_names_and_started_next(models: Path, capsys: Captured) -> None:
    assert run(["fit", "gpt-x"]) == 0
    assert "next: stoker serves up fast" in capsys.readouterr().out
    assert run(["fit", "fsat"]) == 2
    assert "did you mean 'fast'" in capsys.readouterr().err


def test_devices_of_the_machine_are_judged_and_what_it_cannot_tell_is_said_beside(
    models: Path, machine: Callable[[Any], None], capsys: Captured
) -> None:
    machine(Gpu())
    models.write_text(models.read_text().replace('model = "fast.gguf"', 'model = "fast.gguf"\ngpu_layers = 99'))
    assert run(["fit", "fast", "--json"]) == 0
    [found] = documents(capsys)
    assert [(p["place"], p["total"], p["free"]) for p in found["places"]] == [
        ("nvidia 0: L4", 24 * GIB, 20 * GIB),
        ("main memory", 8 * GIB, 6 * GIB),
    ]
    assert run(["fit", "fast"]) == 0
    assert capsys.readouterr().err == "stoker: nvidia: something to know\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", str(SPARK), "--device-memory", "24"], "--device-memory 24"),
        (["fit", str(SPARK), "--cache-type", "q9"], "one of f32, f16"),
        (["fit"], "name a model: stoker fit PATH/TO/MODEL.gguf"),
    ],
)
def test_what_has_to_be_typed_instead_is_said(words: list[str], said: str, capsys: Captured) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_no_model_fails_with_a_sentence(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    assert run(["fit", str(tmp_path / "page.gguf")]) == 1
    assert "is not a GGUF file" in capsys.readouterr().err


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Path]:
    """The state directory of a Stoker that runs without a configuration file."""
    with contextlib.closing(FakeStoker(StateDir(tmp_path).socket_path)) as fake:
        fake.status(
            serve_status("spark", model=str(SPARK), context=512, aliases=["gpt-x"]),
            serve_status("far", driver="external"),
        )
        yield tmp_path


@pytest.mark.parametrize("words", [[], ["spark"], ["gpt-x"]])
def test_without_a_configuration_the_serves_of_the_stoker_that_runs_are_judged(
    demo: Path, words: list[str], capsys: Captured
) -> None:
    assert run(["fit", *words, "--state", str(demo), "--json"]) == 0
    [found] = documents(capsys)
    assert (found["serve"], found["context"], found["parallel"]) == ("spark", 512, 4)
    assert run(["fit", *words, "--state", str(demo)]) == 0
    assert f"next: stoker serves up spark --state {demo}\n" in capsys.readouterr().out


def test_memory_that_loaded_models_hold_counts_as_free_which_is_said(demo: Path, capsys: Captured) -> None:
    (demo / "other").mkdir()
    with contextlib.closing(FakeStoker(StateDir(demo / "other").socket_path)) as fake:
        fake.status(serve_status("spark", "ready", model=str(SPARK), context=512, pid=os.getpgid(0)))
        assert run(["fit", "spark", "--state", str(demo / "other")]) == 0
    assert "counted as free: " in capsys.readouterr().err
    assert run(["fit", "spark", "--state", str(demo)]) == 0
    assert "counted as free: " not in capsys.readouterr().err, "nothing is loaded there"


def test_a_serve_that_the_stoker_that_runs_does_not_have_is_named(demo: Path, capsys: Captured) -> None:
    assert run(["fit", "sparc", "--state", str(demo)]) == 2
    assert "did you mean 'spark'" in capsys.readouterr().err


def test_where_nothing_runs_a_model_can_be_named(tmp_path: Path, capsys: Captured) -> None:
    assert run(["fit", "--state", str(tmp_path)]) == 1
    assert "or name a model: stoker fit PATH/TO/MODEL.gguf" in capsys.readouterr().err
