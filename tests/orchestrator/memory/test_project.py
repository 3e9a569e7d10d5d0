"""Files of a project: only validated blocks get there, only into it, and never over a change that nobody read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stoker.domain.errors import ClientError, StokerError
from stoker_orchestrator.loop.blocks import WorkerBlock
from stoker_orchestrator.memory.project import ProjectFiles


def block(text: str, path: str = "") -> WorkerBlock:
    return WorkerBlock(text, True, "python", path, "python", True, True)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_new_file_grows_with_each_block(tmp_path: Path) -> None:
    project = ProjectFiles(tmp_path, "r1", {})
    project.commit(1, block("x = 1\n", "app/a.py"))
    assert (tmp_path / "app/a.py").read_text() == "x = 1\n"
    project.commit(2, block("y = 2\n", "app/a.py"))
    assert (tmp_path / "app/a.py").read_text() == "x = 1\n\ny = 2\n"
    assert "y = 2" in (tmp_path / ".stoker/state.md").read_text()


OUTSIDE = [
    "../a.py",
    "~/a.py",
    "~someone/a.py",
    "a/../../b.py",
    "/etc/a",
    "C:/a.py",
    "a\\b.py",
    ".git/config",
    ".stoker/state.md",
    "dir",
    "x" * 300,
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_project_is_refused_with_the_rule(tmp_path: Path, path: str) -> None:
    (tmp_path / "dir").mkdir()
    with pytest.raises(ClientError, match="may not be written: ") as failure:
        ProjectFiles(tmp_path, "r1", {}).commit(1, block("x = 1\n", path))
    assert failure.value.code == "path_outside_project"
    assert sorted(one.name for one in tmp_path.iterdir()) == [".stoker", "dir"]
    assert list((tmp_path / "dir").iterdir()) == []


def test_a_link_in_the_path_is_refused(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    with pytest.raises(ClientError, match="is a link"):
        ProjectFiles(inside, "r1", {}).commit(1, block("x = 1\n", "link/a.py"))
    assert list(outside.iterdir()) == []


def test_a_file_that_was_not_read_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("mine\n")
    with pytest.raises(StokerError, match=r"stoker run --file a\.py") as failure:
        ProjectFiles(tmp_path, "r1", {}).commit(1, block("x = 1\n", "a.py"))
    assert failure.value.code == "project_conflict"
    assert (tmp_path / "a.py").read_text() == "mine\n"


def test_a_file_that_was_read_is_replaced_when_the_request_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("old\n")
    path.chmod(0o755)
    project = ProjectFiles(tmp_path, "r1", {"a.py": digest("old\n")})
    project.commit(1, block("x = 1\n", "a.py"))
    project.commit(2, block("y = 2\n", "a.py"))
    assert path.read_text() == "old\n", "a request that fails leaves it as it was"
    project.finish()
    assert path.read_text() == "x = 1\n\ny = 2\n"
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_file_that_changed_since_it_was_read_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("old\n")
    project = ProjectFiles(tmp_path, "r1", {"a.py": digest("old\n")})
    project.commit(1, block("x = 1\n", "a.py"))
    path.write_text("somebody was here\n")
    with pytest.raises(StokerError, match="changed since it was read"):
        project.finish()
    assert path.read_text() == "somebody was here\n"


def test_what_stoker_wrote_last_it_may_replace(tmp_path: Path) -> None:
    ProjectFiles(tmp_path, "r1", {}).commit(1, block("x = 1\n", "a.py"))
    again = ProjectFiles(tmp_path, "r2", {})
    again.commit(1, block("x = 2\n", "a.py"))
    again.finish()
    assert (tmp_path / "a.py").read_text() == "x = 2\n"


def test_a_project_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(StokerError) as failure:
        ProjectFiles(tmp_path / "gone", "r1", {}).commit(1, block("x = 1\n"))
    assert failure.value.code == "project_unusable"
