"""`load_format`: what it needs in the engine's environment is found before a start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.domain.serve import Driver, Serve, Tuning, Warmth
from stoker.engines import plan, sglang, vllm
from stoker.engines.launch import LaunchPlace

PLACE = LaunchPlace(1234, "sesame")


def environment(root: Path, *packages: str) -> Path:
    """A Python environment with these packages and the commands of both engines."""
    for name in packages:
        (root / f"lib/python3.12/site-packages/{name}.dist-info").mkdir(parents=True)
    for command in ("vllm", "sglang"):
        path = root / "bin" / command
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return root / "bin"


def serve(bin: Path, engine: str, load_format: str, **fields: Any) -> Serve:
    given = {"model": "org/model", "served_name": "big", "env": {"PATH": str(bin)}, **fields}
    return Serve("a", engine=engine, directory=str(bin), tuning=Tuning(load_format=load_format), **given)


def problems(bin: Path, engine: str, load_format: str, **fields: Any) -> list[str]:
    return plan.problems(serve(bin, engine, load_format, **fields))


@pytest.mark.parametrize(
    ("packages", "engine", "load_format", "step"),
    [
        (("vllm-0.12.0", "fastsafetensors-0.1.15"), "vllm", "fastsafetensors", ""),
        (("vllm-0.12.0",), "vllm", "fastsafetensors", "type `pip install fastsafetensors` in the environment of"),
        (("vllm-0.10.2", "fastsafetensors-0.1.15"), "vllm", "fastsafetensors", "needs vLLM 0.11 or newer, and 0.10.2"),
        (("vllm-0.12.0",), "vllm", "runai_streamer", "`pip install 'vllm[runai]'`"),
        (("vllm-0.12.0", "runai_model_streamer-0.14.0"), "vllm", "runai_streamer", ""),
        (("vllm-0.25.1", "instanttensor-0.1.8"), "vllm", "instanttensor", ""),
        (("vllm-0.26.0", "instanttensor-0.1.8"), "vllm", "instanttensor", "needs instanttensor 0.1.9 or newer"),
        (("vllm-0.26.0rc1", "InstantTensor-0.2"), "vllm", "instanttensor", ""),
        (("vllm-0.12.0",), "vllm", "safetensors", ""),
        (("sglang-0.5.9",), "sglang", "runai_streamer", "`pip install runai-model-streamer`"),
        (("sglang-0.5.9", "fastsafetensors-0.1.15"), "sglang", "fastsafetensors", ""),
        ((), "vllm", "fastsafetensors", ""),  # the engine's packages are somewhere else: it will say
    ],
)
def test_what_lacks_is_one_sentence_with_what_to_type(
    tmp_path: Path, packages: tuple[str, ...], engine: str, load_format: str, step: str
) -> None:
    found = problems(environment(tmp_path, *packages), engine, load_format)
    assert [step in one for one in found] == ([True] if step else []), found


def test_a_format_that_the_engine_does_not_have_is_refused_and_one_that_it_has_is_passed_on(tmp_path: Path) -> None:
    bin = environment(tmp_path, "vllm-0.12.0")
    assert "it is one of auto, pt, safetensors" in problems(bin, "vllm", "layered")[0]
    assert "SGLang has no `load_format` instanttensor" in problems(bin, "sglang", "instanttensor")[0]
    for engine, formats in (("vllm", vllm.LOAD_FORMATS), ("sglang", sglang.LOAD_FORMATS)):
        for name in formats:
            words = " ".join(plan.plan(serve(bin, engine, name), PLACE).argv)
            assert f"--load-format {name}" in words


def test_in_a_cluster_the_environment_of_the_node_counts(tmp_path: Path) -> None:
    assert problems(environment(tmp_path, "vllm-0.12.0"), "vllm", "fastsafetensors", driver=Driver.RAY) == []


def test_what_reads_past_the_page_cache_needs_no_weights_there(tmp_path: Path) -> None:
    bin = environment(tmp_path, "vllm-0.12.0", "instanttensor-0.2")
    [caution] = plan.cautions(serve(bin, "vllm", "instanttensor"))
    assert 'set `warm = "never"`' in caution
    assert plan.cautions(serve(bin, "vllm", "instanttensor", warm=Warmth.NEVER)) == []
