"""The version: `__version__` in src/stoker/__init__.py. What has to repeat it is written from there."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

from scripts.releasing import changelog
from scripts.releasing.changelog import ReleaseRefused

ROOT = Path(__file__).resolve().parents[2]
PLACE = "src/stoker/__init__.py"
CHANGELOG = "CHANGELOG.md"
COPIES = {"deploy/helm/stoker/Chart.yaml": (r'^appVersion: "(.*)"$', r"^version: (.*)$")}
"""Files that other programs read, by the lines that repeat the version. The manual page is generated."""
_LINE = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)


def current(root: Path = ROOT) -> str:
    """The version of this checkout."""
    found = _LINE.search((root / PLACE).read_text())
    if found is None:
        raise ReleaseRefused(f"{PLACE} has no line __version__")
    return found[1]


def copies(root: Path = ROOT) -> dict[str, list[str]]:
    """What each copy says, by its file."""
    return {
        file: [found[1] for line in lines if (found := re.search(line, (root / file).read_text(), re.MULTILINE))]
        for file, lines in COPIES.items()
    }


def bump(version: str, day: datetime.date, root: Path = ROOT) -> list[str]:
    """Give the checkout the version, and CHANGELOG.md its section. Returns the files that changed.

    Raises ReleaseRefused before it changes anything.
    """
    if changelog.key(version) < changelog.key(current(root)):
        raise ReleaseRefused(f"{version} is older than {current(root)}, the version of this checkout")
    texts = {CHANGELOG: changelog.released((root / CHANGELOG).read_text(), version, day)}
    texts[PLACE] = _LINE.sub(f'__version__ = "{version}"', (root / PLACE).read_text())
    for file, lines in COPIES.items():
        texts[file] = (root / file).read_text()
        for line in lines:
            texts[file] = re.sub(
                line, lambda found: found[0].replace(found[1], version), texts[file], flags=re.MULTILINE
            )
    for file, text in texts.items():
        (root / file).write_text(text)
    subprocess.run([sys.executable, "scripts/reference.py", "--write"], cwd=root, check=True)
    return [*texts, "share/man/man1/stoker.1"]
