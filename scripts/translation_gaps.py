"""The table of docs/reference/translation.md, made from the code.   scripts/translation_gaps.py [--write]

Without --write it says whether the page is in step, and exits 1 if it is not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stoker.request.translate.neutral.gaps import LOSSLESS, LOSSY, DialectGap

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "translation.md"
BEGIN, END = "<!-- generated: translation gaps, by scripts/translation_gaps.py -->\n", "<!-- end generated -->\n"


def table() -> str:
    lost = [f"| `{code}` | {_row(gap)} |" for code, gap in LOSSY.items()]
    kept = [f"| {code.replace('_', ' ')} | {_row(gap)} |" for code, gap in LOSSLESS.items()]
    head = "| {} | where | what is done | why |\n|---|---|---|---|\n"
    between = "These change only the form. Nothing is lost, and they are not reported:"
    parts = (
        "",
        head.format("code") + "\n".join(lost),
        "",
        between,
        "",
        head.format("difference") + "\n".join(kept),
        "",
        "",
    )
    return "\n".join(parts)


def _row(gap: DialectGap) -> str:
    return " | ".join(text.replace("|", "\\|") for text in (gap.at, gap.what, gap.why))


def page(text: str) -> str:
    """The page with the current table."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def main() -> int:
    text = PAGE.read_text()
    wanted = page(text)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if text != wanted:
        print("docs/reference/translation.md is not in step: run scripts/translation_gaps.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
