"""After which failures the next tier is tried, and what a failure says of the tier that failed. Pure.

The rule: the next tier is tried unless the request would fail there as well. The cases, in order:

1. Stoker itself ended the request (drain, shutdown, operator)      -> stays; does not affect its health
2. the answer was read and found wrong, or is empty                 -> moves on; the tier counts as healthy
3. no first byte in time                                            -> moves on; opens the tier's circuit at once
4. this tier cannot serve the request, and another one may          -> moves on; the tier counts as healthy
5. the tier refused the request with an HTTP status below 500       -> BY_STATUS
6. the tier is busy, or asked for a pause (429, 503, 529)           -> moves on; does not affect its health
7. the tier failed, broke off, could not be reached or started      -> moves on; counts as a fault
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.errors import (
    EMPTY_ANSWER,
    FIRST_BYTE,
    REJECTED,
    CapacityError,
    ClientError,
    StartFailed,
    StokerError,
    UpstreamError,
)

_ENDED_BY_US = frozenset(("draining", "cut", "shutting_down"))
_NOT_HERE = frozenset(
    ("context_length_exceeded", "dialect_not_spoken", "would_lose", "image_url_refused", "unsupported_input")
)
"""Codes of requests that are too long for a tier, have what its model does not take, or cannot be written for it."""


class HealthEffect(StrEnum):
    """What a failure says of the tier's health; its circuit counts."""

    WELL = "well"
    UNKNOWN = "unknown"
    FAULT = "fault"
    HANGS = "hangs"


class Rule(NamedTuple):
    moves_on: bool
    """Whether the next tier is tried, as long as the client has no byte of an answer."""
    health: HealthEffect
    why: str


BY_STATUS: Mapping[int, Rule] = {
    400: Rule(False, HealthEffect.WELL, "the request itself is wrong, for every tier"),
    401: Rule(True, HealthEffect.FAULT, "the tier's key is missing or wrong; another tier has its own"),
    402: Rule(True, HealthEffect.FAULT, "the tier's account has no credit"),
    403: Rule(True, HealthEffect.FAULT, "the tier's key may not use the model"),
    404: Rule(True, HealthEffect.FAULT, "the tier has no such model or path"),
    405: Rule(True, HealthEffect.FAULT, "the tier has no such path"),
    406: Rule(False, HealthEffect.WELL, "the client accepts no format in which an answer comes"),
    407: Rule(True, HealthEffect.FAULT, "a proxy before the tier wants a key"),
    408: Rule(True, HealthEffect.FAULT, "the tier gave up waiting"),
    409: Rule(True, HealthEffect.UNKNOWN, "the tier's own state conflicts with the request"),
    410: Rule(True, HealthEffect.FAULT, "the tier's model was withdrawn"),
    411: Rule(False, HealthEffect.WELL, "the request itself is wrong"),
    413: Rule(True, HealthEffect.WELL, "longer than this tier accepts; another tier may accept more"),
    414: Rule(False, HealthEffect.WELL, "the request itself is wrong"),
    415: Rule(False, HealthEffect.WELL, "the body's type is the client's choice"),
    417: Rule(False, HealthEffect.WELL, "the request itself is wrong"),
    422: Rule(False, HealthEffect.WELL, "a field of the request is wrong, for every tier"),
    425: Rule(True, HealthEffect.UNKNOWN, "the tier does not accept it yet"),
    429: Rule(True, HealthEffect.UNKNOWN, "the tier has a limit of its own; Retry-After says until when it is skipped"),
    451: Rule(True, HealthEffect.WELL, "the tier may not answer it for legal reasons; another tier may"),
}
"""HTTP statuses below 500. Every other status moves on."""
_OTHER_STATUS = Rule(True, HealthEffect.UNKNOWN, "another tier may accept it")
_OURS = Rule(False, HealthEffect.UNKNOWN, "Stoker itself ended the request")
_WRONG = Rule(True, HealthEffect.WELL, "the answer was wrong or empty, which says nothing about the tier's health")
_HUNG = Rule(True, HealthEffect.HANGS, "no byte of an answer came in time")
_ELSEWHERE = Rule(True, HealthEffect.WELL, "this tier cannot serve the request; another tier may")
_BUSY = Rule(True, HealthEffect.UNKNOWN, "the tier is busy")
_BROKEN = Rule(True, HealthEffect.FAULT, "the tier failed")


def rule_for(error: StokerError) -> Rule:
    """Every error has a rule."""
    if not isinstance(error, ClientError | CapacityError | UpstreamError | StartFailed):
        return _OURS  # 1
    if isinstance(error, CapacityError) and error.code in _ENDED_BY_US:
        return _OURS  # 1
    if error.code in (REJECTED, EMPTY_ANSWER):
        return _WRONG  # 2
    if error.code == FIRST_BYTE:
        return _HUNG  # 3
    if isinstance(error, ClientError):
        if error.code in _NOT_HERE:
            return _ELSEWHERE  # 4
        return BY_STATUS.get(error.status, _OTHER_STATUS)  # 5
    return _BUSY if isinstance(error, CapacityError) else _BROKEN  # 6, 7
