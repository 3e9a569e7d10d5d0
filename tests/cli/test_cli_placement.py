"""`config check` says what a start would refuse because of the vault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.cli.main import run

CONFIG = """
[paths]
vault = "vault"
state = "state"
placement = {placement}
[[serve]]
name = "a"
engine = "vllm"
model = "{model}"
env = {{ HF_HOME = "{cache}" }}
slots = ["g0", "g1"]
[slots.g0]
devices = ["0"]
[slots.g1]
devices = ["1"]
"""


def checked(folder: Path, capsys: pytest.CaptureFixture[str], *words: str, **fields: str) -> tuple[int, str, str]:
    (folder / "vault" / "m").mkdir(parents=True, exist_ok=True)
    (folder / "m").mkdir(exist_ok=True)
    given = {"placement": "true", "model": "vault:m", "cache": str(folder / "vault" / "hf"), **fields}
    (folder / "stoker.toml").write_text(CONFIG.format(**given))
    code = run(["config", "check", "--config", str(folder / "stoker.toml"), *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_weights_and_caches_outside_the_vault_are_named_once_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = checked(tmp_path, capsys)
    assert (code, "no problems" in out) == (0, True), err
    code, out, err = checked(tmp_path, capsys, model=str(tmp_path / "m"), cache="/nowhere/hf")
    assert code == 0, "other serves of this file may start"
    assert err.count(f"`model` is {tmp_path}/m, outside the vault") == 1
    assert err.count("`env.HF_HOME` is /nowhere/hf, outside the vault") == 1
    assert "2 serves" not in out
    assert "1 warning" not in out
    assert "2 warnings" in out
    assert "no problems" not in out
    assert len(json.loads(checked(tmp_path, capsys, "--json", cache="/nowhere/hf")[1])["warnings"]) == 1


def test_without_that_rule_they_may_lie_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = checked(tmp_path, capsys, placement="false", cache="/nowhere/hf")
    assert (code, "no problems" in out) == (0, True)
