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
from stoker.fleet.memory.engaged import NO_DEVICES, EngagedDevices

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
    """Every device that it was given holds memory of it, and it says of no other that it uses it."""
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
    devices: EngagedDevices = NO_DEVICES
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
    """`failed` and `remedy` are empty unless it is sick."""

    health: ServeHealth
    failed: tuple[Assertion, ...] = ()
    remedy: Remedy | None = None
    reason: str = ""


def judge(observation: Observation) -> tuple[AssertionResult, ...]:
    """One finding per assertion, in their order."""
    return tuple(AssertionResult(row.assertion, *row.evaluate(observation)) for row in TABLE)


def assess(findings: tuple[AssertionResult, ...], can_restart: bool = True) -> HealthAssessment:
    """Sick if anything fails, verified if everything holds, else unknown. A restart takes precedence over a report.

    `can_restart` False: the serve is external, so it can only be reported.
    """
    failed = tuple(finding for finding in findings if finding.ok is False)
    if not failed:
        is_proved = bool(findings) and all(finding.ok for finding in findings)
        return HealthAssessment(ServeHealth.VERIFIED if is_proved else ServeHealth.UNKNOWN)
    remedies = {row.remedy for row in TABLE for finding in failed if row.assertion is finding.assertion}
    remedy = Remedy.RESTART if Remedy.RESTART in remedies and can_restart else Remedy.REPORT
    reason = "; ".join(f"{finding.assertion}: {finding.detail}" for finding in failed)
    return HealthAssessment(ServeHealth.SICK, tuple(finding.assertion for finding in failed), remedy, reason)


Judged = tuple[bool | None, str]


def _answers(observation: Observation) -> Judged:
    """1 not asked  2 answered  3 not often enough to mean anything  4 it works all the same
    5 it may answer nothing while it works: PROGRESS judges that  6 no answer
    """
    if observation.misses is None:  # 1
        return None, "it was not asked"
    if observation.misses == 0:  # 2
        return True, f"{observation.question} is answered"
    why = observation.miss or "no reason known"
    text = f"{observation.misses} probes in a row without an answer to {observation.question} ({why})"
    if observation.misses < MISSES:  # 3
        return None, text
    if observation.is_moving:  # 4
        return None, f"{text}, but its streams go on"
    if (observation.wanted_id is None or observation.makes_media) and observation.in_flight:  # 5
        return None, f"{text}, but it works on {counted(observation.in_flight, 'request')}"
    return False, text  # 6


def _exact_id(observation: Observation) -> Judged:
    if observation.wanted_id is None:
        return None, IDENTITY_NOT_PROVED
    if observation.listed is None:
        return None, "GET /v1/models was not answered"
    if observation.wanted_id in observation.listed:
        return True, f"'{observation.wanted_id}' is listed"
    shown = ", ".join(f"'{id[:80]}'" for id in observation.listed[:5]) or "nothing"
    return False, f"wanted '{observation.wanted_id}', GET /v1/models shows {shown}"


def _devices(observation: Observation) -> Judged:
    wanted, used, problem = observation.devices
    if not wanted:
        return True, "its slot names no devices"
    if problem:
        return False, problem
    if observation.asleep:
        return True, "asleep: it uses none"
    if used is None:
        return None, "the devices on which it holds memory are not known"
    if idle := [device for device in wanted if device not in used]:
        return False, f"{', '.join(idle)} of {', '.join(wanted)} are not used by it"
    return True, f"{', '.join(wanted)} in use"


def _dependencies(observation: Observation) -> Judged:
    if observation.missing is None:
        return None, "they were not checked"
    return (False, "; ".join(observation.missing)) if observation.missing else (True, "all there")


def _profile(observation: Observation) -> Judged:
    if observation.differences is None:
        return None, "its arguments and environment could not be read"
    return (False, "; ".join(observation.differences)) if observation.differences else (True, "as configured")


def _context(observation: Observation) -> Judged:
    if observation.wanted_context is None:
        return True, "none is configured"
    if observation.advertised_context is None:
        return None, "it does not report it"
    if observation.wanted_context <= observation.advertised_context < observation.wanted_context + CONTEXT_PADDING:
        return True, f"{observation.advertised_context} tokens"
    return False, f"it has {observation.advertised_context} tokens, but {observation.wanted_context} are configured"


def _progress(observation: Observation) -> Judged:
    if observation.asleep:
        return True, "asleep: no work waits"
    if observation.in_flight == 0:
        return True, "no work waits"
    if observation.without_progress is None:
        return None, "it has not been watched for long enough"
    engine = "".join(
        f", the engine reports {value:g} {word}"
        for word, value in (("running", observation.running), ("queued", observation.queued))
        if value is not None
    )
    text = f"{observation.in_flight} in flight, the last progress {observation.without_progress:.0f} s ago{engine}"
    if observation.without_progress < observation.stall_limit:
        return True, text
    return False, f"{text}; {observation.stall_limit:.0f} s are allowed"


class AssertionRule(NamedTuple):
    """An assertion, what follows if it fails, and how it is judged."""

    assertion: Assertion
    remedy: Remedy
    evaluate: Callable[[Observation], Judged]


# A restart is for what a restart can cure. A serve that works, but not as configured, would come back as it is: it is
# only reported.
TABLE: tuple[AssertionRule, ...] = (
    AssertionRule(Assertion.ANSWERS, Remedy.RESTART, _answers),
    AssertionRule(Assertion.EXACT_ID, Remedy.RESTART, _exact_id),
    AssertionRule(Assertion.DEVICES, Remedy.REPORT, _devices),
    AssertionRule(Assertion.DEPENDENCIES, Remedy.REPORT, _dependencies),
    AssertionRule(Assertion.PROFILE, Remedy.REPORT, _profile),
    AssertionRule(Assertion.CONTEXT, Remedy.REPORT, _context),
    AssertionRule(Assertion.PROGRESS, Remedy.RESTART, _progress),
)
