"""Twelve right blocks, and faults of six kinds. Pure."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

WORD = "planted_fault"
"""Is in each faulty block, so that the faults that reached a client can be counted."""


class PlannedBlock(NamedTuple):
    fence: str
    text: str


class Fault(NamedTuple):
    kind: str
    text: str


def _function(number: int) -> PlannedBlock:
    lines = [
        f"def total_{number}(items: list[int]) -> int:",
        "    total = 0",
        "    for item in items:",
        f"        if item > {number}:",
        f"            total += item * {number + 2}",
        "    return total",
    ]
    return PlannedBlock("python", "\n".join(lines) + "\n")


BLOCKS = [
    *(_function(number) for number in range(10)),
    PlannedBlock("json", '{\n  "name": "totals",\n  "limits": [1, 2, 3]\n}\n'),
    PlannedBlock("diff", "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n import os\n-x = 1\n+x = 2\n"),
]
PYTHON_FAULTS = ("syntax", "string", "indentation", "truncated", "import")
KINDS = (*PYTHON_FAULTS, "document")
"""All but `import` are faults of structure; `import` takes the names layer."""


def faulty(block: PlannedBlock, kind: str) -> str:
    """The block with one fault."""
    if block.fence == "json":
        return f'{{\n  "name": "{WORD}",\n  "limits": [1, 2, 3\n}}\n'
    if block.fence == "diff":
        return f"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,9 @@\n import os\n-x = 1\n+x = '{WORD}'\n"
    head, *body = block.text.splitlines()
    marked = [head, f"    {WORD} = 1", *body]
    match kind:
        case "syntax":
            marked[1] = f"    {WORD} = = 1"
        case "string":
            marked[1] = f'    {WORD} = "1'
        case "indentation":
            marked[2] = "  " + marked[2].strip()
        case "truncated":
            marked = [*marked[:-1], "    return (total +"]
        case "import":
            marked.insert(1, f"    import {WORD}_of_no_package")
    return "\n".join(marked) + "\n"


def plant(rng: Random, share: float) -> dict[int, Fault]:
    """Faults for this share of the blocks, by the block's number."""
    found = {}
    for number, block in enumerate(BLOCKS):
        if rng.random() < share:
            kind = rng.choice(PYTHON_FAULTS) if block.fence == "python" else "document"
            found[number] = Fault(kind, faulty(block, kind))
    return found
