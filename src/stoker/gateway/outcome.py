"""How a request ended: what its decision says, and what its client gets after a failure."""

from __future__ import annotations

from typing import Final

from stoker.domain.decision import Decision
from stoker.domain.errors import CapacityError, OurBug, StartFailed, StokerError, UpstreamError
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.upstream_errors import recorded_code

_SILENCE: Final = (408, 504)
"""Statuses of `stalled`: the client, or the serve, was silent for too long."""
_SPEECH: Final = "/v1/audio/speech"
"""Its answer comes in pieces, although no stream is asked for."""


def first_token(context: RequestContext) -> float | None:
    """Seconds from a request's arrival to the first piece of its answer. None: there is none yet, the answer comes
    whole, so that its first piece is its end, or it is an error.
    """
    first, decision = context.reply.first_byte_at, context.decision
    comes_in_pieces = decision.stream or decision.endpoint == _SPEECH
    if first is None or not comes_in_pieces or context.reply.status >= 400:
        return None
    return first - context.received_at


def record_answer(context: RequestContext) -> None:
    """The reply is complete. If it is the serve's own error, it is recorded as such."""
    reply = context.reply
    decision: Decision = context.decision
    if reply.error is not None:
        decision.outcome, decision.reason = _outcome(reply.error), recorded_code(reply.error)
    else:
        decision.outcome = "served" if reply.status < 400 else "refused"


def report_failure(context: RequestContext, error: StokerError) -> None:
    """The request failed. Record why, and tell the client, if it is still there."""
    decision: Decision = context.decision
    decision.reason = recorded_code(error)
    if isinstance(error, StartFailed):
        decision.remedy = error.remedy
    if context.is_abandoned:
        decision.outcome = "client_left"
        context.reply.abandon()
        return
    decision.outcome = _outcome(error)
    if decision.outcome == "refused" and context.reply.first_byte_at is not None:
        decision.outcome = "upstream_failed"  # the client has already received a part of an answer
    context.reply.fail(error, close=decision.model == "")


def _outcome(error: StokerError) -> str:
    """1. ended by Stoker or by silence  2. a bug  3. the serve failed, or did not start  4. the serve or Stoker refused

    The code of a serve's own error does not count, because it is not one of Stoker's codes.
    """
    is_cut = error.code == "cut" and isinstance(error, CapacityError)
    if is_cut or (error.code == "stalled" and error.status in _SILENCE):
        return error.code
    if isinstance(error, OurBug):
        return "bug"
    return "upstream_failed" if isinstance(error, UpstreamError | StartFailed) else "refused"
