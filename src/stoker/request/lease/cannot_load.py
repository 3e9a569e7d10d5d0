"""When is a serve not worth another start, and what makes it worth one again? Pure.

1. a start failed for a reason in LASTING        -> it cannot load, until one of its files changes
2. a check finds what nobody but a person mends  -> it cannot load, until a check finds nothing
3. its configuration changes                     -> it may load
4. an operator switches to it                    -> it may load
5. Stoker starts anew                            -> it may load: one attempt finds out again

What only time or other serves decide (memory, a port, a lost device) is no such reason: the serve backs off.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.domain.errors import CANNOT_LOAD, LASTING, StartFailed, did_not_start
from stoker.domain.protocols import FileMarks


class CannotLoad(NamedTuple):
    """Why a serve is not started."""

    reason: str
    """With what to do about it."""
    remedy: str = ""
    """The same without what an engine printed."""
    failure: str = ""
    """The code of the start that failed; empty: a check found the reason, and nothing was started."""
    files: FileMarks = ()
    """Its files, as they were before that start."""


def from_failure(name: str, error: StartFailed, files: FileMarks) -> CannotLoad:
    if error.code == CANNOT_LOAD:
        return CannotLoad(error.remedy, error.remedy)
    return CannotLoad(error.message.removeprefix(did_not_start(name)), error.remedy, error.code, files)


def is_lasting(error: StartFailed) -> bool:
    return error.code in LASTING or error.code == CANNOT_LOAD
