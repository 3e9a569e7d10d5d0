"""Command lines: what a serve's fields become, and what stands in the way of that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.serve import Serve
from stoker.engines import embedded, llama_cpp, plan
from stoker.engines.launch import LaunchPlace

MODELS = Path(__file__).parents[2] / "src" / "stoker" / "models"
PLACE = LaunchPlace(1234, "sesame")


def serve(directory: Path, **fields: Any) -> Serve:
    return Serve(name="a", directory=str(directory), **fields)


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


WHOLE = (MODELS / "spark.gguf").read_bytes()


def weights(directory: Path, content: bytes = WHOLE, name: str = "m.gguf") -> str:
    (directory / name).write_bytes(content)
    return str(directory / name)


def test_llama_server_from_path_gets_the_serves_fields_and_the_key_by_environment(tmp_path: Path) -> None:
    found = program(tmp_path / "llama-server")
    given = serve(
        tmp_path, model="/w/m.gguf", served_name="spark", context=2048, parallel=3, threads=5, gpu_layers=99,
        extra_args=("--anything", "goes"), env={"PATH": str(tmp_path)},
    )  # fmt: skip
    launch = plan.plan(given, PLACE)
    assert " ".join(launch.argv) == (
        f"{found} -m /w/m.gguf --alias spark --host 127.0.0.1 --port 1234 -np 3 -c 6144 -t 5 -ngl 99 "
        "--metrics --no-slots --anything goes"
    )
    assert launch.environment == {"LLAMA_API_KEY": "sesame"}
    assert launch.takes_key
    assert "sesame" not in repr(launch) + repr(PLACE)


def test_the_embedded_engine_is_used_where_it_is_asked_for_or_alone(tmp_path: Path) -> None:
    for embedded_field, path in ((True, tmp_path), (None, Path("/nowhere"))):
        program(tmp_path / "llama-server")
        given = serve(tmp_path, model="/w/m.gguf", embedded=embedded_field, env={"PATH": str(path)})
        launch = plan.plan(given, PLACE)
        assert launch.argv[:4] == (sys.executable, "-P", "-m", "stoker.engines.embedded")
        assert launch.environment[embedded.KEY_VARIABLE] == "sesame"
        assert "--parent" not in launch.argv


def test_commands_that_name_the_embedded_engine_by_its_former_place_still_start_it() -> None:
    former = [sys.executable, "-P", "-m", "stoker.fleet.engines.embedded"]
    done = subprocess.run(former, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.partition(": the following")[0]) == (2, "stoker embedded engine")


def test_only_a_demo_engine_is_tied_to_its_parent(tmp_path: Path) -> None:
    launch = plan.plan(serve(tmp_path, model="m", embedded=True, die_with_parent=True), PLACE)
    assert launch.argv[-2:] == ("--parent", str(os.getpid()))


def test_placeholders_are_filled_in_once_and_other_braces_stay(tmp_path: Path) -> None:
    command = (sys.executable, "{model}:{port}", "{name}", "{dir}/x", '{"a": {port}}', "{{port}}", "{host}", "{later}")
    given = serve(tmp_path, engine="openai", model="{key}", served_name="n", cmd=command, extra_args=("--p={port}",))
    launch = plan.plan(given, PLACE)
    assert launch.argv[1:] == (
        "{key}:1234", "n", f"{tmp_path}/x", '{"a": 1234}', "{{port}}", "127.0.0.1", "{later}", "--p=1234",
    )  # fmt: skip
    assert not launch.takes_key, "what a model is called is not looked into"


def test_a_llama_command_of_ones_own_takes_the_key_too(tmp_path: Path) -> None:
    launch = plan.plan(serve(tmp_path, cmd=(sys.executable, "{port}")), PLACE)
    assert launch.takes_key
    assert launch.environment == {"LLAMA_API_KEY": "sesame"}
    assert plan.plan(serve(tmp_path, engine="openai", cmd=(sys.executable, "{key}")), PLACE).takes_key


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (WHOLE, None),
        (WHOLE[:-1], "is cut off"),
        (b"", "is empty"),
        (b"<html>", "is not a GGUF file: "),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs pointer"),
    ],
)
def test_weights_are_looked_at(tmp_path: Path, content: bytes, problem: str | None) -> None:
    found = plan.problems(serve(tmp_path, model=weights(tmp_path, content), cmd=(sys.executable, "{model}")))
    assert (found == []) if problem is None else (problem in found[0] and str(tmp_path) in found[0])


def test_missing_weights_are_named_and_so_is_each_missing_part(tmp_path: Path) -> None:
    given = serve(tmp_path, model=str(tmp_path / "no.gguf"), cmd=(sys.executable, "{model}"))
    [problem] = plan.problems(given)
    assert f"{tmp_path}/no.gguf does not exist" in problem
    first = weights(tmp_path, name="big-00001-of-00003.gguf")
    weights(tmp_path, name="big-00003-of-00003.gguf")
    [problem] = plan.problems(serve(tmp_path, model=first, cmd=(sys.executable, "{model}")))
    assert "big-00002-of-00003.gguf" in problem
    [problem] = plan.problems(serve(tmp_path, model=str(tmp_path), cmd=(sys.executable, "{model}")))
    assert "is a directory" in problem


def test_without_any_llama_cpp_the_sentence_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: None)
    nowhere = {"PATH": str(tmp_path)}
    for embedded_field, expected in (
        (None, "neither `llama-server` on PATH nor the embedded engine"),
        (True, "wants the embedded engine, which is not installed"),
        (False, "wants `llama-server`, which is not on PATH"),
    ):
        given = serve(tmp_path, model=weights(tmp_path), embedded=embedded_field, env=nowhere)
        [problem] = plan.problems(given)
        assert expected in problem
        assert "pip install xllamacpp" in problem


@pytest.mark.parametrize("words", [("--flash-attn",), ("--pooling", "odd"), ("stray",), ("--ctx-size",)])
def test_what_the_embedded_engine_does_not_take_is_refused_with_where_all_that_it_takes_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: object())
    given = serve(tmp_path, model=weights(tmp_path), embedded=True, extra_args=words)
    [problem] = plan.problems(given)
    assert problem.startswith("`extra_args` of serve 'a':")
    assert "what the embedded engine takes: stoker docs embedded engine options" in problem
    assert "--parent" not in (*embedded.taken_options(), *problem.split())


def test_what_the_embedded_engine_takes_is_accepted() -> None:
    assert embedded.refusal(("--embeddings", "--reranking", "-ub", "64", "--cache-ram", "0", "--no-warmup")) is None
