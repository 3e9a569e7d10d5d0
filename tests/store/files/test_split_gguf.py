"""Which files a GGUF model consists of."""

from __future__ import annotations

import pytest

from stoker.store.files.split_gguf import GgufPart, model_files, parse_part


def test_the_first_part_names_all_of_them() -> None:
    assert model_files("/v/m-00001-of-00003.gguf") == [f"/v/m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]


@pytest.mark.parametrize("path", ["/v/m.gguf", "/v/m-00002-of-00003.gguf", "m-1-of-3.gguf", "/v/m-00001-of-00003.x"])
def test_any_other_is_one_file(path: str) -> None:
    assert model_files(path) == [path]


def test_a_part_is_taken_apart_and_prints_as_it_was_written() -> None:
    assert parse_part("a-00001-of-00002-00002-of-00003.gguf") == GgufPart("a-00001-of-00002", 2, 3)
    assert str(parse_part("/v/m-00002-of-00003.gguf")) == "/v/m-00002-of-00003.gguf"
    assert parse_part("/v/m.gguf") is None
