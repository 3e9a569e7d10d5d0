"""One cache of hashes for every reader of weights; whatever is wrong with it costs time, nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stoker.store.files.hashes import HashCache


def test_a_file_that_changes_while_it_is_read_is_not_steady(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"GGUF")

    def hash_file(each: Path) -> str:
        each.write_bytes(b"other, and longer")
        return "digest of neither"

    assert HashCache(tmp_path).measure(path, hash_file) == ("digest of neither", False)


@pytest.mark.parametrize("content", ["[1, 2", '{"/a": [4, 5, 6, "sha"]}', '{"/a": {"size": 4}}', "null"])
def test_a_cache_of_another_form_is_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"GGUF")
    (tmp_path / "hashes.json").write_text(content)
    digests = HashCache(tmp_path).hash_all([path])
    assert digests == {str(path): hashlib.sha256(b"GGUF").hexdigest()}
    assert HashCache(tmp_path).lookup(path) == digests[str(path)]


def test_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    assert set(HashCache(tmp_path).hash_all([tmp_path / "none", tmp_path / "a", tmp_path])) == {str(tmp_path / "a")}
