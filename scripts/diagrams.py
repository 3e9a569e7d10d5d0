"""State diagrams of the docs, made from the tables in the code.   scripts/diagrams.py [--write]

Fills what stands between `<!-- generated: NAME -->` and `<!-- end generated -->` in the pages below. Without --write it
says which pages are not in step, and exits 1 if one is not.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from stoker.domain import serve_phase
from stoker_orchestrator.loop import states

Table = Mapping[Enum, Mapping[Enum, Enum]]
DOCS = Path(__file__).resolve().parent.parent / "docs" / "how-it-works"
DIAGRAMS: dict[str, Table] = {
    "serve-phases": serve_phase.TABLE,  # type: ignore[dict-item]
    "orchestrated-request": states.RUN_TABLE,  # type: ignore[dict-item]
    "orchestrated-block": states.BLOCK_TABLE,  # type: ignore[dict-item]
}
"""Name of the block, and the table that it draws. The first state of a table is where everything begins."""
PAGES = ("life-of-a-swap.md", "orchestrator.md")
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end generated -->)", re.DOTALL)


def diagram(table: Table) -> str:
    """A Mermaid state diagram: one arrow for all events that lead from one state to another one."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(table)).value}"]
    for state, row in table.items():
        events: dict[Enum, list[str]] = defaultdict(list)
        for event, after in row.items():
            events[after].append(str(event.value).replace("_", " "))
        lines += [f"    {state.value} --> {after.value}: {', '.join(names)}" for after, names in events.items()]
    return "\n".join([*lines, "```", ""])


def page(text: str) -> str:
    """The page with current diagrams; blocks of other names stay."""

    def filled(block: re.Match[str]) -> str:
        table = DIAGRAMS.get(block[2])
        return block[0] if table is None else f"{block[1]}{diagram(table)}{block[3]}"

    return BLOCK.sub(filled, text)


def main() -> int:
    stale = 0
    for name in PAGES:
        path = DOCS / name
        text = path.read_text(encoding="utf-8")
        wanted = page(text)
        if "--write" in sys.argv[1:]:
            path.write_text(wanted, encoding="utf-8")
        elif text != wanted:
            print(f"docs/how-it-works/{name} is not in step: run scripts/diagrams.py --write")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
