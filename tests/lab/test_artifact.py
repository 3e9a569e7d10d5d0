"""A run as a file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StokerError
from stoker.domain.run import Finding, Outcome, Run, RunKind, Subject
from stoker_lab.artifacts import result_file
from stoker_lab.artifacts.machine import machine
from stoker_lab.trials.sweep import Variant


def run(run_id: str = "20261121T175901Z-canary-fast-3f2a") -> Run:
    subject = Subject("fast", "fast", "http://127.0.0.1:8000/v1")
    findings = [Finding("sum", Outcome.FAILED, "it differs")]
    settings = result_file.raws({"every": 5})
    where = result_file.raws(machine())
    raw = msgspec.Raw(b'{"a":[1,2]}')
    return Run(run_id, RunKind.CANARY, 1.5, 2.5, subject, Outcome.FAILED, findings, {"n": 3}, settings, where, raw)


def decoded(one: Run) -> object:
    return msgspec.json.decode(msgspec.json.encode(one))


def test_what_is_saved_is_loaded_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    directory = result_file.results_of(tmp_path)
    path = result_file.save(run(), directory)
    assert path == directory / "20261121T175901Z-canary-fast-3f2a.json"
    assert decoded(result_file.load(path)) == decoded(run())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert list(directory.iterdir()) == [path]


def test_ids_sort_by_time_and_are_names_of_files() -> None:
    ids = [
        result_file.new_id(RunKind.SOAK, "a b/../c", at) for at in (1_000_000_000.0, 1_700_000_000.0, 1_800_000_000.0)
    ]
    assert ids == sorted(ids)
    assert ids[1].startswith("20231114T221320Z-soak-a-b-..-c-")
    assert all("/" not in one for one in ids)
    assert result_file.new_id(RunKind.SOAK, "a", 0.0) != result_file.new_id(RunKind.SOAK, "a", 0.0)


def test_a_full_disk_is_said_and_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = result_file.save(run(), tmp_path)
    before = earlier.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StokerError, match=r"No space left on device.*make room") as caught:
        result_file.save(run(), tmp_path)
    assert caught.value.code == "not_kept"
    assert earlier.read_bytes() == before
    assert list(tmp_path.iterdir()) == [earlier]


def test_a_result_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    for path in (tmp_path / "x.json", tmp_path / "gone.json"):
        with pytest.raises(StokerError, match=path.name):
            result_file.load(path)


def test_a_result_is_found_by_file_id_and_beginning(tmp_path: Path) -> None:
    path = result_file.save(run(), tmp_path)
    assert result_file.find(str(path), tmp_path) == path
    assert result_file.find("20261121T", tmp_path) == path
    result_file.save(run("20261121T180000Z-canary-fast-0000"), tmp_path)
    for name in ("20261121T", "nothing", "../../x"):
        with pytest.raises(StokerError):
            result_file.find(name, tmp_path)


def test_stored_findings_and_variants_keep_their_field_name() -> None:
    finding = msgspec.json.decode(b'{"name":"eos","outcome":"passed","seen":"24 of 24"}', type=Finding)
    variant = msgspec.json.decode(b'{"variant":{"parallel":"4"},"seen":"24 requests answered"}', type=Variant)
    assert (finding.observed, variant.observed) == ("24 of 24", "24 requests answered")
    assert all("seen" in msgspec.to_builtins(one) for one in (finding, variant))
