"""`stoker orchestrator`: saved requests, what one of them wrote, the prompts in use; and completion of their names."""

from __future__ import annotations

import json
import time
import types
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.console import options
from stoker.cli.main import run
from stoker_orchestrator.commands.run import policy_names
from stoker_orchestrator.loop.blocks import WorkerBlock
from stoker_orchestrator.memory.pads import Scratchpads
from stoker_orchestrator.memory.scratchpad import RunHead
from stoker_orchestrator.prompts import VALIDATOR_PROMPT, WORKER_PROMPT

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def orchestrated(config: Path) -> Path:
    """A configuration with two orchestrators, one with its own prompt, and two saved requests."""
    (config.parent / "worker.txt").write_text("End with {marker}. Be terse.\n")
    config.write_text(
        config.read_text()
        + '\n[orchestrator.pair]\nworker = "fast"\ncheck_names = false\nworker_prompt = "worker.txt"\n'
        + '\n[orchestrator.solo]\nworker = "slow"\ncheck_names = false\n'
    )
    pads = Scratchpads(config.parent / "state" / "orchestrator", time.time)
    old = pads.begin(RunHead("run_old", "pair", "fast", task="code-edit", at=time.time() - 7200))
    old.commit(1, WorkerBlock("x\n"))
    old.end(None)
    new = pads.begin(RunHead("run_new", "pair", "fast", task="code-write", at=time.time()))
    new.add_block(1, 1, WorkerBlock("print('\x1b[31m')\n", True, "python", is_fenced=True))
    return config


def test_saved_requests_are_listed_the_newest_first(orchestrated: Path, capsys: Captured) -> None:
    assert run(["orchestrator", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1][:6] == ["run_new", "pair", "fast", "code-write", "open", "0"]
    assert rows[2][:6] == ["run_old", "pair", "fast", "code-edit", "finished", "1"]
    assert run(["orchestrator", "list", "--json"]) == 0
    assert [one["outcome"] for one in json.loads(capsys.readouterr().out)] == ["open", "finished"]


def test_where_none_is_saved_the_way_to_one_is_shown(config: Path, capsys: Captured) -> None:
    assert run(["orchestrator", "list"]) == 0
    said = capsys.readouterr().err
    assert "docs/guides/orchestrator.md" in said
    assert "stoker run" not in said, "it would be refused without an orchestrator"
    config.write_text(f'{config.read_text()}\n[orchestrator.coder]\nworker = "fast"\n')
    assert run(["orchestrator", "list"]) == 0
    assert 'stoker run "PROMPT"' in capsys.readouterr().err


def test_a_scratchpad_is_shown_without_its_machine_comments_and_safe_for_a_terminal(
    orchestrated: Path, capsys: Captured
) -> None:
    assert run(["orchestrator", "show", "run_new"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# Request run_new\n")
    assert "<!-- stoker" not in shown
    assert "\x1b" not in shown
    assert "print('\\u001b[31m')" in shown


@pytest.mark.parametrize("request_id", ["nobody", "../../etc/passwd"])
def test_an_unknown_request_names_the_list(orchestrated: Path, capsys: Captured, request_id: str) -> None:
    assert run(["orchestrator", "show", request_id]) == 1
    assert "stoker orchestrator list" in capsys.readouterr().err


def test_the_prompts_in_use_are_shown_with_their_source(orchestrated: Path, capsys: Captured) -> None:
    assert run(["orchestrator", "prompts"]) == 0
    shown = capsys.readouterr().out
    assert f"# worker prompt of pair ({orchestrated.parent / 'worker.txt'})" in shown
    assert "Be terse." in shown
    assert "# worker prompt of solo (ships with Stoker)" in shown
    assert "validator" not in shown.replace(WORKER_PROMPT, ""), "none of them has one"
    assert run(["orchestrator", "prompts", "solo", "--json"]) == 0
    assert [one["text"] for one in json.loads(capsys.readouterr().out)] == [WORKER_PROMPT]


def test_the_prompts_that_ship_need_no_configuration(home: Path, capsys: Captured) -> None:
    assert run(["orchestrator", "prompts", "--ship", "--json"]) == 0
    assert [one["text"] for one in json.loads(capsys.readouterr().out)] == [WORKER_PROMPT, VALIDATOR_PROMPT]


def test_an_unknown_orchestrator_is_named_with_the_nearest_one(orchestrated: Path, capsys: Captured) -> None:
    assert run(["orchestrator", "prompts", "pare"]) == 2
    assert "there is no orchestrator 'pare'; did you mean 'pair'?" in capsys.readouterr().err


def test_config_check_counts_orchestrators(orchestrated: Path, capsys: Captured) -> None:
    assert run(["config", "check"]) == 0
    assert "2 orchestrators" in capsys.readouterr().out


def test_names_are_completed(orchestrated: Path) -> None:
    context: Any = types.SimpleNamespace(params={})
    assert options.orchestrator_names(context, "") == ["pair", "solo"]
    assert options.orchestrator_names(context, "s") == ["solo"]
    assert sorted(options.orchestrated_requests(context, "run_")) == ["run_new", "run_old"]
    assert options.orchestrated_requests(context, "run_n") == ["run_new"]
    assert policy_names("b") == ["block_by_block", "by-class"]


def test_paths_are_completed_and_files_are_those_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here" / "app").mkdir(parents=True)
    (tmp_path / "here" / "app" / "one.py").touch()
    (tmp_path / "here" / ".git").mkdir()
    (tmp_path / "notes.txt").touch()
    context: Any = types.SimpleNamespace(params={})
    assert options.directories("") == ["here/"]
    assert options.directories("here/") == ["here/app/"]
    assert options.directories("here/.g") == ["here/.git/"]
    assert options.project_files(context, "") == ["here/", "notes.txt"]
    context.params["project"] = "here"
    assert options.project_files(context, "a") == ["app/"]
    assert options.project_files(context, "app/") == ["app/one.py"]
    assert options.project_files(context, f"{tmp_path}/no") == [f"{tmp_path}/notes.txt"]
    assert options.project_files(context, "nowhere/") == []


def test_without_a_configuration_the_demos_orchestrator_is_completed(home: Path) -> None:
    context: Any = types.SimpleNamespace(params={})
    assert options.orchestrator_names(context, "") == ["pair"]
    assert options.orchestrated_requests(context, "") == []


def test_completion_says_nothing_where_nothing_is(config: Path) -> None:
    context: Any = types.SimpleNamespace(params={})
    assert options.orchestrator_names(context, "") == []
    assert options.orchestrated_requests(context, "") == []
