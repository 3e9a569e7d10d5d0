"""Fixtures from a directory: what is refused names file, line and reason; the hash is of the content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker_lab.suites.fixture import Fixture, FixtureError, by_class, digest, read_fixtures

ONE: dict[str, Any] = {
    "id": "own-1",
    "task_class": "chat",
    "request": {"messages": [{"role": "user", "content": "hi"}]},
    "check": {"kind": "contains", "any": ["hello"]},
}


def put(directory: Path, *ones: dict[str, Any] | str, name: str = "own.jsonl") -> Path:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in ones]
    (directory / name).write_text("\n".join(lines) + "\n")
    return directory


def test_a_directory_of_ones_own_is_read_file_by_file(tmp_path: Path) -> None:
    put(tmp_path, ONE | {"id": "z"}, "", ONE | {"id": "a"}, name="b.jsonl")
    put(tmp_path, ONE, name="a.jsonl")
    put(tmp_path, "no fixture", name="readme.txt")
    assert [one.id for one in read_fixtures(tmp_path)] == ["own-1", "z", "a"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "truncated"),
        (ONE | {"id": ""}, "`id` must consist"),
        (ONE | {"id": "a b"}, "`id` must consist"),
        (ONE | {"task_class": "chatt"}, "'chatt' is unknown; known classes: chat, "),
        (ONE | {"more": 1}, "unknown field `more`"),
        (ONE | {"request": {"messages": []}}, "`request.messages` must hold turns"),
        (ONE | {"request": {**ONE["request"], "model": "m"}}, "`request.model` must not be set by a fixture"),
        (ONE | {"request": {**ONE["request"], "stream": True}}, "`request.stream`"),
        (ONE | {"check": {"kind": "taste"}}, "Invalid value 'taste' - at `$.check.kind`"),
        (ONE | {"check": {"kind": "number", "value": "1", "about": 2}}, "`about` - at `$.check`"),
        (ONE | {"check": {"kind": "number", "value": "many"}}, "`check.value` 'many' is not a number"),
        (ONE | {"check": {"kind": "format", "case": "title"}}, "$.check.case"),
    ],
)
def test_what_cannot_be_read_is_named_with_file_line_and_reason(tmp_path: Path, line: Any, why: str) -> None:
    put(tmp_path, ONE | {"id": "fine"}, line)
    with pytest.raises(FixtureError) as found:
        read_fixtures(tmp_path)
    assert str(found.value).startswith(f"{tmp_path}/own.jsonl, line 2: ")
    assert why in str(found.value)


def test_an_id_stands_once_in_all_files(tmp_path: Path) -> None:
    put(tmp_path, ONE, name="a.jsonl")
    put(tmp_path, ONE, name="b.jsonl")
    with pytest.raises(FixtureError, match=r"b\.jsonl, line 1: the id 'own-1' is taken by .*a\.jsonl, line 1"):
        read_fixtures(tmp_path)


def test_a_directory_without_fixtures_is_told(tmp_path: Path) -> None:
    with pytest.raises(FixtureError, match="has no fixtures"):
        read_fixtures(tmp_path)
    with pytest.raises(FixtureError, match="is not a directory"):
        read_fixtures(tmp_path / "not")


def test_other_classes_can_be_had(tmp_path: Path) -> None:
    put(tmp_path, ONE | {"task_class": "own"})
    assert list(by_class(read_fixtures(tmp_path, classes=("own",)))) == ["own"]


def test_the_hash_is_of_ids_and_contents_whatever_their_order(tmp_path: Path) -> None:
    first, second = (read_fixtures(put(tmp_path, ONE | {"id": name}))[0] for name in ("a", "b"))
    changed = Fixture("b", "chat", {"messages": [{"role": "user", "content": "hi!"}]}, second.check)
    assert digest([first, second]) == digest([second, first])
    assert len({digest([first, second]), digest([first]), digest([first, changed]), digest([second])}) == 4
