"""`stoker fit hf:ORG/REPO`: the models of a repository, what this machine can do with each, and which one to take."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.memory.headers import write
from tests.fleet.memory.model_files import QWEN, hub
from tests.setup.hub_stand_in import HubStandIn

from stoker.cli.main import run
from stoker.fleet.memory.devices import Accounting, Device, Machine
from stoker.fleet.memory.host import HostMemory

Captured = pytest.CaptureFixture[str]
GIB = 2**30


class Card:
    """12 GiB that are read with 500 GB/s."""

    source = "NVML"

    def devices(self) -> list[Device]:
        return [Device(0, "GPU-a", "RTX", "nvidia", 12 * GIB, 12 * GIB, "8.9", "570.1", bandwidth=500 * 10**9)]

    def by_process(self) -> Accounting | None:
        return {}

    def notes(self) -> list[str]:
        return []


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    monkeypatch.setattr("stoker_setup.hub.PAUSE", 0.0)
    monkeypatch.setattr("stoker_setup.bandwidth.main_memory", lambda: 50e9)
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(32 * GIB, 30 * GIB))
    monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine((Card(),)))
    server = HubStandIn()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    server.repositories["org/moe"] = quantisations(tmp_path, "qwen3moe 30B", "Moe-30B", Q4_K_M=1, Q8_0=1.9)
    server.repositories["org/moe"] |= {"README.md": b"x", "mmproj-F16.gguf": b"x" * 200}
    server.repositories["org/dense"] = quantisations(tmp_path, "mistral small 24B", "M-24B", Q6_K=1.4)
    yield server
    server.close()


def quantisations(folder: Path, model: str, name: str, **sizes: float) -> dict[str, bytes | Path]:
    """Sparse files, as many times as large as the model is in four bits."""
    found: dict[str, bytes | Path] = {}
    for precision, share in sizes.items():
        path = write(folder / f"{name}-{precision}.gguf", model)
        os.truncate(path, int(path.stat().st_size * share))
        found[path.name] = path
    return found


def asked(capsys: Captured, *words: str, code: int = 0) -> dict[str, Any]:
    assert run(["fit", *words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


class Radeon(Card):
    def devices(self) -> list[Device]:
        return [Device(0, "a1b2", "RX", "amd", 16 * GIB, 16 * GIB)]


def test_why_devices_of_two_vendors_are_no_pool_is_said(
    stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(["fit", "hf:org/moe"]) == 0
    assert "vendor" not in capsys.readouterr().out
    monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine((Card(), Radeon())))
    assert run(["fit", "hf:org/moe"]) == 0
    assert "devices of different vendors are judged apart: most builds of an engine" in capsys.readouterr().out


def test_each_quantisation_gets_a_verdict_a_context_and_a_speed_for_the_price_of_one_header(
    stand_in: HubStandIn, capsys: Captured
) -> None:
    document = asked(capsys, "hf:org/moe")
    four, eight = document["models"]
    assert (four["file"], four["precision"]) == ("Moe-30B-Q4_K_M.gguf", "Q4_K_M")
    assert four["verdict"] == "fits with experts in main memory"
    assert four["setting"].startswith("n_cpu_moe = ")
    assert four["context"] >= 32768
    assert (four["speed"]["class"], four["speed"]["is_estimate"]) == ("fluent", True)
    assert eight["verdict"] == "fits with experts in main memory"
    assert eight["speed"]["tokens_per_second"] < four["speed"]["tokens_per_second"]
    assert document["recommended"] == eight["file"], "the largest"
    assert len({path for path in stand_in.asked if "resolve" in path}) == 1
    assert stand_in.sent < 2**20


def test_the_table_says_what_it_is_for_and_the_next_command(stand_in: HubStandIn, capsys: Captured) -> None:
    assert run(["fit", "hf:org/moe", "--device-memory", "24GiB"]) == 0
    captured = capsys.readouterr()
    header, four, eight, _, about, best, following = captured.out.splitlines()
    assert header.split() == ["MODEL", "QUANT", "SIZE", "VERDICT", "CONTEXT", "SPEED"]
    assert four.split()[:2] == ["Moe-30B-Q4_K_M.gguf", "Q4_K_M"]
    assert " fits  " in four
    assert "40960" in four
    assert "fits with experts in main memory" in eight
    assert about.startswith("for a device of 24.0 GiB, 24.0 GiB; context: the tokens that fit; speed: an estimate")
    assert best == "best: Moe-30B-Q4_K_M.gguf, the only one that fits"
    assert following == "next: stoker add hf:org/moe/Moe-30B-Q4_K_M.gguf"
    assert "reading the header of Moe-30B-Q4_K_M.gguf" in captured.err


def test_a_dense_model_may_leave_layers_in_main_memory_and_one_that_is_too_large_fits_nowhere(
    stand_in: HubStandIn, capsys: Captured
) -> None:
    [six] = asked(capsys, "hf:org/dense")["models"]
    assert six["verdict"] == "fits with layers in main memory"
    assert six["setting"].startswith("gpu_layers = ")
    assert run(["fit", "hf:org/dense", "--context", "131072", "--parallel", "8"]) == 1
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "is too large by " in out
    assert "next: take a smaller model" in out


def test_a_short_context_leads_to_a_smaller_cache_and_models_left_out_to_their_paths(
    stand_in: HubStandIn, tmp_path: Path, capsys: Captured
) -> None:
    stand_in.repositories["org/many"] = {
        f"{number}B/{path}": content
        for number in range(9)
        for path, content in quantisations(tmp_path, "mistral small 24B", "M", Q4_K_M=1).items()
    }
    assert run(["fit", "hf:org/many", "--device-memory", "17GiB"]) == 0
    out = capsys.readouterr().out
    again = "stoker fit hf:org/many --cache-type q8_0 --device-memory 17GiB"
    assert f"for nearly twice the context: {again}\n" in out
    assert "1 further model not looked at; name a path: stoker fit hf:org/many/8B\n" in out
    assert asked(capsys, "hf:org/many")["left_out"] == ["8B/M-Q4_K_M.gguf"]
    assert run(again.split()[1:]) == 0
    assert "nearly twice" not in capsys.readouterr().out
    assert run(["fit", "hf:org/many/8B", "--device-memory", "17GiB"]) == 0
    assert "not looked at" not in capsys.readouterr().out


def test_one_file_can_be_named(stand_in: HubStandIn, capsys: Captured) -> None:
    document = asked(capsys, "hf:org/moe/Moe-30B-Q8_0.gguf")
    assert [one["file"] for one in document["models"]] == ["Moe-30B-Q8_0.gguf"]


def test_a_file_that_is_not_there_leads_to_those_that_are(stand_in: HubStandIn, capsys: Captured) -> None:
    assert run(["fit", "hf:org/moe/Other-Q4_0.gguf"]) == 1
    said = capsys.readouterr().out
    assert "what it has: stoker fit hf:org/moe\n" in said
    assert run(["fit", said.split()[-1]]) == 0


def test_safetensors_are_judged_for_vllm_by_their_headers(
    stand_in: HubStandIn, tmp_path: Path, capsys: Captured
) -> None:
    folder = hub(tmp_path / "hub", QWEN, tensor=2000)
    stand_in.repositories["org/full"] = {path.name: path.read_bytes() for path in folder.iterdir()}
    [model] = asked(capsys, "hf:org/full")["models"]
    assert (model["file"], model["precision"], model["verdict"], model["context"]) == ("./", "BF16", "fits", 4096)


def test_a_repository_without_models_and_one_that_is_not_there(stand_in: HubStandIn, capsys: Captured) -> None:
    stand_in.repositories["org/data"] = {"README.md": b"x"}
    assert run(["fit", "hf:org/data"]) == 1
    assert "has no model that an engine here could run" in capsys.readouterr().out
    assert run(["fit", "hf:org/nothing"]) == 1
    assert (
        "has no repository org/nothing, or it is private: correct the name, or set HF_TOKEN" in capsys.readouterr().err
    )
    assert run(["fit", "hf:nothing"]) == 2
    assert "write hf:ORG/REPO" in capsys.readouterr().err


def test_a_file_that_is_no_model_is_named_and_the_others_are_judged(stand_in: HubStandIn, capsys: Captured) -> None:
    stand_in.repositories["org/moe"]["broken-Q4_0.gguf"] = b"<html>" * 50
    document = asked(capsys, "hf:org/moe")
    broken = next(one for one in document["models"] if one["file"] == "broken-Q4_0.gguf")
    assert broken["verdict"] == "unknown"
    assert "is not a GGUF file" in broken["problem"]
    assert len(document["models"]) == 3
