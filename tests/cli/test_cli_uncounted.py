"""`config check` and `doctor` name serves that report no usage, if limits depend on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.cli.main import run
from stoker.domain.decision import Decision
from stoker.store.decisions import DecisionLog

Captured = pytest.CaptureFixture[str]
KEYS = """
keys = [
  { name = "plain", value = "env:PLAIN" },
  { name = "few", value = "env:FEW", requests_per_minute = 3 },
  { name = "elsewhere", value = "env:ELSE", tokens_per_day = 10, models = ["slow"] },
  { name = "daily", value = "env:DAILY", tokens_per_day = 1000 },
]
"""


@pytest.fixture
def limited(config: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PLAIN", "FEW", "ELSE", "DAILY"):
        monkeypatch.setenv(name, f"secret-of-{name.lower()}-0123456789")
    config.write_text(config.read_text().replace("[paths]", f"{KEYS}\n[paths]"))
    return config


def record(config: Path, *estimated: bool, outcome: str = "served") -> None:
    state = config.parent / "state"
    state.mkdir(exist_ok=True)
    log = DecisionLog(state / "decisions.db", 1000)
    for number, one in enumerate(estimated):
        decision = Decision(f"r{number}", float(number), "/v1/chat/completions", serve="fast", outcome=outcome)
        decision.input_tokens, decision.output_tokens, decision.tokens_estimated = 10, 5, one
        log.record(decision)
    log.close()


def warned(capsys: Captured) -> list[str]:
    assert run(["config", "check", "--json"]) == 0
    return [text for text in json.loads(capsys.readouterr().out)["warnings"] if "usage" in text]


def test_a_serve_whose_answers_had_no_usage_is_named_with_the_keys(limited: Path, capsys: Captured) -> None:
    record(limited, True, True, False)
    (warning,) = warned(capsys)
    assert "'fast' reported no usage in 2 of its last 3 answers" in warning
    assert "key 'daily'" in warning
    assert "few" not in warning
    assert "elsewhere" not in warning
    run(["doctor", "--json"])
    (about,) = [one for one in json.loads(capsys.readouterr().out) if one["part"] == "configuration"]
    assert about["health"] == "warn"
    assert warning in about["detail"]


@pytest.mark.parametrize(
    ("estimated", "outcome"),
    [((), "served"), ((False, False), "served"), ((True, False, False, False, False, False), "served"),
     ((True, True), "client_left")],
)  # fmt: skip
def test_answers_that_were_counted_or_broke_off_say_nothing(
    estimated: tuple[bool, ...], outcome: str, limited: Path, capsys: Captured
) -> None:
    record(limited, *estimated, outcome=outcome)
    assert warned(capsys) == []


def test_without_limits_nothing_depends_on_it(config: Path, capsys: Captured) -> None:
    record(config, True, True)
    assert warned(capsys) == []


def test_a_serve_that_is_not_asked_for_usage_is_named_before_it_answers(limited: Path, capsys: Captured) -> None:
    request = 'aliases = ["gpt-x"]\nrequest = { drop = ["stream_options"] }'
    limited.write_text(limited.read_text().replace('aliases = ["gpt-x"]', request))
    (warning,) = warned(capsys)
    assert "request.drop" in warning


def test_the_limits_of_an_application_count_for_its_keys(
    config: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN", "secret-of-plain-0123456789")
    keys = 'keys = [{ name = "plain", value = "env:PLAIN", app = "agents" }]\n[app.agents]\ntokens_per_day = 9\n'
    config.write_text(config.read_text().replace("[paths]", f"{keys}\n[paths]"))
    record(config, True)
    (warning,) = warned(capsys)
    assert "key 'plain'" in warning
