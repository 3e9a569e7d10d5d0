"""Runs stories beside the real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.conversations.desk import Desk

Story = Callable[[Desk], Awaitable[None]]


@pytest.fixture
def tell(tmp_path: Path) -> Callable[..., None]:
    """Runs a story beside the real engine; no process, task or child is left afterwards."""
    if find_spec("xllamacpp") is None:
        pytest.skip("the embedded engine is not installed")

    def run(story: Story, **settings: Any) -> None:
        async def whole() -> None:
            desk = Desk(tmp_path, **settings)
            try:
                await story(desk)
            finally:
                await desk.close()
            assert len(asyncio.all_tasks()) == 1, "tasks are left behind"

        asyncio.run(whole())

    return run
