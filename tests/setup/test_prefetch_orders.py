"""What is to be fetched, and what it will be called."""

from __future__ import annotations

import pytest

from stoker.fleet.weights.sources import parse
from stoker_setup.prefetch import Order, order

A, B = "ab" * 32, "cd" * 32
SPLIT = [f"m-0000{n}-of-00002.gguf" for n in (1, 2)]


def fetched(found: Order) -> list[tuple[str, str]]:
    return [(item.name, str(item.source)) for item in found.items]


@pytest.mark.parametrize(
    ("source", "called", "name"),
    [
        ("/s/m.gguf", None, "m.gguf"),
        ("/s/m.gguf", "fast", "fast.gguf"),
        ("/s/m.gguf", "mine/fast.gguf", "mine/fast.gguf"),
        ("https://x/a%2Bb.gguf?sign=x", None, "a+b.gguf"),
        ("https://x/download?id=3", "m.gguf", "m.gguf"),
        ("hf:org/repo/sub/m.safetensors", "w", "w.safetensors"),
        (f"s3://bucket/{SPLIT[0]}", None, SPLIT[0]),
        (f"s3://bucket/{SPLIT[0]}", "big", "big-00001-of-00002.gguf"),
        (f"s3://bucket/{SPLIT[0]}", "big.gguf", "big-00001-of-00002.gguf"),
        (f"s3://bucket/{SPLIT[0]}", "big-00001-of-00009.gguf", "big-00001-of-00002.gguf"),
    ],
)
def test_a_file_keeps_its_ending_and_its_place_among_the_parts(source: str, called: str | None, name: str) -> None:
    found = order(parse(source), called, [])
    assert (found.name, found.is_folder) == (name, False)
    assert found.path_of("/v") == f"/v/{name}"


def test_all_parts_come_and_lie_beside_the_first() -> None:
    found = order(parse(f"hf:org/repo/q/{SPLIT[0]}"), "x/big", [])
    assert fetched(found) == [
        ("big-00001-of-00002.gguf", f"hf:org/repo/q/{SPLIT[0]}"),
        ("big-00002-of-00002.gguf", f"hf:org/repo/q/{SPLIT[1]}"),
    ]
    assert found.path_of("/v", found.items[1].name) == "/v/x/big-00002-of-00002.gguf"


def test_a_folder_of_ours_comes_file_by_file_and_one_of_a_tool_whole() -> None:
    found = order(parse("/s/Model/"), None, [f"a/w.safetensors={A}"], ["config.json", "a/w.safetensors"])
    assert fetched(found) == [("config.json", "/s/Model/config.json"), ("a/w.safetensors", "/s/Model/a/w.safetensors")]
    assert (found.name, found.path_of("/v", "a/w.safetensors")) == ("Model", "/v/Model/a/w.safetensors")
    assert found.sha256 == {"a/w.safetensors": A}
    for source, name in (("hf:org/Repo", "Repo"), ("s3://bucket/k/M/", "M"), ("s3://bucket/", "bucket")):
        found = order(parse(source), None, [f"w.safetensors={A}"])
        assert (found.name, fetched(found), found.is_folder) == (name, [("", source)], True)
        assert found.sha256 == {"w.safetensors": A}


def test_digests_may_name_files_as_they_are_there_or_as_they_will_be_here() -> None:
    assert order(parse("/s/m.gguf"), "x", [A.upper()]).sha256 == {"x.gguf": A}
    assert order(parse("/s/m.gguf"), "x", [f"m.gguf={A}", f"x.gguf={A}"]).sha256 == {"x.gguf": A}
    both = order(parse(f"/s/{SPLIT[0]}"), "x", [f"{SPLIT[0]}={A}", f"x-00002-of-00002.gguf={B}"])
    assert both.sha256 == {"x-00001-of-00002.gguf": A, "x-00002-of-00002.gguf": B}


@pytest.mark.parametrize(
    ("source", "called", "digests", "why"),
    [
        (f"/s/{SPLIT[1]}", None, [], f"is part 2 of 2: name the first one, {SPLIT[0]}"),
        ("https://x/models/", None, [], "cannot be listed over HTTP"),
        ("https://x/download", None, [], "`stoker stage SOURCE --as NAME.gguf`"),
        ("/s/M/", None, [], "has no files in it"),
        ("hf:org/repo/part", None, [], "write hf:ORG/REPO"),
        ("/s/m.gguf", "../m", [], "is not a valid name for a model"),
        ("/s/m.gguf", "/etc/m", [], "is not a valid name for a model"),
        ("/s/m.gguf", ".staging/m", [], "is not a valid name for a model"),
        ("/s/a b.gguf", None, [], "choose one with `stoker stage SOURCE --as NAME`"),
        ("/s/m.gguf", None, ["abc"], "64 hex digits"),
        ("/s/m.gguf", None, [f"n.gguf={A}"], "names n.gguf, which is not among the files to fetch: m.gguf"),
        ("/s/m.gguf", None, [A, B], "given twice for m.gguf"),
        (f"/s/{SPLIT[0]}", None, [A], "does not name its file"),
        ("hf:org/repo", None, [A], "does not name its file"),
    ],
)
def test_what_cannot_be_ordered_says_what_to_type(
    source: str, called: str | None, digests: list[str], why: str
) -> None:
    with pytest.raises(ValueError) as refused:
        order(parse(source), called, digests)
    assert why in str(refused.value)
