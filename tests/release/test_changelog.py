"""CHANGELOG.md and the version: one format, one place, one step."""

from __future__ import annotations

import datetime
import shutil
import tomllib
from pathlib import Path

import pytest
from scripts.releasing import changelog, version
from scripts.releasing.changelog import ReleaseRefused

from stoker import __version__
from stoker.config.renamed_keys import RENAMED
from stoker.gateway.admin import DEPRECATED

ROOT = version.ROOT
DAY = datetime.date(2026, 12, 1)
TEXT = "# Changelog\n\n## Unreleased\n\n### Added\n- One.\n\n## 0.1.0 - 2026-11-01\n\n### Fixed\n- Two.\n"


def test_the_changelog_of_this_checkout_has_the_format() -> None:
    assert changelog.problems((ROOT / "CHANGELOG.md").read_text()) == []


def test_a_new_version_gets_what_is_unreleased() -> None:
    text = changelog.released(TEXT, "0.2.0", DAY)
    assert "## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n### Added\n- One.\n" in text
    assert changelog.problems(text) == []
    assert changelog.notes(text, "0.2.0") == "### Added\n- One.\n"
    with pytest.raises(ReleaseRefused, match="nothing under Unreleased"):
        changelog.released(text, "0.3.0", DAY)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [("0.1.0", "does not follow 0.1.0"), ("0.0.9", "does not follow"), ("1.0", "no version"), ("01.0.0", "no version")],
)
def test_a_version_has_to_follow_the_newest(wanted: str, words: str) -> None:
    with pytest.raises(ReleaseRefused, match=words):
        changelog.released(TEXT, wanted, DAY)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("## 0.1.0 - 2026-11-01", "## 0.1.0", "heading '## 0.1.0'"),
        ("### Fixed", "### Repaired", "'### Repaired' is none of"),
        ("### Added\n", "loose\n\n### Added\n", "text before the first"),
        ("- One.\n", "- One.\n\n### Added\n- More.\n", "stands there twice"),
        ("## Unreleased\n", "", "the first section is not"),
        ("## 0.1.0", "## 0.1.0 - 2026-10-01\n\n## 0.1.0", "do not fall"),
    ],
)
def test_what_is_wrong_with_a_changelog_is_said(old: str, new: str, problem: str) -> None:
    assert problem in " ".join(changelog.problems(TEXT.replace(old, new)))


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": version.PLACE}
    assert version.current() == __version__
    for file, found in version.copies().items():
        assert found == [__version__] * len(version.COPIES[file]), f"{file}: scripts/release bump writes it"


def test_bump_sets_the_version_everywhere_and_refuses_before_it_writes(tmp_path: Path) -> None:
    for file in (version.PLACE, *version.COPIES, "scripts/reference.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "scripts/reference.py").write_text("")
    (tmp_path / version.CHANGELOG).write_text(TEXT)
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ReleaseRefused):
        version.bump("0.0.1", DAY, tmp_path)
    assert {path: path.read_text() for path in before} == before
    version.bump("0.2.0", DAY, tmp_path)
    assert version.current(tmp_path) == "0.2.0"
    assert all(set(found) == {"0.2.0"} for found in version.copies(tmp_path).values())
    assert "## 0.2.0 - 2026-12-01" in (tmp_path / version.CHANGELOG).read_text()


def test_deprecated_names_are_listed_and_none_outlives_its_version() -> None:
    page = (ROOT / "docs/reference/deprecations.md").read_text()
    entries = [(path[-1], new) for path, new in RENAMED.items()]
    entries += [(f"/admin/{old}", new) for old, new in DEPRECATED.items()]
    assert entries
    for old, new in entries:
        row = next((line for line in page.splitlines() if f"{old}`" in line and f"{new.name}`" in line), "")
        assert new.gone_in in row, f"{old} is not in docs/reference/deprecations.md"
        assert changelog.key(new.gone_in) > changelog.key(__version__), f"remove {old}: it was to go in {new.gone_in}"
