"""What a failure of a serve means: whether another candidate of the plan is asked, what it says of the serve's health,
and for which of its `fallback_on` causes it counts. Pure.

A candidate is left for the next one unless the request would fail there as well. A serve with a `fallback` is left for
the causes alone that its configuration names. The cases, in order:

                                                                     next        health    cause
1. Stoker itself ended the request (cut, shutdown, operator)         -           unknown   -
2. the model does not fit on its device                              moves on    fault     memory
3. the answer was read and found wrong, or is empty                  moves on    well      unavailable
4. no first byte in time                                             moves on    hangs     unavailable
5. this serve cannot serve the request, and another one may          moves on    well      -
6. it refused the request with an HTTP status below 500              BY_STATUS
7. it takes no requests: drained, unloaded, too large, not started   moves on    unknown   unavailable
8. it has no place, or asked for a pause (429, 503, 529)             moves on    unknown   busy
9. Stoker has no room for the request                                moves on    unknown   -
10. it failed, broke off, could not be reached or started            moves on    fault     unavailable

An engine that has just run out of memory breaks its connections first. Whoever waited to hear why it exited says so by
`exit_code`, which counts for case 2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.errors import (
    BEYOND_THE_DEVICE,
    EMPTY_ANSWER,
    FIRST_BYTE,
    REJECTED,
    CapacityError,
    ClientError,
    StartFailed,
    StokerError,
    UpstreamError,
)
from stoker.domain.serve import FallbackCause

BUSY = frozenset(("queue_full", "no_place", "queue_timeout", "swap_timeout", "busy", "upstream_busy"))
TAKES_NONE = frozenset(("draining", "unloaded", "fetching", "no_fit", "needs_force", "slot_paused"))
"""Codes of a serve that has no place now, and of one that takes no request."""
_ENDED_BY_US = frozenset(("cut", "shutting_down"))
_NOT_HERE = frozenset(
    ("context_length_exceeded", "dialect_not_spoken", "would_lose", "image_url_refused", "unsupported_input")
)
"""Codes of requests that are too long for a serve, have what its model does not take, or cannot be written for it."""
_NOT_COUNTED = "not_counted"
_REFUSED = "upstream_refused"
_UPSTREAMS = frozenset((_REFUSED, "insufficient_quota"))
"""Codes of a serve's own refusal, where it gave no message."""


class HealthEffect(StrEnum):
    """What a failure says of a tier's health; its circuit counts."""

    WELL = "well"
    UNKNOWN = "unknown"
    FAULT = "fault"
    HANGS = "hangs"


class Rule(NamedTuple):
    moves_on: bool
    """Whether the next candidate is asked, as long as the client has no byte of an answer."""
    health: HealthEffect
    cause: FallbackCause | None
    """Why the serve's fallback is asked; None: it is not."""
    why: str


_UNAVAILABLE = FallbackCause.UNAVAILABLE


def _wrong(why: str) -> Rule:
    return Rule(False, HealthEffect.WELL, None, why)


def _fault(why: str) -> Rule:
    return Rule(True, HealthEffect.FAULT, _UNAVAILABLE, why)


def _elsewhere(why: str, health: HealthEffect = HealthEffect.WELL) -> Rule:
    return Rule(True, health, None, why)


BY_STATUS: Mapping[int, Rule] = {
    400: _wrong("the request itself is wrong, for every serve"),
    401: _fault("the serve's key is missing or wrong; another serve has its own"),
    402: _fault("the serve's account has no credit"),
    403: _fault("the serve's key may not use the model"),
    404: _fault("the serve has no such model or path"),
    405: _fault("the serve has no such path"),
    406: _wrong("the client accepts no format in which an answer comes"),
    407: _fault("a proxy before the serve wants a key"),
    408: _fault("the serve gave up waiting"),
    409: _elsewhere("the serve's own state conflicts with the request", HealthEffect.UNKNOWN),
    410: _fault("the serve's model was withdrawn"),
    411: _wrong("the request itself is wrong"),
    413: _elsewhere("longer than this serve accepts; another serve may accept more"),
    414: _wrong("the request itself is wrong"),
    415: _wrong("the body's type is the client's choice"),
    417: _wrong("the request itself is wrong"),
    422: _wrong("a field of the request is wrong, for every serve"),
    425: _elsewhere("the serve does not accept it yet", HealthEffect.UNKNOWN),
    429: Rule(True, HealthEffect.UNKNOWN, FallbackCause.BUSY, "the serve has a limit of its own, for a while"),
    451: _elsewhere("the serve may not answer it for legal reasons; another serve may"),
}
"""HTTP statuses below 500. Every other status moves on."""
_OTHER_STATUS = _elsewhere("another serve may accept it", HealthEffect.UNKNOWN)
_OURS = Rule(False, HealthEffect.UNKNOWN, None, "Stoker itself ended the request")
_BEYOND = Rule(True, HealthEffect.FAULT, FallbackCause.MEMORY, "the model does not fit on its device")
_WRONG_ANSWER = Rule(
    True, HealthEffect.WELL, _UNAVAILABLE, "the answer was wrong or empty, which says nothing of the serve's health"
)
_HUNG = Rule(True, HealthEffect.HANGS, _UNAVAILABLE, "no byte of an answer came in time")
_ELSEWHERE = _elsewhere("this serve cannot serve the request; another serve may")
_TAKES_NONE = Rule(True, HealthEffect.UNKNOWN, _UNAVAILABLE, "the serve takes no requests")
_BUSY = Rule(True, HealthEffect.UNKNOWN, FallbackCause.BUSY, "the serve is busy")
_NO_ROOM = _elsewhere("there is no room for the request; another serve may take it at once", HealthEffect.UNKNOWN)
_BROKEN = _fault("the serve failed")


def rule_for(error: StokerError, exit_code: str = "") -> Rule:
    """Every error has a rule. `exit_code`: why the serve exited, if it did and that is known."""
    if not isinstance(error, ClientError | CapacityError | UpstreamError | StartFailed):
        return _OURS  # 1
    code, is_own = error.code, error.source == "stoker"
    if isinstance(error, CapacityError):
        if code in _ENDED_BY_US:
            return _OURS  # 1
        if code in TAKES_NONE:
            return _TAKES_NONE  # 7
        return _BUSY if code in BUSY else _NO_ROOM  # 8, 9
    if isinstance(error, UpstreamError | StartFailed) and (code in BEYOND_THE_DEVICE or exit_code in BEYOND_THE_DEVICE):
        return _BEYOND  # 2
    if code in (REJECTED, EMPTY_ANSWER):
        return _WRONG_ANSWER  # 3
    if code == FIRST_BYTE:
        return _HUNG  # 4
    if code in _NOT_HERE and isinstance(error, ClientError):
        return _ELSEWHERE  # 5
    if code == _NOT_COUNTED and isinstance(error, UpstreamError):
        return _ELSEWHERE  # 5
    if isinstance(error, UpstreamError):
        return BY_STATUS.get(error.status, _OTHER_STATUS) if code == _REFUSED else _BROKEN  # 6, 10
    if isinstance(error, StartFailed):
        return _BROKEN  # 10
    if is_own and code in TAKES_NONE:
        return _TAKES_NONE  # 7
    rule = BY_STATUS.get(error.status, _OTHER_STATUS)  # 6
    return rule._replace(cause=None) if is_own and code not in _UPSTREAMS else rule


def moves_on(error: StokerError, causes: Collection[FallbackCause] | None = None, exit_code: str = "") -> bool:
    """Whether the next candidate is asked after this error. `causes`: for which; None: for all that might go well
    there.
    """
    rule = rule_for(error, exit_code)
    return rule.moves_on if causes is None else rule.cause in causes
