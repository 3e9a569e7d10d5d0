"""The index of results over its files: whatever happens to either."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StokerError
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, RunKind, Subject
from stoker.store.results import HEAD, VERSION, Results
from stoker_lab.artifacts import result_file


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def results(state: Path) -> Results:
    return Results(state)


def made(number: int, kind: RunKind = RunKind.CANARY, serve: str = "fast", baseline: bool = False) -> Run:
    run_id = f"2026112{number}T175901Z-{kind.value}-{serve}-{number:04x}"
    subject = Subject(serve, serve, "http://x/v1", fingerprint=Fingerprint(f"id-{serve}", "e"))
    settings = {"baseline": msgspec.Raw(b"true" if baseline else b"false")}
    findings = [Finding("a", Outcome.FAILED), Finding("b", Outcome.PASSED)]
    outcome = Outcome.FAILED if number % 2 else Outcome.PASSED
    return Run(run_id, kind, 1000.0 + number, 1.0, subject, outcome, findings, {"n": number}, settings)


def put(state: Path, run: Run) -> Path:
    path = state / "results" / f"{run.id}.json"
    path.write_bytes(msgspec.json.encode(run))
    return path


def ids(results: Results, **wanted: object) -> list[str]:
    return [entry.id[-4:] for entry in results.select(**wanted)]  # type: ignore[arg-type]


def test_runs_are_found_by_kind_serve_time_outcome_and_as_baselines(state: Path, results: Results) -> None:
    for run in (made(1), made(2, RunKind.SOAK), made(3, serve="slow", baseline=True), made(4)):
        put(state, run)
        results.record(run)
    assert ids(results) == ["0004", "0003", "0002", "0001"]
    assert ids(results, kind=RunKind.CANARY) == ["0004", "0003", "0001"]
    assert ids(results, serve="fast", since=1002.0) == ["0004", "0002"]
    assert ids(results, outcome=Outcome.FAILED) == ["0003", "0001"]
    assert ids(results, baselines=True) == ["0003"]
    assert ids(results, limit=1) == ["0004"]
    entry = results.select(limit=1)[0]
    assert (entry.identity, entry.findings, entry.failed, entry.is_baseline) == ("id-fast", 2, 1, False)


def test_an_id_is_found_by_its_beginning_or_its_end(state: Path, results: Results) -> None:
    first, second = made(1), made(2)
    put(state, first)
    put(state, second)
    assert results.find(first.id) == [first.id]
    assert results.find("20261121") == [first.id]
    assert results.find("0002") == [second.id]
    assert results.find("2026") == [second.id, first.id]
    assert results.find("nothing") == results.find("") == []
    assert results.load(first.id).numbers == {"n": 1}


def test_files_are_the_truth(state: Path, results: Results) -> None:
    kept, gone, late = made(1), made(2), made(3)
    put(state, kept)
    results.record(kept)
    path = put(state, gone)
    results.record(gone)
    path.unlink()
    put(state, late)
    assert results.sync() == []
    assert ids(results) == ["0003", "0001"]
    kept.outcome = Outcome.INTERRUPTED
    put(state, kept).touch()
    results.sync()
    assert ids(results, outcome=Outcome.INTERRUPTED) == ["0001"]


def test_a_broken_file_is_named_and_hinders_no_other(state: Path, results: Results) -> None:
    put(state, made(1))
    broken = state / "results" / "20261129T000000Z-canary-x-0000.json"
    broken.write_text('{"id": "2026')
    stranger = state / "results" / "other.json"
    stranger.write_bytes(msgspec.json.encode(made(5)))
    (state / "results" / ".draft.json").write_text("half")
    found = results.sync()
    assert len(found) == 2
    assert str(broken) in found[0]
    assert "contains the id" in found[1]
    assert ids(results) == ["0001"]
    with pytest.raises(StokerError) as caught:
        results.load("gone")
    assert caught.value.code == "no_result"


@pytest.mark.parametrize("content", [b"no database at all" * 500, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_an_index_beyond_use_is_made_again(state: Path, results: Results, content: bytes) -> None:
    put(state, made(1))
    results.path.write_bytes(content)
    assert ids(results) == ["0001"]


def test_an_index_of_another_version_is_made_again(state: Path, results: Results) -> None:
    put(state, made(1))
    with closing(sqlite3.connect(results.path)) as db:
        db.execute("CREATE TABLE runs (id TEXT)")
        db.execute("PRAGMA user_version = 99")
    assert ids(results) == ["0001"]
    with closing(sqlite3.connect(results.path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION


def test_no_directory_is_no_results_and_all_is_private(tmp_path: Path) -> None:
    results = Results(tmp_path / "state")
    assert results.sync() == []
    assert results.select() == []
    assert stat.S_IMODE(results.path.stat().st_mode) == 0o600


def test_several_may_write_at_once(state: Path) -> None:
    def write(number: int) -> None:
        run = made(number)
        put(state, run)
        Results(state).record(run)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids(Results(state))) == 8


def test_without_an_index_the_files_are_read_and_what_cannot_be_entered_is_said(state: Path, results: Results) -> None:
    put(state, made(1))
    results.path.mkdir()
    assert ids(results) == ["0001"]
    assert results.find("0001") == [made(1).id]
    with pytest.raises(StokerError, match=r"results\.db") as caught:
        results.record(made(1))
    assert caught.value.code == "results_unusable"


def test_samples_of_any_size_are_not_read_where_they_are_not_wanted(state: Path, results: Results) -> None:
    run = made(1)
    run.raw = msgspec.Raw(b'["' + b"x" * (2 * HEAD) + b'"]')
    run.findings[0].observed = '\n "raw": in a text is no end'
    result_file.save(run, state / "results")
    found = results.load_without_samples(run.id)
    assert (found.findings, found.settings, bytes(found.raw)) == (run.findings, run.settings, b"null")
    path = put(state, made(2))
    assert results.load_without_samples(path.stem).numbers == {"n": 2}, "written by something else: on one line"


def test_a_result_that_is_too_large_before_its_samples_is_an_error(state: Path, results: Results) -> None:
    run = made(1)
    run.findings[0].observed = "x" * (2 * HEAD)
    result_file.save(run, state / "results")
    for wanted in (run.id, "20261121T175901Z-canary-none"):
        with pytest.raises(StokerError) as caught:
            results.load_without_samples(wanted)
        assert caught.value.code == "no_result"
