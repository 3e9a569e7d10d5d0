"""A directory with a `stoker.toml`, and what loading it gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.config import warnings
from stoker.config.load import load
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's real files: a home of its own, and no variable that points elsewhere."""
    for name in ("STOKER_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True)
def _every_extension_is_usable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the core's own tests, which run without extensions, warn of the same."""
    if not request.module.__name__.endswith("test_missing_extensions"):
        monkeypatch.setattr(warnings, "is_usable", lambda name: True)


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[str], Settings]:
    """`loaded(text)`: the settings of a file with this text."""

    def run(text: str) -> Settings:
        path = tmp_path / "stoker.toml"
        path.write_text(text, encoding="utf-8")
        return load(path)

    return run


@pytest.fixture
def problems(loaded: Callable[[str], Settings], tmp_path: Path) -> Callable[[str], list[str]]:
    """`problems(text)`: what is wrong with it, as `LINE: key ...`; empty when nothing is."""

    def run(text: str) -> list[str]:
        try:
            loaded(text)
        except ConfigError as error:
            found = error.problems
        else:
            return []
        file = f"{tmp_path}/stoker.toml:"
        assert [problem for problem in found if not problem.startswith(file)] == []
        return [problem.removeprefix(file) for problem in found]

    return run
