"""What must hold of a ready serve. Pure: one Observation in, one AssertionResult per assertion out.

A finding is True (it holds, or there is nothing to hold), False (it does not), or None: not known. Only False makes a
serve sick; a serve of which something is not known is not proved to be healthy, and nothing is done to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.figures import counted
from stoker.domain.serve import IDENTITY_NOT_PROVED

MISSES = 3
"""Failed checks in a row that prove something: a single one may be a busy moment."""
CONTEXT_PADDING = 256
"""Tokens by which llama.cpp rounds a context up."""


class Assertion(StrEnum):
    """In the order in which they are judged and shown."""

    ANSWERS = "answers"
    """GET /v1/models is answered, or its probe path."""
    EXACT_ID = "exact_id"
    """It lists the exact served name. Not known if its identity is `none`."""
    DEVICES = "devices"
    """Every device that it was given holds memory of it."""
    DEPENDENCIES = "dependencies"
    """What the engine and `requires` need is there (compilers, build tools, files, packages)."""
    PROFILE = "profile"
    """Arguments and environment are those of the configuration."""
    CONTEXT = "context"
    """The context that it advertises is the configured one."""
    PROGRESS = "progress"
    """Work that waits for it moves."""


class Remedy(StrEnum):
    """What is to be done about an assertion that fails."""

    RESTART = "restart"
    REPORT = "report"


class ServeHealth(StrEnum):
    VERIFIED = "verified"
    UNKNOWN = "unknown"
    SICK = "sick"


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of one serve. None: not known. Times are seconds."""

    wanted_id: str | None
    """None: it lists no models, and is not asked for them."""
    question: str = "GET /v1/models"
    """What it is asked."""
    misses: int | None = None
    """Checks in a row in which it gave no usable answer, this one included; None: it was not asked."""
    miss: str = ""
    """How the last of them ended."""
    is_moving: bool = False
    """Progress since the observation before."""
    listed: tuple[str, ...] | None = None
    """The ids in /v1/models."""
    wanted_context: int | None = None
    """None: none is configured."""
    advertised_context: int | None = None
    wanted_devices: tuple[str, ...] = ()
    engaged_devices: frozenset[str] | None = None
    missing: tuple[str, ...] | None = None
    """Dependencies that are not there, one sentence each."""
    differences: tuple[str, ...] | None = None
    """How it differs from its configuration, one phrase each; never a value of the environment."""
    in_flight: int = 0
    """Requests that wait for the serve."""
    without_progress: float | None = None
    """Seconds since the last progress while there was work."""
    stall_limit: float = 0.0
    """Seconds without progress that are too long."""
    makes_media: bool = False
    """The serve only makes audio or images, and may answer nothing else meanwhile."""
    running: float | None = None
    queued: float | None = None
    """The engine's own counts."""
    asleep: bool | None = None


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """`ok` None: not known. `detail` is for people."""

    assertion: Assertion
    ok: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class HealthAssessment:
    """`failed` and `act` are empty unless it is sick."""

    health: ServeHealth
    failed: tuple[Assertion, ...] = ()
    act: Remedy | None = None
    reason: str = ""


def judge(seen: Observation) -> tuple[AssertionResult, ...]:
    """One finding per assertion, in their order."""
    return tuple(AssertionResult(row.assertion, *row.look(seen)) for row in TABLE)


def assess(findings: tuple[AssertionResult, ...], can_restart: bool = True) -> HealthAssessment:
    """Sick if anything fails, verified if everything holds, else unknown. A restart takes precedence over a report.

    `can_restart` False: the serve is external, so it can only be reported.
    """
    failed = tuple(finding for finding in findings if finding.ok is False)
    if not failed:
        is_proved = bool(findings) and all(finding.ok for finding in findings)
        return HealthAssessment(ServeHealth.VERIFIED if is_proved else ServeHealth.UNKNOWN)
    acts = {row.act for row in TABLE for finding in failed if row.assertion is finding.assertion}
    act = Remedy.RESTART if Remedy.RESTART in acts and can_restart else Remedy.REPORT
    reason = "; ".join(f"{finding.assertion}: {finding.detail}" for finding in failed)
    return HealthAssessment(ServeHealth.SICK, tuple(finding.assertion for finding in failed), act, reason)


Judged = tuple[bool | None, str]


def _answers(seen: Observation) -> Judged:
    """1 not asked  2 answered  3 not often enough to mean anything  4 it works all the same
    5 it may answer nothing while it works: PROGRESS judges that  6 no answer
    """
    if seen.misses is None:  # 1
        return None, "it was not asked"
    if seen.misses == 0:  # 2
        return True, f"{seen.question} is answered"
    text = f"{seen.misses} probes in a row without an answer to {seen.question} ({seen.miss or 'no reason known'})"
    if seen.misses < MISSES:  # 3
        return None, text
    if seen.is_moving:  # 4
        return None, f"{text}, but its streams go on"
    if (seen.wanted_id is None or seen.makes_media) and seen.in_flight:  # 5
        return None, f"{text}, but it works on {counted(seen.in_flight, 'request')}"
    return False, text  # 6


def _exact_id(seen: Observation) -> Judged:
    if seen.wanted_id is None:
        return None, IDENTITY_NOT_PROVED
    if seen.listed is None:
        return None, "GET /v1/models was not answered"
    if seen.wanted_id in seen.listed:
        return True, f"'{seen.wanted_id}' is listed"
    shown = ", ".join(f"'{id[:80]}'" for id in seen.listed[:5]) or "nothing"
    return False, f"wanted '{seen.wanted_id}', GET /v1/models shows {shown}"


def _devices(seen: Observation) -> Judged:
    if not seen.wanted_devices:
        return True, "its slot names no devices"
    if seen.asleep:
        return True, "asleep: it uses none"
    if seen.engaged_devices is None:
        return None, "the devices on which it holds memory are not known"
    idle = [device for device in seen.wanted_devices if device not in seen.engaged_devices]
    if idle:
        return False, f"{', '.join(idle)} of {', '.join(seen.wanted_devices)} are not used by it"
    return True, f"{', '.join(seen.wanted_devices)} in use"


def _dependencies(seen: Observation) -> Judged:
    if seen.missing is None:
        return None, "they were not checked"
    return (False, "; ".join(seen.missing)) if seen.missing else (True, "all there")


def _profile(seen: Observation) -> Judged:
    if seen.differences is None:
        return None, "its arguments and environment could not be read"
    return (False, "; ".join(seen.differences)) if seen.differences else (True, "as configured")


def _context(seen: Observation) -> Judged:
    if seen.wanted_context is None:
        return True, "none is configured"
    if seen.advertised_context is None:
        return None, "it does not report it"
    if seen.wanted_context <= seen.advertised_context < seen.wanted_context + CONTEXT_PADDING:
        return True, f"{seen.advertised_context} tokens"
    return False, f"it has {seen.advertised_context} tokens, but {seen.wanted_context} are configured"


def _progress(seen: Observation) -> Judged:
    if seen.asleep:
        return True, "asleep: no work waits"
    if seen.in_flight == 0:
        return True, "no work waits"
    if seen.without_progress is None:
        return None, "it has not been watched for long enough"
    engine = "".join(
        f", the engine reports {value:g} {word}"
        for word, value in (("running", seen.running), ("queued", seen.queued))
        if value is not None
    )
    text = f"{seen.in_flight} in flight, the last progress {seen.without_progress:.0f} s ago{engine}"
    if seen.without_progress < seen.stall_limit:
        return True, text
    return False, f"{text}; {seen.stall_limit:.0f} s are allowed"


class AssertionRule(NamedTuple):
    """An assertion, what follows if it fails, and how it is judged."""

    assertion: Assertion
    act: Remedy
    look: Callable[[Observation], Judged]


# A restart is for what a restart can cure. A serve that works, but not as configured, would come back as it is: it is
# reported; restarted only if configured
TABLE: tuple[AssertionRule, ...] = (
    AssertionRule(Assertion.ANSWERS, Remedy.RESTART, _answers),
    AssertionRule(Assertion.EXACT_ID, Remedy.RESTART, _exact_id),
    AssertionRule(Assertion.DEVICES, Remedy.REPORT, _devices),
    AssertionRule(Assertion.DEPENDENCIES, Remedy.REPORT, _dependencies),
    AssertionRule(Assertion.PROFILE, Remedy.REPORT, _profile),
    AssertionRule(Assertion.CONTEXT, Remedy.REPORT, _context),
    AssertionRule(Assertion.PROGRESS, Remedy.RESTART, _progress),
)
