"""stub"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


async def missing_method(source: str, first: int, python: str, roots: Sequence[str], directory: Path) -> Any:
    return None
