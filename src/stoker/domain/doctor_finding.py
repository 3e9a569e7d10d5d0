"""What `stoker doctor` found out about one part of this machine or of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DoctorHealth(StrEnum):
    """WARN: it works, but probably not as meant. FAIL: it does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One part. `fix` and `next` (a command) are given for everything that is not ok; `next` also for a Stoker that
    runs.
    """

    part: str
    health: DoctorHealth
    detail: str
    fix: str = ""
    next: str = ""
