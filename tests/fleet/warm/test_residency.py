"""How much of a file is in the page cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.domain.serve import Serve
from stoker.fleet.warm import pages
from stoker.fleet.weights.serve_weights import weights_of

MIB = 2**20
Write = Callable[..., str]


@pytest.fixture(params=["cachestat", "mincore"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to count give the same."""
    if request.param == "mincore":
        monkeypatch.setattr(pages, "cached_pages", lambda file, offset, length: None)
    return str(request.param)


def _read(path: str, offset: int, length: int) -> None:
    """Without read-ahead."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file, length, offset)
    finally:
        os.close(file)


def test_the_share_is_that_of_the_pages_that_are_there(write: Write, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "WINDOW", MIB)  # several windows, and the last one short
    path = write("weights", 4 * MIB + 5000)
    _read(path, 0, MIB)
    cached, whole = pages.count(path) or (0, 0)
    assert whole == 4 * 256 + 2
    assert 256 <= cached < 512
    Path(path).read_bytes()
    assert pages.cached_share(path) == 1.0
    pages.evict(path)
    assert pages.cached_share(path) == 0.0


def test_what_is_locked_is_not_evicted(write: Write) -> None:
    path = write("weights", MIB)
    file = os.open(path, os.O_RDONLY)
    mapping = pages.Mapping(file, 0, MIB)
    try:
        mapping.lock(0, 4096)
        pages.evict(path)
        assert (pages.count(path) or (0, 0))[0] >= 1
    finally:
        mapping.close()
        os.close(file)
    pages.evict(path)
    assert pages.cached_share(path) == 0.0


def test_an_empty_file_has_nothing_to_bring_in(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert pages.cached_share(str(tmp_path / "empty")) == 1.0


def test_several_files_count_by_their_size(write: Write) -> None:
    big, small = write("big", 3 * MIB), write("small", MIB, cached=True)
    assert pages.cached_share_of((big, small)) == 0.25
    assert pages.cached_share_of(()) is None


def test_one_file_that_is_unknown_makes_the_whole_unknown(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    known, unknown = write("known", MIB), write("unknown", MIB)
    count = pages.count
    monkeypatch.setattr(pages, "count", lambda path: None if path == unknown else count(path))
    assert pages.cached_share_of((known,)) == 0.0
    assert pages.cached_share_of((known, unknown)) is None


def test_what_the_kernel_does_not_tell_is_unknown_not_full(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("theirs", MIB)
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(path).st_uid + 1)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert pages.cached_share(path) is None
    assert pages.cached_share_of((path,)) is None


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pages.cached_share(str(tmp_path / "none"))


def test_reading_beyond_a_file_that_became_shorter_is_an_error_and_no_signal(write: Write) -> None:
    path = write("weights", MIB)
    file = os.open(path, os.O_RDONLY)
    mapping = pages.Mapping(file, 0, MIB)
    try:
        os.truncate(path, 4096)
        with pytest.raises(OSError):
            mapping.read_in(8192, 4096)
    finally:
        mapping.close()
        os.close(file)


def _sized(directory: Path, **sizes: int) -> None:
    for name, size in sizes.items():
        (directory / name.replace("__", ".").replace("_", "-")).write_bytes(bytes(size))


def test_all_parts_of_a_gguf_are_its_weights(tmp_path: Path) -> None:
    _sized(tmp_path, m_00001_of_00002__gguf=3, m_00002_of_00002__gguf=4, other__gguf=5)
    found = weights_of(Serve("a", model=str(tmp_path / "m-00001-of-00002.gguf")))
    assert {Path(path).name: size for path, size in found.items()} == {
        "m-00001-of-00002.gguf": 3,
        "m-00002-of-00002.gguf": 4,
    }
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    assert weights_of(Serve("a", model=str(tmp_path / "m-00001-of-00002.gguf"))) == {}


def test_the_weights_in_a_models_directory(tmp_path: Path) -> None:
    _sized(tmp_path, a__safetensors=3, config__json=9)
    found = weights_of(Serve("a", engine="vllm", model=str(tmp_path)))
    assert found == {str(tmp_path / "a.safetensors"): 3}


def test_a_hub_id_is_no_file() -> None:
    assert weights_of(Serve("a", engine="vllm", model="org/name")) == {}
