"""A tier: a serve that routing may choose, with its cost; and what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Verify(StrEnum):
    """What is checked of an answer before the client gets it: safety against time to the first token."""

    OFF = "off"
    OBSERVE = "observe"
    """Everything flows; what is wrong is only counted."""
    HOLD_TOOLS = "hold-tools"
    """Text flows, each call is held until it is proved valid."""
    HOLD_ALL = "hold-all"
    """Nothing flows before the whole answer was checked."""


HOLDING = (Verify.HOLD_TOOLS, Verify.HOLD_ALL)
"""Modes in which something waits until it is proved."""


class Verdict(StrEnum):
    """May a tier serve a class of tasks?"""

    ALLOW = "allow"
    VERIFY = "allow-with-verify"
    DENY = "deny"


class Cost(msgspec.Struct, frozen=True):
    """Money per million tokens, in whatever currency all tiers share."""

    input: float = 0.0
    output: float = 0.0

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


class Tier(msgspec.Struct, frozen=True):
    """One serve, seen as a choice. Tiers are listed from the cheapest to the strongest."""

    name: str
    serve: str
    cloud: bool = False
    """It is a cloud: trusted without measurements, and used only where the configuration permits it."""
    cost: Cost = Cost()
    verify: Verify = Verify.HOLD_TOOLS
    verify_class: Mapping[str, Verify] = {}
    """Where a class wants another mode."""
    classes: tuple[str, ...] = ("*",)
    first_byte_timeout: float | None = None
    """Seconds for the first byte of an answer, while another tier is there; 0: for ever; None: as measured."""
    is_assumed_local: bool = False
    """That it is no cloud was told from its address, since the file does not say."""

    def mode(self, task_class: str) -> Verify:
        return self.verify_class.get(task_class, self.verify)


LIVE = "live"
"""The source of rows that come from grades of live answers."""


class ProfileRow(msgspec.Struct, frozen=True):
    """What was measured of one tier at one class: a row of the quality profile."""

    tier: str
    task_class: str
    identity: str
    """Of the fingerprint that was measured: see `domain.run.Fingerprint`."""
    execution: str
    n: int
    passed: int
    verdict: Verdict
    """Of the sequential test: `allow` accepts, `deny` rejects, `allow-with-verify` is undecided."""
    latency: float | None = None
    """Seconds to the end of an answer, the median."""
    source: str = ""
    """What measured it: `bootstrap`, or LIVE."""
    dataset: str = ""
    """Hash of the fixtures."""
    at: float = 0.0
    """Unix time."""


class Demotion(msgspec.Struct, frozen=True):
    """A tier that may not serve a class: its answers became worse, and then its preflight failed."""

    tier: str
    task_class: str
    identity: str
    """Of the fingerprint of what failed: nothing else is meant."""
    execution: str
    measured: float
    """`at` of the row that it speaks of: another row was measured since."""
    checks: tuple[str, ...]
    """The gates that failed."""
    at: float = 0.0
    """Unix time."""
