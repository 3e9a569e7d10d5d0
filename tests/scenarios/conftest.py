"""What every file of scenarios shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.scenarios.plane import Plane


@pytest.fixture
def plane(shared: Plane) -> Iterator[Plane]:
    """The file's own `shared` plane; when the story is told, nothing of it may be left."""
    yield shared
    if shared.keeps_engines:
        shared.rest()
    else:
        shared.settle()
