"""`[telemetry]`: off without the table, its secrets, and what is said where its extra is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.config.changes import changed_settings, restart_problems
from stoker.config.effective import show, to_toml
from stoker.config.load import load_text
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError
from stoker_otel.settings import Telemetry, telemetry_of

FULL = """[telemetry]
endpoint = "http://127.0.0.1:4318/"
headers = { authorization = "env:COLLECTOR_TOKEN" }
service_name = "box"
sampling = 0.25
"""
SECRET = "t0k3n-of-the-collector"


def loaded(text: str) -> Settings:
    return load_text(text, Path("/nowhere/stoker.toml"))


def problems(text: str) -> list[str]:
    """What is wrong with it, as `LINE: key ...`."""
    try:
        loaded(text)
    except ConfigError as error:
        return [problem.removeprefix("/nowhere/stoker.toml:") for problem in error.problems]
    return []


def test_nothing_is_sent_without_the_table_and_an_empty_one_is_enough() -> None:
    assert telemetry_of(loaded("")) is None
    assert telemetry_of(loaded("[telemetry]\n")) == Telemetry()


def test_its_keys_are_shown_with_the_source_of_each_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLECTOR_TOKEN", SECRET)
    settings = loaded(FULL)
    telemetry = telemetry_of(settings)
    assert telemetry is not None
    assert telemetry.endpoint == "http://127.0.0.1:4318"
    assert telemetry.headers["authorization"].reveal() == SECRET
    assert SECRET not in str(show(settings)) + repr(settings)
    assert show(loaded(to_toml(settings)))["telemetry"] == show(settings)["telemetry"]
    monkeypatch.setenv("COLLECTOR_TOKEN", "another")
    changed = changed_settings(settings, loaded(FULL))
    assert changed == ["telemetry.headers.authorization"]
    assert "stoker up --replace" in restart_problems(changed)[0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('endpoint = "127.0.0.1:4318"', "key 'telemetry.endpoint'"),
        ('endpoint = "http://user:hunter2@host:4318"', "key 'telemetry.endpoint'"),
        ('endpoint = "http://host:4318/v1/traces"', "which Stoker adds"),
        ('headers = { authorization = "Bearer 123" }', "a secret must not be in this file"),
        ('headers = { "a b" = "env:HOME" }', "is no name of a header"),
        ('headers = { a = "env:NOT_SET" }', "NOT_SET is not set"),
        ("sampling = 1.5", "key 'telemetry.sampling'"),
        ("content = true", "key 'telemetry.content'"),
    ],
)
def test_what_cannot_be_sent_is_named(line: str, problem: str) -> None:
    [found] = problems(f"[telemetry]\n{line}\n")
    assert found.startswith("2: ")
    assert problem in found
    assert "hunter2" not in found


def test_a_missing_extra_is_named_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_otel.table.find_spec", lambda name: None)
    assert problems("") == []
    [found] = problems("[telemetry]\n")
    assert "pip install 'stoker[otel]'" in found
