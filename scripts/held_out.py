"""Writes the held-out half of tests/data/tasks/labelled.jsonl to where it ships with the package.

`stoker eval classifier` measures with it. Run it when prompts were added; a test holds the two in step.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stoker_auto.classifier.labelled_prompts import read_prompts

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests" / "data" / "tasks" / "labelled.jsonl"
OUT = ROOT / "src" / "stoker_auto" / "classifier" / "held-out.jsonl"


def body() -> bytes:
    """The lines as they stand."""
    lines = [line for line in SOURCE.read_bytes().splitlines() if line.strip()]
    return b"".join(line + b"\n" for line in lines if read_prompts(line)[0].is_held_out)


def main() -> int:
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(body())
    print(f"{OUT.relative_to(ROOT)}: {len(read_prompts(body()))} prompts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
