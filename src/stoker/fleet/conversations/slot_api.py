"""What llama.cpp is asked about its sequences. File names are ours; the engine resolves them below one directory."""

from __future__ import annotations

from typing import Any

from stoker.domain.lease import Target
from stoker.http import client
from stoker.http.client import NoResponse


class Refused(Exception):
    """The engine said no; it has done nothing, or nothing that counts."""


class Unanswered(Exception):
    """Nobody knows whether it was done, or will be."""


async def save(address: Target, sequence: int, name: str, within: float) -> tuple[int, int]:
    """Have it write file `name`: (tokens, bytes). Raises Refused and Unanswered (after `within` seconds)."""
    found = await _ask(address, sequence, "save", {"filename": name}, within)
    return _number(found, "n_saved"), _number(found, "n_written")


async def restore(address: Target, sequence: int, name: str, within: float) -> int:
    """Have it read file `name`: tokens. Raises Refused and Unanswered. A file that is cut short ends the engine."""
    return _number(await _ask(address, sequence, "restore", {"filename": name}, within), "n_restored")


async def erase(address: Target, sequence: int, within: float) -> None:
    """Have it forget what is there. Raises Refused and Unanswered."""
    _number(await _ask(address, sequence, "erase", {}, within), "n_erased")


async def _ask(address: Target, sequence: int, action: str, payload: dict[str, str], within: float) -> Any:
    try:
        answer = await client.ask(address, f"/slots/{sequence}?action={action}", payload, within)
    except NoResponse as error:
        raise Unanswered(str(error)) from None
    if answer.status != 200:
        raise Refused(f"it answered {answer.status} to `{action}`")
    return answer.json()


def _number(found: Any, name: str) -> int:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"its answer has no `{name}`")
    return value
