"""Are the documents in step with the code? Links resolve, named tests and commands exist, the changelog is there.

Prints each problem as FILE: what, and exits 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
LEAVES = re.compile(r"/root/|/tmp/v/|127\.0\.0\.1:\d+/simple|pypi\.org|files\.pythonhosted")


def main() -> int:
    problems = [problem for page in pages() for problem in check(page)]
    print("\n".join(problems) or "docs in step")
    return 1 if problems else 0


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("training/*.md")])


def check(page: Path) -> list[str]:
    text = page.read_text()
    name = page.relative_to(ROOT)
    problems = []
    for link in LINK.findall(text):
        if "://" not in link and not link.startswith("mailto:") and not (page.parent / link).exists():
            problems.append(f"{name}: link to {link}, which is not there")
    for path, test in TEST.findall(text):
        file = ROOT / path
        if not file.exists():
            problems.append(f"{name}: names {path}, which is not there")
        elif test and f"def {test}" not in file.read_text() and f"class {test}" not in file.read_text():
            problems.append(f"{name}: names {path}::{test}, which is not in it")
    problems += [f"{name}: names {found}" for found in LEAVES.findall(text)]
    return problems


if __name__ == "__main__":
    sys.exit(main())
