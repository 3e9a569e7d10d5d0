"""What `source` says, and which command fetches from there."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.fleet.weights.sources import (
    SourceKind,
    WeightSource,
    download_command,
    is_file,
    of_file,
    of_folder,
    parse,
    parse_size,
    size_command,
)

SPLIT = "/v/m-00001-of-00003.gguf"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("/mnt/m.gguf", WeightSource(SourceKind.PATH, "", "/mnt/m.gguf")),
        ("rsync:me@host-1:models/m.gguf", WeightSource(SourceKind.RSYNC, "me@host-1", "models/m.gguf")),
        ("rsync:host:/with: colon", WeightSource(SourceKind.RSYNC, "host", "/with: colon")),
        ("s3://bucket.x/a/b.gguf", WeightSource(SourceKind.S3, "bucket.x", "a/b.gguf")),
        ("s3://bucket/", WeightSource(SourceKind.S3, "bucket", "")),
        ("https://x.org:8443/a/b%20c.gguf", WeightSource(SourceKind.HTTP, "https://x.org:8443", "a/b%20c.gguf")),
        ("http://x/", WeightSource(SourceKind.HTTP, "http://x", "")),
        ("hf:org/repo", WeightSource(SourceKind.HF, "org/repo", "")),
        ("hf:org/repo/sub/m.gguf", WeightSource(SourceKind.HF, "org/repo", "sub/m.gguf")),
    ],
)
def test_a_source_is_taken_apart_and_prints_as_it_was_written(text: str, source: WeightSource) -> None:
    assert parse(text) == source
    assert str(source) == text


@pytest.mark.parametrize(
    "text",
    [
        "models/m.gguf", "", "ftp://x/m.gguf", "http://", "https:///m", "http://x:y/m", "http://x/a b",
        "http://x/#m", "https://me:pw@x/m.gguf", "http://x/m\r\nHost:y", "rsync:host", "rsync::/m",
        "rsync:-oProxyCommand=x:/m", "rsync:host:",
        "rsync:host\n:/m", "s3://", "s3:///key", "s3://-x/key", "hf:org", "hf:org/", "hf:-x/repo",
        "hf:org/repo/../x", "hf:org/repo/-x",
    ],
)  # fmt: skip
def test_what_is_no_source_is_refused_with_how_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match=r"write (an absolute path|https://|rsync:|s3://|hf:)"):
        parse(text)


def test_what_may_be_a_secret_in_an_address_is_not_printed() -> None:
    source = parse("https://x/m.gguf?sign=marker")
    assert (str(source), source.url, source.name) == ("https://x/m.gguf?***", "https://x/m.gguf?sign=marker", "m.gguf")
    for text in ("https://me:marker@x/m.gguf", "https://x/ ?sign=marker"):
        with pytest.raises(ValueError) as refused:
            parse(text)
        assert "marker" not in str(refused.value)


@given(st.text())
def test_any_text_is_a_source_that_prints_as_it_was_written_or_a_value_error(text: str) -> None:
    for prefix in ("", "rsync:", "s3://", "hf:", "/"):
        with contextlib.suppress(ValueError):
            assert str(parse(prefix + text)).rstrip("/") == (prefix + text).rstrip("/")


def test_a_model_is_a_file_by_its_ending() -> None:
    assert [is_file(name) for name in ("/v/m.gguf", "/v/m.safetensors", "/v/Model-7B.v1")] == [True, True, False]


@pytest.mark.parametrize(
    ("source", "model", "wanted", "where"),
    [
        ("s3://b/k/", "/v/m.gguf", "/v/m.gguf", "s3://b/k/m.gguf"),
        ("hf:o/r", "/v/m.gguf", "/v/m.gguf", "hf:o/r/m.gguf"),
        ("https://x/k/?q", "/v/m.gguf", "/v/m.gguf", "https://x/k/m.gguf?***"),
        ("rsync:h:other.gguf", "/v/m.gguf", "/v/m.gguf", "rsync:h:other.gguf"),
        ("/s/x-00001-of-00003.gguf", SPLIT, "/v/m-00003-of-00003.gguf", "/s/x-00003-of-00003.gguf"),
        ("/s/", SPLIT, "/v/m-00002-of-00003.gguf", "/s/m-00002-of-00003.gguf"),
    ],
)
def test_each_file_has_its_place_at_the_source(source: str, model: str, wanted: str, where: str) -> None:
    assert str(of_file(parse(source), model, wanted)) == where


@pytest.mark.parametrize("source", ["/s/x.gguf", "/s/x-00001-of-00002.gguf"])
def test_one_file_cannot_be_the_source_of_several(source: str) -> None:
    with pytest.raises(ValueError, match=r"is one file, and m-00002-of-00003\.gguf is another: name the first part"):
        of_file(parse(source), SPLIT, "/v/m-00002-of-00003.gguf")


def test_a_model_that_is_a_folder_comes_from_a_folder() -> None:
    assert of_folder(parse("s3://b/k")).path == "k/"
    assert of_folder(parse("rsync:h:m/")).path == "m/"
    assert of_folder(parse("hf:o/r")).path == ""
    with pytest.raises(ValueError, match="cannot be listed"):
        of_folder(parse("https://x/m/"))
    with pytest.raises(ValueError, match="write hf:ORG/REPO"):
        of_folder(parse("hf:o/r/part"))


@pytest.mark.parametrize(
    ("source", "argv"),
    [
        ("rsync:h:a b.gguf", "T -rLt -s --partial --inplace --timeout=120 -- |h:a b.gguf|D"),
        ("rsync:h:m/", "T -rLt -s --partial --inplace --timeout=120 -- |h:m/|D/"),
        ("s3://b/k.gguf", "T s3 cp --only-show-errors s3://b/k.gguf D"),
        ("s3://b/k/", "T s3 cp --only-show-errors --recursive s3://b/k/ D"),
        ("hf:o/r/k.gguf", "T download o/r k.gguf --local-dir D"),
        ("hf:o/r", "T download o/r --local-dir D"),
    ],
)
def test_the_command_that_fetches(source: str, argv: str) -> None:
    words = argv.split("|")
    expected = [*words[0].split(), *words[1:]]
    assert list(download_command(parse(source), "T", "D")) == expected


@pytest.mark.parametrize("source", ["/m.gguf", "https://x/m.gguf"])
def test_a_path_and_an_address_are_no_commands_business(source: str) -> None:
    with pytest.raises(ValueError):
        download_command(parse(source), "T", "D")


def test_sizes_are_asked_where_something_tells_them() -> None:
    assert size_command(parse("s3://b/k.gguf"), "T") == ("T", "s3", "ls", "s3://b/k.gguf")
    asked = size_command(parse("rsync:h:m.gguf"), "T")
    assert asked is not None
    assert "--list-only" in asked
    assert [size_command(parse(text), "T") for text in ("hf:o/r/k.gguf", "s3://b/k/", "rsync:h:m/")] == [None] * 3


@pytest.mark.parametrize(
    ("kind", "said", "size"),
    [
        (SourceKind.RSYNC, ["Welcome", "-rw-r--r--  4,123,456,789 2026/01/02 03:04:05 m.gguf"], 4_123_456_789),
        (SourceKind.RSYNC, ["drwxr-xr-x          4,096 2026/01/02 03:04:05 m"], None),
        (SourceKind.S3, ["2026-01-02 03:04:05     123456 m.gguf"], 123_456),
        (SourceKind.S3, ["2026-01-02 03:04:05 1 m.gguf", "2026-01-02 03:04:05 2 m.gguf.old"], None),
        (SourceKind.S3, [], None),
    ],
)
def test_a_size_that_cannot_be_read_out_is_unknown(kind: SourceKind, said: list[str], size: int | None) -> None:
    assert parse_size(kind, said) == size
