"""The last lines of a log, across a rotation, and what is appended to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.cli.commands import log_tail
from stoker.cli.main import run


@pytest.fixture
def log(config: Path) -> Path:
    path = config.parent / "state" / "logs" / "fast.log"
    path.parent.mkdir()
    return path


def test_the_last_lines_are_those_that_were_asked_for(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    assert run(["serves", "logs", "fast", "--lines", "3"]) == 0
    assert capsys.readouterr().out == "line 97\nline 98\nline 99\n"
    assert run(["serves", "logs", "gpt-x", "-n", "1", "--json"]) == 0  # an alias means the serve
    document = json.loads(capsys.readouterr().out)
    assert document == {"serve": "fast", "path": str(log), "lines": ["line 99"]}


def test_lines_longer_than_a_block_and_bytes_that_are_no_text_are_read(log: Path) -> None:
    log.write_bytes(b"first\n" + b"x" * 200_000 + b"\n\xff\xfe\n")
    lines, end = log_tail.last_lines(log, 2)
    assert [len(line) for line in lines] == [200_000, 2]
    assert end == log.stat().st_size
    assert log_tail.last_lines(log, 0) == ([], end)


def test_a_log_that_was_just_rotated_goes_on_in_the_old_file(log: Path) -> None:
    log.with_name("fast.log.1").write_text("a\nb\n")
    log.write_text("c\n")
    assert log_tail.last_lines(log, 2)[0] == ["b", "c"]
    log.unlink()
    assert log_tail.last_lines(log, 1) == (["b"], 0)


def test_following_shows_what_comes_and_survives_a_rotation(log: Path) -> None:
    log.write_text("old\n")
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 1:
            with log.open("a") as file:
                file.write("new\n")
        elif pauses == 2:
            log.write_text("r\n")  # copied away and truncated
        else:
            raise KeyboardInterrupt

    followed = log_tail.follow(log, 4, pause)
    assert next(followed) == "new\n"
    assert next(followed) == "r\n"
    with pytest.raises(KeyboardInterrupt):
        next(followed)


def test_ctrl_c_ends_a_followed_log_without_an_error(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("old\n")

    def interrupted(path: Path, offset: int) -> object:
        assert offset == 4
        yield "more\n"
        raise KeyboardInterrupt

    monkeypatch.setattr(log_tail, "follow", interrupted)
    assert run(["serves", "logs", "fast", "-f"]) == 0
    assert capsys.readouterr().out == "old\nmore\n"


def test_a_serve_without_a_log_says_what_starts_one(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serves", "logs", "fast"]) == 1
    assert "stoker serves up fast" in capsys.readouterr().err


def test_an_external_serve_keeps_its_own_log(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with config.open("a") as file:
        file.write('[[serve]]\nname = "far"\nbase_url = "http://10.0.0.7:3000/v1"\n')
    assert run(["serves", "logs", "far"]) == 1
    assert "far is external" in capsys.readouterr().err


def test_a_unit_keeps_its_log_in_the_journal(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with config.open("a") as file:
        file.write('[[serve]]\nname = "boxed"\ndriver = "systemd"\nmodel = "fast.gguf"\nport = 9999\n')
    assert run(["serves", "logs", "boxed"]) == 1
    assert "journalctl -u stoker-serve-boxed.service -n 50" in capsys.readouterr().err


def test_with_a_state_directory_alone_the_logs_in_it_are_known(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("x\n")
    state = str(log.parent.parent)
    assert run(["serves", "logs", "fast", "--state", state]) == 0
    assert run(["serves", "logs", "fats", "--state", state]) == 2
    assert "did you mean 'fast'?" in capsys.readouterr().err
