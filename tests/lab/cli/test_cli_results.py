"""`results list | show | compare`: from files alone, whatever state they are in."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stoker.cli.main import run
from stoker.domain.errors import StokerError
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, RunKind, Subject
from stoker_lab.artifacts import result_file
from stoker_lab.commands import results
from stoker_lab.commands.save_run import save_run


def made(day: int, kind: RunKind = RunKind.CANARY, model: str = "x", rate: float = 100.0) -> Run:
    run_id = f"202611{day:02d}T175901Z-{kind.value}-fast-00{day:02d}"
    subject = Subject("fast", "fast", "http://x/v1", fingerprint=Fingerprint("i", "e", {"model": model}))
    findings = [Finding("sum", Outcome.FAILED, "it differs", "a cause", "a fix")]
    numbers = {"rate": rate, "rate_low": rate - 1, "rate_high": rate + 1, "n": 3, "none": None}
    return Run(run_id, kind, time.time() - 3600 * day, 2.0, subject, Outcome.FAILED, findings, numbers)


@pytest.fixture
def kept(config: Path) -> list[Run]:
    """Three results of different days; the third is a soak."""
    runs = [made(3), made(2, model="y", rate=110.0), made(1, RunKind.SOAK)]
    for one in runs:
        result_file.save(one, config.parent / "state" / "results")
    return runs


def ids(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert run(["results", "list", "--json", *words]) == 0
    return [entry["id"][-4:] for entry in json.loads(capsys.readouterr().out)]


def test_results_are_listed_newest_first_and_chosen(kept: list[Run], capsys: pytest.CaptureFixture[str]) -> None:
    assert ids(capsys) == ["0001", "0002", "0003"]
    assert ids(capsys, "--kind", "canary", "--serve", "fast", "--limit", "1") == ["0002"]
    assert ids(capsys, "--since", "90m") == ["0001"]
    assert ids(capsys, "--since", "2020-01-01", "--outcome", "passed") == []
    assert run(["results", "list"]) == 0
    assert "soak" in capsys.readouterr().out
    assert run(["results", "list", "--kind", "cannery"]) == 2
    assert "canary" in capsys.readouterr().err
    assert run(["results", "list", "--since", "yesterday"]) == 2


def test_no_results_are_said_with_what_makes_one(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["results", "list"]) == 0
    assert "stoker eval canary" in capsys.readouterr().out


def test_a_broken_file_is_named_beside_the_others(
    kept: list[Run], config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "state" / "results" / "broken.json").write_text("{")
    assert run(["results", "list", "--json"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)) == 3
    assert "broken.json" in told.err


def test_one_is_shown_by_a_part_of_its_id(kept: list[Run], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["results", "show", "0002"]) == 0
    told = capsys.readouterr().out
    assert all(text in told for text in (kept[1].id, "it differs", "a cause", "a fix", "rate", "model", "110"))
    assert run(["results", "show", "20261102", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["numbers"]["n"] == 3
    assert run(["results", "show", "2026"]) == 2
    assert "3 results" in capsys.readouterr().err
    assert run(["results", "show", "nothing"]) == 1
    assert "stoker results list" in capsys.readouterr().err


def test_two_are_compared_and_what_differs_is_named(kept: list[Run], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["results", "compare", "0003", "0002"]) == 0
    told = capsys.readouterr()
    assert "two different models" in told.err
    assert "model: x -> y" in told.out
    assert "99 to 101" in told.out
    assert "apart" in told.out
    assert run(["results", "compare", "0003", "0002", "--json"]) == 0
    row = next(one for one in json.loads(capsys.readouterr().out)["rows"] if one["name"] == "rate")
    assert (row["difference"], row["is_apart"]) == (10.0, True)
    assert run(["results", "compare", "0003", "0001"]) == 2
    assert "name two results of the same kind" in capsys.readouterr().err


def complete(incomplete: str, **params: str) -> list[str]:
    context: Any = SimpleNamespace(params=params)
    return results.result_ids(context, incomplete)


def test_ids_are_completed(kept: list[Run], config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complete("202611") == [kept[0].id, kept[1].id, kept[2].id]
    assert complete("20261102") == [kept[1].id]
    assert complete("x") == []
    assert complete("20261102", config=str(config)) == [kept[1].id]
    assert complete("20261102", state=str(config.parent / "state")) == [kept[1].id]
    config.write_text("[[")
    assert complete("2026") == []
    config.write_text("paths = 3")
    assert complete("2026") == []
    assert capsys.readouterr() == ("", "")


def test_a_full_disk_loses_nothing_that_was_measured(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StokerError, match="No space left") as caught:
        save_run(made(1), config.parent / "state")
    assert caught.value.code == "not_kept"
    first, printed_text = capsys.readouterr().err.split("\n", 1)
    assert "could not be saved" in first
    printed = msgspec.json.decode(printed_text, type=Run)
    assert printed.id == made(1).id
    assert not list((config.parent / "state" / "results").glob("*"))
