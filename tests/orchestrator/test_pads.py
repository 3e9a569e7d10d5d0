"""Scratchpads: what is new in one, and when they are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker_orchestrator.loop.blocks import WorkerBlock
from stoker_orchestrator.memory.pads import Scratchpads
from stoker_orchestrator.memory.scratchpad import RunHead

DAY = 86400.0


class Directory:
    """Scratchpads of a known age."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 100 * DAY
        self.pads = Scratchpads(path, lambda: self.now)

    def add(self, request: str, orchestrator: str, days: float, has_request: bool = True) -> None:
        self.pads.begin(RunHead(request, orchestrator, "w"))
        files = [self.pads.path(request)]
        if has_request:
            self.pads.request_file(request).write_text("{}")
            files.append(self.pads.request_file(request))
        for file in files:
            os.utime(file, (self.now - days * DAY,) * 2)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "orchestrator")


def test_each_is_kept_as_long_as_its_orchestrator_says(directory: Directory) -> None:
    directory.add("a1", "short", 2, has_request=False)
    directory.add("a2", "short", 0.5, has_request=False)
    directory.add("b1", "long", 2, has_request=False)
    directory.add("c1", "gone", 2, has_request=False)
    directory.add("c2", "gone", 8, has_request=False)
    assert directory.pads.clean({"short": DAY, "long": 7 * DAY}) == 2
    assert directory.names() == ["a2.md", "b1.md", "c1.md"], "one without an orchestrator is kept as the longest"


def test_what_stoker_run_sent_goes_with_its_scratchpad_or_alone(directory: Directory) -> None:
    directory.add("old", "pair", 8)
    directory.add("new", "pair", 1)
    directory.add("alone", "pair", 8)
    directory.pads.path("alone").unlink()
    directory.pads.clean({"pair": 7 * DAY, "long": 30 * DAY})
    assert directory.names() == ["alone.request.json", "new.md", "new.request.json"]
    directory.pads.clean({"pair": 7 * DAY})
    assert directory.names() == ["new.md", "new.request.json"]


def test_in_a_thread_they_are_cleaned_once_an_hour(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned: list[dict[str, float]] = []
    monkeypatch.setattr("threading.Thread", lambda target, args, **_: _Now(lambda: cleaned.append(*args)))
    for hours, times in ((0.0, 1), (0.5, 1), (1.1, 2)):
        directory.now = 100 * DAY + hours * 3600
        directory.pads.clean_in_thread({"pair": DAY})
        assert len(cleaned) == times


class _Now:
    """A thread that does its work when it is started."""

    def __init__(self, work: object) -> None:
        self.start = work


def test_only_what_is_new_is_read_and_never_half_a_record(directory: Directory) -> None:
    pad = directory.pads.begin(RunHead("r", "pair", "w"))
    found, after = directory.pads.read_new("r", 0)
    assert [one.facts["kind"] for one in found] == ["head"]
    pad.commit(1, WorkerBlock("x\n"))
    whole = directory.pads.path("r").read_bytes()
    directory.pads.path("r").write_bytes(whole[:-1])
    assert directory.pads.read_new("r", after) == ([], after)
    directory.pads.path("r").write_bytes(whole)
    found, end = directory.pads.read_new("r", after)
    assert [one.facts["kind"] for one in found] == ["commit"]
    assert end == len(whole)


@pytest.mark.parametrize("request_id", ["../x", "", "a/b", ".hidden"])
def test_what_is_no_request_id_names_no_file(directory: Directory, request_id: str) -> None:
    with pytest.raises(ValueError, match="is not the id of a request"):
        directory.pads.read_new(request_id, 0)
