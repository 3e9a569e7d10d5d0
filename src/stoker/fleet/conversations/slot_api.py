"""llama.cpp's endpoints for its sequences. Stoker names the files; the engine keeps them in one directory."""

from __future__ import annotations

from typing import Any

from stoker.domain.lease import Target
from stoker.http import client
from stoker.http.client import NoResponse


class SlotRefused(Exception):
    """The engine refused, or its answer has no numbers. The sequence is unchanged."""


class SlotUnanswered(Exception):
    """No answer: the engine may or may not have done it, and may still do it."""


async def save(address: Target, sequence: int, name: str, within: float) -> tuple[int, int]:
    """Save a sequence to file `name`; returns (tokens, bytes). Raises SlotRefused, and SlotUnanswered
    after `within` seconds.
    """
    found = await _ask(address, sequence, "save", {"filename": name}, within)
    return _number(found, "n_saved"), _number(found, "n_written")


async def restore(address: Target, sequence: int, name: str, within: float) -> int:
    """Load a sequence from file `name`; returns its tokens. Raises SlotRefused and SlotUnanswered.

    A truncated file crashes the engine.
    """
    return _number(await _ask(address, sequence, "restore", {"filename": name}, within), "n_restored")


async def erase(address: Target, sequence: int, within: float) -> None:
    """Clear a sequence. Raises SlotRefused and SlotUnanswered."""
    _number(await _ask(address, sequence, "erase", {}, within), "n_erased")


async def _ask(address: Target, sequence: int, action: str, payload: dict[str, str], within: float) -> Any:
    try:
        answer = await client.ask(address, f"/slots/{sequence}?action={action}", payload, within)
    except NoResponse as error:
        raise SlotUnanswered(str(error)) from None
    if answer.status != 200:
        raise SlotRefused(f"it answered {answer.status} to `{action}`")
    return answer.json()


def _number(found: Any, name: str) -> int:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise SlotRefused(f"its answer has no `{name}`")
    return value
