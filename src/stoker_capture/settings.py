"""The table `[capture]`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.sections import Section
from stoker.domain.access import Settings
from stoker.domain.kinds import Size, setting
from stoker.domain.units import show_size

LEAST = 2**20


class CaptureSettings(msgspec.Struct, frozen=True):
    """How much of requests and answers is kept."""

    memory: Annotated[
        Size | None,
        setting(
            "Memory for what the last requests and answers said, at least 1 MiB: the oldest goes first. "
            "Administrators see it; it is never written to disk, and gone when Stoker ends. "
            "Left out: nothing is kept."
        ),
    ] = None


def _check(doc: ConfigDocument, found: CaptureSettings) -> None:
    if found.memory is not None and found.memory < LEAST:
        doc.problem(("capture", "memory"), 'is too small for a request; use at least "1MiB"')


CAPTURE = Section(CaptureSettings, "What requests and answers say, kept in memory for administrators.", _check)


def settings_of(settings: Settings) -> CaptureSettings:
    found = settings.extensions.get("capture", CaptureSettings())
    assert isinstance(found, CaptureSettings)
    return found


def warnings(settings: Settings) -> list[str]:
    memory = settings_of(settings).memory
    if memory is None:
        return []
    return [
        f"[capture] keeps what requests and answers say: up to {show_size(memory)}, in memory, for everybody with a "
        "key of scope admin. Remove `memory` and `stoker reload` when you have seen what you need"
    ]
