"""Tiers: serves that routing may choose, with their cost; and what was measured about them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from stoker.domain.kinds import setting

Price = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class Verify(StrEnum):
    """How an answer is checked before the client gets it. Stricter modes cost time to the first token."""

    OFF = "off"
    OBSERVE = "observe"
    """Everything is sent at once; faults are only counted."""
    HOLD_TOOLS = "hold-tools"
    """Text is sent at once; each tool call is held until it is proved valid."""
    HOLD_ALL = "hold-all"
    """Nothing is sent before the whole answer was checked."""


HOLDING = (Verify.HOLD_TOOLS, Verify.HOLD_ALL)
"""Modes that hold a part of the answer until it is checked."""


class Verdict(StrEnum):
    """Whether a tier may serve a task class, as measured."""

    ALLOW = "allow"
    VERIFY = "allow-with-verify"
    DENY = "deny"


class Cost(msgspec.Struct, frozen=True):
    """Price per million tokens, in one currency for all tiers."""

    input: Annotated[Price, setting("Required. Price of a million prompt tokens.", derived=True)] = 0.0
    output: Annotated[Price, setting("Required. Price of a million answer tokens.", derived=True)] = 0.0
    cached_input: Annotated[
        Price | None,
        setting(
            "Price of a million prompt tokens that came from the cloud's cache. By default Stoker's own table of "
            "November 2026 for known models, else `input`; compare it with your vendor's prices."
        ),
    ] = None
    cache_write: Annotated[
        Price | None,
        setting(
            "Price of a million prompt tokens that were written to the cloud's cache. By default Stoker's own table of "
            "November 2026 for known models (Anthropic: for five minutes; an hour costs twice `input`), else `input`."
        ),
    ] = None

    def of(self, input_tokens: float, output_tokens: float, cached: float = 0, written: float = 0) -> float:
        """The cost of so many tokens. `cached`, `written`: those of the input that were read from the cache, or written
        to it.
        """
        money = input_tokens * self.input + output_tokens * self.output
        if cached or written:
            cached = min(cached, input_tokens)
            written = min(written, input_tokens - cached)
            money += cached * ((self.input if self.cached_input is None else self.cached_input) - self.input)
            money += written * ((self.input if self.cache_write is None else self.cache_write) - self.input)
        return money / 1e6


class Tier(msgspec.Struct, frozen=True):
    """A serve that routing may choose. Tiers are listed from the cheapest to the strongest."""

    name: str
    serve: str
    cloud: bool = False
    """A cloud is trusted without measurements, and used only where the configuration permits it."""
    cost: Cost = Cost()
    verify: Verify = Verify.HOLD_TOOLS
    verify_class: Mapping[str, Verify] = {}
    """The mode of classes that differ from `verify`."""
    classes: tuple[str, ...] = ("*",)
    first_byte_timeout: float | None = None
    """Seconds to wait for the first byte of an answer if another tier is left; 0: no limit; None: follows measurements.
    """
    is_assumed_local: bool = False
    """The file does not say whether it is a cloud; by its address it is not."""

    def mode(self, task_class: str) -> Verify:
        """How answers of this class are checked."""
        return self.verify_class.get(task_class, self.verify)


LIVE = "live"
"""The source of rows that come from grades of live answers."""


class ProfileRow(msgspec.Struct, frozen=True):
    """The measurement of one tier at one class: a row of the quality profile."""

    tier: str
    task_class: str
    identity: str
    """`identity` and `execution` of the Fingerprint that was measured."""
    execution: str
    n: int
    passed: int
    verdict: Verdict
    """The result of the sequential test: `allow` accepts, `deny` rejects, `allow-with-verify` is undecided."""
    latency: float | None = None
    """Median seconds to the end of an answer."""
    source: str = ""
    """What measured it: `bootstrap`, or LIVE."""
    dataset: str = ""
    """Hash of the fixtures."""
    at: float = 0.0
    """Unix time."""


class GradedRow(ProfileRow, frozen=True):
    """The grades of live answers of one tier at one class, all by one judge."""

    judge: str = ""
    """The judge's serve; empty: an earlier version graded, and did not say."""
    judge_identity: str = ""
    judge_execution: str = ""
    """Fingerprint of the judge's model; empty: it was not known."""


class Demotion(msgspec.Struct, frozen=True):
    """A tier that may not serve a class: its answers became worse, and then its preflight failed."""

    tier: str
    task_class: str
    identity: str
    """`identity` and `execution` of the Fingerprint that failed; another one is not demoted."""
    execution: str
    measured: float
    """`at` of the row that was demoted; the demotion does not apply to a newer row."""
    checks: tuple[str, ...]
    """The preflight checks that failed."""
    at: float = 0.0
    """Unix time."""
