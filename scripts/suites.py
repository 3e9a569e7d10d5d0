"""The fixtures of the suites, drawn with a seed.   scripts/suites.py [--write]

Without --write it says whether the files in the package are in step, and exits 1 if they are not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT)]

from fixtures import calling, coding, reading, reckoning, tiny, writing  # noqa: E402
from fixtures.dice import COUNT, Dice, Made  # noqa: E402

DATA = ROOT / "src" / "stoker_lab" / "suites" / "data"
MODULES = (calling, coding, reading, reckoning, writing)
MAKERS = {"assistant": {name: make for one in MODULES for name, make in one.MAKERS.items()}, "tiny": tiny.MAKERS}

Maker = Callable[[Dice], Made]


def different(make: Maker, dice: Dice) -> list[tuple[Any, Any]]:
    """One after the other. A question that was drawn before is drawn anew, from the next rounds of its maker."""
    found: dict[str, tuple[Any, Any]] = {}
    while len(found) < COUNT:
        for request, check in make(dice):
            found.setdefault(json.dumps(request), (request, check))
    return list(found.values())[:COUNT]


def made() -> Iterator[tuple[Path, bytes]]:
    for wording, makers in MAKERS.items():
        directory, prefix = (DATA, "") if wording == "assistant" else (DATA / wording, f"{wording}-")
        for name, make in makers.items():
            lines = []
            for number, (request, check) in enumerate(different(make, Dice(f"{wording} {name}")), 1):
                one = {"id": f"{prefix}{name}-{number:03}", "task_class": name, "request": request, "check": check}
                lines.append(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n")
            yield directory / f"{name}.jsonl", "".join(lines).encode()


def main() -> int:
    files = dict(made())
    if "--write" in sys.argv:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    wrong = [path for path, text in files.items() if not path.exists() or path.read_bytes() != text]
    wrong += sorted({*DATA.glob("*.jsonl"), *DATA.glob("tiny/*.jsonl")} - files.keys())
    for path in wrong:
        print(f"{path.relative_to(ROOT)} is not what scripts/suites.py makes: run it with --write")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
