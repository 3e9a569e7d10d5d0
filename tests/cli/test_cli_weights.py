"""What no engine can load is named before it is asked for, and a serve without a log is told why it has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status
from tests.fleet.memory.model_files import gguf

from stoker.cli.main import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def cut(config: Path) -> Path:
    """The file of the serve `fast`, without its end."""
    path = config.parent / "fast.gguf"
    path.write_bytes(path.read_bytes()[:-1])
    return path


def test_the_check_of_the_configuration_names_weights_that_no_engine_can_load(cut: Path, capsys: Captured) -> None:
    assert run(["config", "check"]) == 0
    captured = capsys.readouterr()
    assert f"serve 'fast': {cut} is cut off" in captured.err + captured.out
    assert "no problems" not in captured.out


def test_a_part_that_is_missing_is_named_too(config: Path, capsys: Captured) -> None:
    first = config.parent / "big-00001-of-00002.gguf"
    gguf(first, {"split.count": 2, "split.no": 0}, [("x", (32,), 0, 0)], 128)
    with config.open("a") as file:
        file.write(f'[[serve]]\nname = "big"\nmodel = "{first.name}"\nslot = "gpu0"\n')
    assert run(["config", "check"]) == 0
    captured = capsys.readouterr()
    assert "serve 'big': " in captured.err + captured.out
    assert "big-00002-of-00002.gguf, part 2 of 2, does not exist" in captured.err + captured.out


def test_the_doctor_says_it_once(cut: Path, capsys: Captured) -> None:
    run(["doctor"])
    assert capsys.readouterr().out.count(f"{cut} is cut off") == 1


def test_a_serve_that_cannot_load_has_no_log_and_the_reason_is_said(
    config: Path, stoker: FakeStoker, capsys: Captured
) -> None:
    stoker.status(serve_status("fast", "cannot load", cannot_load="its weights are cut off"), serve_status("slow"))
    assert run(["serves", "logs", "fast"]) == 1
    assert "no log: it cannot load: its weights are cut off" in capsys.readouterr().err
    assert run(["serves", "logs", "slow"]) == 1
    assert "has not written a log yet" in capsys.readouterr().err


def test_a_dry_run_that_loads_nothing_says_why(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.answer("POST /admin/preview", {"serves": []})
    assert run(["serves", "up", "--dry-run"]) == 0
    assert "nothing else fits beside what is loaded; `stoker slot switch SERVE` swaps" in capsys.readouterr().out
