"""Whatever is wrong with a model file is found by its name and header, and said in one sentence with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.memory.model_files import LLAMA_8B, gguf, llama

from stoker.store.files import gguf_header
from stoker.store.files.model_file import problem_of

MODELS = Path(__file__).parents[3] / "src" / "stoker" / "models"
ONE_TENSOR = [("token_embd.weight", (32,), 0, 0)]


@pytest.mark.parametrize("name", ["spark.gguf", "ember.gguf"])
def test_nothing_is_wrong_with_a_whole_model(name: str) -> None:
    assert problem_of(str(MODELS / name)) == ""


def test_nothing_is_wrong_with_a_link_to_a_whole_model(tmp_path: Path) -> None:
    (tmp_path / "link.gguf").symlink_to(MODELS / "spark.gguf")
    assert problem_of(str(tmp_path / "link.gguf")) == ""


def test_a_dangling_link_is_not_a_missing_file(tmp_path: Path) -> None:
    link = tmp_path / "m.gguf"
    link.symlink_to(tmp_path / "gone" / "weights.gguf")
    assert problem_of(str(link)).startswith(f"{link} is a link to {tmp_path}/gone/weights.gguf, which does not exist: ")
    assert problem_of(str(tmp_path / "no.gguf")).startswith(f"{tmp_path}/no.gguf does not exist: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty: "),
        (b"<html>", "is not a GGUF file: "),
        (b"some notes\n", "is not a GGUF file: "),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a git-lfs pointer, not the weights: "),
        (b"GGUF" + bytes(20), "is broken (its version is 0, "),
        ((MODELS / "spark.gguf").read_bytes()[:4000], "is broken (it ends inside its header): "),
        ((MODELS / "spark.gguf").read_bytes()[:9000], "is broken (it ends inside its header): "),
        ((MODELS / "spark.gguf").read_bytes()[:-1], "is cut off ("),
    ],
)
def test_a_file_that_is_no_whole_model_is_told_by_its_content(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert problem_of(str(path)).startswith(f"{path} {said}")


def test_a_directory_is_no_model_file(tmp_path: Path) -> None:
    assert problem_of(str(tmp_path)).startswith(f"{tmp_path} is a directory: ")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"general.architecture": "clip", "general.type": "mmproj"}, "is a projector of another model: "),
        ({"general.architecture": "clip"}, "is a projector of another model: "),
        (LLAMA_8B | {"general.type": "adapter"}, "is no model but of type 'adapter'"),
        (LLAMA_8B | {"general.type": "imatrix"}, "is no model but of type 'imatrix'"),
    ],
)
def test_a_file_that_belongs_to_another_model_is_no_model(tmp_path: Path, facts: dict[str, object], said: str) -> None:
    path = gguf(tmp_path / "m.gguf", facts, ONE_TENSOR, 128)
    assert problem_of(str(path)).startswith(f"{path} {said}")
    assert problem_of(str(path), is_language_model=False) == ""


def test_a_file_without_weights_is_told(tmp_path: Path) -> None:
    path = gguf(tmp_path / "m.gguf", LLAMA_8B, [])
    assert problem_of(str(path)).startswith(f"{path} has no weights in it: ")


def split(folder: Path, count: int, missing: int | None = None) -> str:
    for number in range(1, count + 1):
        if number != missing:
            name = f"big-{number:05d}-of-{count:05d}.gguf"
            gguf(folder / name, LLAMA_8B if number == 1 else {}, [(f"blk.{number}.x", (32,), 0, 0)], 128)
    return str(folder / f"big-00001-of-{count:05d}.gguf")


def test_a_split_model_needs_every_part_whole(tmp_path: Path) -> None:
    first = split(tmp_path, 3)
    assert problem_of(first) == ""
    last = tmp_path / "big-00003-of-00003.gguf"
    last.write_bytes(last.read_bytes()[:-1])
    assert problem_of(first).startswith(f"{last} is cut off (")
    (tmp_path / "big-00002-of-00003.gguf").unlink()
    assert problem_of(first).startswith(f"{tmp_path}/big-00002-of-00003.gguf, part 2 of 3, does not exist: ")


def test_a_later_part_is_not_what_a_model_is_called_by(tmp_path: Path) -> None:
    first = split(tmp_path, 2)
    said = problem_of(str(tmp_path / "big-00002-of-00002.gguf"))
    assert said.startswith(f"{tmp_path}/big-00002-of-00002.gguf is part 2 of 2: ")
    assert first in said


def test_a_part_that_was_renamed_is_told(tmp_path: Path) -> None:
    path = gguf(tmp_path / "m.gguf", LLAMA_8B | {"split.count": 3}, ONE_TENSOR, 128)
    assert problem_of(str(path)).startswith(f"{path} is one of 3 parts by its header")


def test_a_file_is_read_again_once_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = llama(tmp_path / "m.gguf", layers=1)
    read: list[str] = []
    real = gguf_header.read_header
    monkeypatch.setattr(gguf_header, "read_header", lambda one: read.append(one) or real(one))  # type: ignore[func-returns-value]
    assert [problem_of(str(path)), problem_of(str(path))] == ["", ""]
    assert len(read) == 1
    path.write_bytes(path.read_bytes()[:100])
    assert "is broken (" in problem_of(str(path))
    assert len(read) == 2
