"""After which failures of a serve its `fallback` is asked. Pure.

1. its model does not fit on its device                                  -> memory
2. it has no room for the request, or asks for a pause                   -> busy
3. it failed, or takes no requests: not started, parked, held, rejected  -> unavailable
4. it refused with an HTTP status that says it cannot answer anybody     -> unavailable (`failover.BY_STATUS`)
5. the request is wrong, or was ended                                    -> none
"""

from __future__ import annotations

from stoker.domain.errors import BEYOND_THE_DEVICE, CapacityError, ClientError, StartFailed, StokerError, UpstreamError
from stoker.domain.serve import FallbackCause
from stoker.request.decide.failover import BY_STATUS, HealthEffect

BUSY = frozenset(("queue_full", "no_place", "queue_timeout", "swap_timeout", "busy", "upstream_busy"))
TAKES_NONE = frozenset(("draining", "unloaded", "fetching", "no_fit", "needs_force"))
"""Codes of a serve that has no place now, and of one that takes no request."""
_REQUEST_IS_WRONG = frozenset(("upstream_refused", "not_counted"))
_UPSTREAMS = frozenset(("upstream_refused", "insufficient_quota"))
"""Codes of a serve's own refusal, where it gave no message."""


def fallback_cause(error: StokerError, code: str) -> FallbackCause | None:
    """Why the fallback would answer. `code`: of the error, or of the serve's failure that caused it."""
    if code in BEYOND_THE_DEVICE:
        return FallbackCause.MEMORY  # 1
    if isinstance(error, CapacityError) and error.code in BUSY:
        return FallbackCause.BUSY  # 2
    if isinstance(error, ClientError) and (error.source == "upstream" or error.code in _UPSTREAMS):
        rule = BY_STATUS.get(error.status)
        is_serves_fault = rule is not None and rule.health is HealthEffect.FAULT
        return FallbackCause.UNAVAILABLE if is_serves_fault else None  # 4, 5
    if isinstance(error, CapacityError | ClientError):
        return FallbackCause.UNAVAILABLE if error.code in TAKES_NONE else None  # 3, 5
    if isinstance(error, UpstreamError) and error.code in _REQUEST_IS_WRONG:
        return None  # 5
    return FallbackCause.UNAVAILABLE if isinstance(error, UpstreamError | StartFailed) else None  # 3, 5
