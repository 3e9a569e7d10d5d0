"""The table of docs/reference/translation.md, made from the code.   scripts/corners.py [--write]

Without --write it says whether the page is in step, and exits 1 if it is not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stoker.request.translate.neutral.corners import KEPT, LOST, Corner

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "translation.md"
BEGIN, END = "<!-- corners: made by scripts/corners.py --write -->\n", "<!-- end -->\n"


def table() -> str:
    lost = [f"| `{code}` | {_row(corner)} |" for code, corner in LOST.items()]
    kept = [f"| {code.replace('_', ' ')} | {_row(corner)} |" for code, corner in KEPT.items()]
    head = "| {} | where | what is done | why |\n|---|---|---|---|\n"
    between = "These change the form alone; nothing is lost, and they are told to nobody:"
    parts = (
        "",
        head.format("code") + "\n".join(lost),
        "",
        between,
        "",
        head.format("corner") + "\n".join(kept),
        "",
        "",
    )
    return "\n".join(parts)


def _row(corner: Corner) -> str:
    return " | ".join(text.replace("|", "\\|") for text in (corner.at, corner.what, corner.why))


def page(text: str) -> str:
    """The page with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def main() -> int:
    text = PAGE.read_text()
    wanted = page(text)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if text != wanted:
        print("docs/reference/translation.md is not in step: run scripts/corners.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
