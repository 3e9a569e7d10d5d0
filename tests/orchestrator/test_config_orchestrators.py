"""`[orchestrator.NAME]`: what is configured wrong is found before the first request, with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.config.load import load
from stoker.domain.errors import ConfigError
from stoker_orchestrator.orchestrator import Policy, orchestrators_of

SERVES = """
[slots.gpu0]
[slots.gpu1]
memory = "8GiB"
[[serve]]
name = "writer"
engine = "openai"
slot = "gpu0"
cmd = ["x", "{port}"]
aliases = ["w"]
[[serve]]
name = "judge"
engine = "openai"
slot = "gpu0"
cmd = ["x", "{port}"]
[[serve]]
name = "beside"
engine = "openai"
cmd = ["x", "{port}"]
"""


def problems(directory: Path, text: str) -> str:
    path = directory / "stoker.toml"
    path.write_text(SERVES + text)
    with pytest.raises(ConfigError) as failure:
        load(path)
    return "\n".join(failure.value.problems)


def test_a_whole_orchestrator(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("End each block with {marker}")
    (tmp_path / "project").mkdir()
    path = tmp_path / "stoker.toml"
    path.write_text(
        SERVES + '[orchestrator.pair]\nworker = "w"\nvalidator = "beside"\nchecks = ["ruff check -"]\n'
        'worker_prompt = "prompt.txt"\nproject = "project"\npolicy = "block_by_block"\n'
    )
    [pair] = orchestrators_of(load(path))
    assert (pair.worker, pair.validator, pair.checks) == ("w", "beside", ("ruff check -",))
    assert pair.policy is Policy.BLOCK_BY_BLOCK
    assert pair.worker_prompt == "End each block with {marker}"
    assert pair.project == str(tmp_path / "project")


@pytest.mark.parametrize("name", ["team/o:1", "a b", "ä"])
def test_any_text_may_be_the_name_of_an_orchestrator(tmp_path: Path, name: str) -> None:
    path = tmp_path / "stoker.toml"
    path.write_text(f'{SERVES}[orchestrator."{name}"]\nworker = "w"\n', encoding="utf-8")
    assert [one.name for one in orchestrators_of(load(path))] == [name]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[orchestrator.pair]\n", "`worker` is missing"),
        ('[orchestrator.pair]\nworker = "pair"\n', "is this orchestrator itself"),
        ('[orchestrator.a]\nworker = "b"\n[orchestrator.b]\nworker = "a"\n', "'b' is another orchestrator"),
        ('[orchestrator.pair]\nworker = "writr"\n', "did you mean 'writer'?"),
        ('[orchestrator.pair]\nworker = "auto"\n', "there is no [[tier]]"),
        ('[orchestrator.writer]\nworker = "judge"\n', "already means a serve"),
        ('[orchestrator.auto]\nworker = "judge"\n', "already means a serve"),
        ('[orchestrator.pair]\nworker = "writer"\nvalidator = "nobody"\n', "there is no serve or tier 'nobody'"),
        ('[orchestrator.pair]\nworker = "writer"\nvalidator = "judge"\n', "can never be loaded together"),
        ('[orchestrator.pair]\nworker = "writer"\npolicy = "sometimes"\n', "use block_by_block, simple or by-class"),
        ('[orchestrator.pair]\nworker = "writer"\nproject = "nowhere"\n', "there is no directory"),
        ('[orchestrator.pair]\nworker = "writer"\nworker_prompt = "nowhere"\n', "cannot be read"),
        ('[orchestrator.pair]\nworker = "writer"\nworker_prompt = "empty"\n', "does not contain {marker}"),
        ('[orchestrator.pair]\nworker = "writer"\nvalidator_prompt = "empty"\n', "{task} and {block}"),
        ('[router.class.code-write]\norchestrator = "pear"\n[orchestrator.pair]\nworker = "writer"\n', "'pear'"),
    ],
)
def test_what_is_wrong_is_found_with_its_line_and_what_to_do(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "empty").write_text("")
    assert found in problems(tmp_path, text)


def test_the_worker_may_be_a_variant_of_a_serve(tmp_path: Path) -> None:
    path = tmp_path / "stoker.toml"
    variant = SERVES.replace('name = "writer"', 'name = "writer"\nvariant = [{ name = "writer: high" }]', 1)
    path.write_text(variant + '[orchestrator.pair]\nworker = "writer: high"\nvalidator = "beside"\n')
    assert orchestrators_of(load(path))[0].worker == "writer: high"
    path.write_text(variant + '[orchestrator.pair]\nworker = "writer: high"\nvalidator = "judge"\n')
    with pytest.raises(ConfigError, match="the worker 'writer' are in slot"):
        load(path)


def test_a_project_that_cannot_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "project")
    text = '[orchestrator.pair]\nworker = "writer"\nproject = "project"\n'
    assert "cannot be written: check its owner and mode" in problems(tmp_path, text)


def test_a_key_may_be_given_an_orchestrator(tmp_path: Path) -> None:
    path = tmp_path / "stoker.toml"
    (tmp_path / "key").write_text("0123456789abcdef-key")
    path.write_text(
        SERVES + '[orchestrator.pair]\nworker = "writer"\n'
        '[front_door]\nkeys = [{ name = "a", value = "file:key", models = ["pair"] }]\n'
    )
    assert load(path).front_door.keys[0].models == ("pair",)
