"""Whatever Stoker and its extensions log reaches LOGS/stoker.log: their loggers are below `stoker`."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
LOGGER = re.compile(r"getLogger\((?:\"([^\"]*)\"|(__name__))?\)")


def test_every_logger_is_below_stokers() -> None:
    others = {
        f"{path.relative_to(SOURCE)}: {name or '__name__'}"
        for path in SOURCE.rglob("*.py")
        for name, module in LOGGER.findall(path.read_text(encoding="utf-8"))
        if not (name.startswith("stoker.") or (module and path.is_relative_to(SOURCE / "stoker")))
    }
    assert others == set()
