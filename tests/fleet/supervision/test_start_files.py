"""What the header of a model file tells, before anything is stopped for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.tiny_gguf import content, write_tiny

from stoker.domain.serve import Serve
from stoker.fleet.supervision import start_problems
from stoker.fleet.supervision.start_problems import lasting, problems


def serve(model: Path, **fields: Any) -> Serve:
    return Serve(name="m", model=str(model), directory=str(model.parent), **{"embedded": True, **fields})


def test_a_whole_file_has_nothing_to_tell(tmp_path: Path) -> None:
    assert lasting(serve(write_tiny(tmp_path / "m.gguf"))) == []


@pytest.mark.parametrize("kept", [4, 30, 3000, 200_000])
def test_a_file_that_is_cut_off_anywhere_is_named(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content()[:kept])
    [problem] = lasting(serve(path))
    assert str(path) in problem
    assert "download it again" in problem


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content()[:3000])
    assert lasting(serve(path))
    write_tiny(path)
    assert lasting(serve(path)) == []


def test_a_part_that_is_cut_off_is_named_and_one_that_is_missing_too(tmp_path: Path) -> None:
    first, second = (tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2))
    write_tiny(first)
    [problem] = lasting(serve(first))
    assert str(second) in problem
    second.write_bytes(content()[:3000])
    [problem] = lasting(serve(first))
    assert str(second) in problem


def test_a_link_that_leads_nowhere_says_where_it_leads(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.symlink_to(tmp_path / "blobs" / "abc")
    [problem] = lasting(serve(path))
    assert str(path) in problem
    assert f"{tmp_path}/blobs/abc, which does not exist" in problem


@pytest.mark.llama
def test_an_architecture_that_the_embedded_engine_does_not_know_is_named_only_for_that_engine(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content().replace(b"llama", b"lamma"))
    [problem] = lasting(serve(path))
    assert "architecture 'lamma'" in problem
    assert "pip install -U xllamacpp" in problem
    own = serve(path, embedded=None, cmd=("sh", "-m", "{model}", "--port", "{port}"))
    assert lasting(own) == [], "what another engine knows only it can say"


def test_weights_of_another_engine_are_not_judged(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF weights")
    assert lasting(serve(tmp_path / "m.gguf", engine="openai", embedded=None, cmd=("sh", "{model}"))) == []


def test_a_port_that_is_taken_is_no_lasting_problem(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        one = serve(write_tiny(tmp_path / "m.gguf"), port=taken.getsockname()[1])
        assert lasting(one) == []
        assert problems(one, (), ())


def test_files_are_told_apart_by_content_time_and_identity_and_an_engines_log_does_not_count(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf")
    log, template = tmp_path / "engine.log", tmp_path / "t.jinja"
    log.write_text("")
    command = ("sh", "-c", "exit 1", f"--log={log}", "--chat-template-file", "t.jinja", "{model}", "{port}")
    one = serve(path, embedded=None, cmd=command)
    seen = [start_problems.marks(one)]
    assert any(entry[0] == str(path) for entry in seen[0])

    def is_new() -> bool:
        seen.append(start_problems.marks(one))
        return seen[-1] != seen[-2]

    log.write_text("it failed")
    assert not is_new()
    template.write_text("x")
    assert is_new(), "a file that came"
    os.utime(path, ns=(1, 1))
    assert is_new()
    fresh = write_tiny(tmp_path / "fresh.gguf")
    os.utime(fresh, ns=(1, 1))
    os.replace(fresh, path)
    assert is_new(), "another file of the same size and age"
    assert not is_new()


def test_the_files_of_a_folder_of_weights_count(tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    one = serve(folder, engine="vllm", embedded=None, cmd=("sh", "{model}", "{port}"))
    before = start_problems.marks(one)
    (folder / "model-00001.safetensors").write_bytes(b"x")
    assert start_problems.marks(one) != before
