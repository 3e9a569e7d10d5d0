"""A plan says who may answer a request: candidates in order, and for each of them which failure lets the next one
answer. Pure.

Names, aliases, fallback, replicas, tiers and orchestrators only make plans. `exchange.attempts` carries them out: it
asks the first candidate, and what follows a failure is decided here (`after_failure`), in this order:

1. a check rejected the answer, and it can be repaired     -> REPAIR: the same serve, with what was found
2. it could not be reached, so nothing was sent to it,
   and no other replica can be asked                       -> AGAIN: the same serve, once its exit is noticed; once
   it was busy, and nobody else may go on                  -> AGAIN: the same serve, after the pause it asks for; once
3. the client has a part of an answer                      -> END: it cannot be taken back
4. more output is asked for than the prompt leaves         -> LESS_OUTPUT: the same serve, with less; once
5. another replica can be asked, and might answer          -> REPLICA
6. the plan has another candidate, and the failure is
   one that lets it answer (see `failover`)                -> CANDIDATE
7. else                                                    -> END: the client gets this error
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from stoker.domain.dialect import Endpoint
from stoker.domain.errors import (
    UNREACHABLE,
    CapacityError,
    ClientError,
    OutputLimitTooHigh,
    StokerError,
    UpstreamError,
)
from stoker.domain.serve import FallbackCause, Serve
from stoker.request.codec.body_fields import BodyFields
from stoker.request.decide.dialects import dialect_for
from stoker.request.decide.failover import moves_on
from stoker.request.decide.names import Names


class PlanCandidate(msgspec.Struct, frozen=True):
    """A serve that may answer."""

    serve: Serve
    tier: str = ""
    """The tier that it is; empty: it was asked for by name."""
    causes: tuple[FallbackCause, ...] | None = None
    """For which failures the next candidate answers; None: for all that might go well there."""
    first_byte_within: float | None = None
    """Seconds without an answer after which the next candidate answers; None: the serve's own limit counts."""
    must_read: bool = False
    """The answer is read, and may be held back, until it is verified."""
    request: tuple[BodyFields, bytes] | None = None
    """What it is asked if an earlier candidate was asked something else; None: the same."""


Plan = tuple[PlanCandidate, ...]
"""At least one, in the order in which they are asked."""


class Next(Enum):
    """What follows a failure."""

    END = "end"
    REPAIR = "repair"
    LESS_OUTPUT = "less output"
    REPLICA = "replica"
    AGAIN = "again"
    CANDIDATE = "candidate"


class Standing(msgspec.Struct):
    """Where a candidate stands, and with it the request."""

    candidate: PlanCandidate
    has_next: bool = False
    """The plan has another candidate."""
    has_replica: bool = False
    """Another replica of the serve can be asked."""
    has_begun: bool = False
    """The client has a part of an answer. A 200 with pings alone is not a part."""
    can_repair: bool = False
    was_lowered: bool = False
    """Less output was asked for already, or cannot be."""
    was_unreachable: bool = False
    """It was asked again already because it could not be reached."""
    must_go_on: bool = False
    """Tools have run for its answer, and it has not begun the next part."""
    was_busy: bool = False
    """It was asked again already because it was busy."""


def after_failure(error: StokerError, at: Standing, exit_code: str = "") -> Next:
    """What follows. `exit_code`: why the serve exited, if it did and that is known."""
    if at.can_repair:
        return Next.REPAIR  # 1
    is_unreachable = error.code == UNREACHABLE and isinstance(error, UpstreamError)
    if is_unreachable and not at.was_unreachable and not at.has_replica:
        return Next.AGAIN  # 2
    if is_busy(error) and at.must_go_on and not at.was_busy:
        return Next.AGAIN  # 2
    if at.has_begun:
        return Next.END  # 3
    if isinstance(error, OutputLimitTooHigh) and not at.was_lowered:
        return Next.LESS_OUTPUT  # 4
    if at.has_replica and moves_on(error):
        return Next.REPLICA  # 5
    if at.has_next and moves_on(error, at.candidate.causes, exit_code):
        return Next.CANDIDATE  # 6
    return Next.END  # 7


def is_busy(error: StokerError) -> bool:
    """Whether the serve refused the request for now."""
    return isinstance(error, CapacityError) and error.code == "upstream_busy"


def leaves(error: StokerError, at: Standing) -> bool:
    """Whether another replica or candidate answers after this error."""
    return after_failure(error, at) in (Next.REPLICA, Next.CANDIDATE)


def plan_for(serve: Serve, names: Names, may_use: Callable[[Serve], bool], endpoint: Endpoint) -> Plan:
    """Of a request that names its model: the serve, then its fallback, if this caller may use it and it speaks what is
    asked.
    """
    if serve.fallback is None:
        return (PlanCandidate(serve),)
    fallback = names.find(serve.fallback, may_use)
    if fallback is None or not may_use(fallback):
        return (PlanCandidate(serve),)
    try:
        dialect_for(fallback, endpoint.dialect, endpoint.path)
    except ClientError:
        return (PlanCandidate(serve),)  # the serve's own error says more
    return PlanCandidate(serve, causes=serve.fallback_on), PlanCandidate(fallback)
