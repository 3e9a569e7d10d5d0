"""The workflows: valid, with as few rights as they need, and with actions that cannot change under them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scripts.releasing import version

yaml: Any = pytest.importorskip("yaml")
FOLDER = version.ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
NOT_PINNED = {"pypa/gh-action-pypi-publish@release/v1"}
"""Their SHA could not be verified; a comment above says to pin them."""


def test_the_workflows_are_there() -> None:
    assert [path.name for path in FILES] == ["ci.yml", "docs.yml", "release.yml"]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_to_a_commit_with_the_version_beside_it(file: Path) -> None:
    text = file.read_text()
    for line in re.findall(r"uses: (.*)$", text, re.MULTILINE):
        if line in NOT_PINNED:
            assert re.search(rf"# Pin it .*\n +- uses: {re.escape(line)}", text)
        else:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_only_the_job_that_publishes_may_publish_and_it_needs_an_approval() -> None:
    release = yaml.safe_load((FOLDER / "release.yml").read_text())
    assert release["permissions"] == {}
    jobs = release["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert (jobs["publish"]["environment"], jobs["publish"]["permissions"]) == ("pypi", {"id-token": "write"})
    assert jobs["publish"]["needs"] == ["build", "attest"]
    assert not any("password" in step.get("with", {}) for step in jobs["publish"]["steps"])


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="no actionlint on PATH")
def test_actionlint_finds_nothing() -> None:
    found = subprocess.run(["actionlint", *map(str, FILES)], capture_output=True, text=True, cwd=version.ROOT)
    assert found.stdout == ""
