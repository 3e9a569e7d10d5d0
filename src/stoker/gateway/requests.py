"""The requests in flight: what each of them does now. Topic `requests` of GET /events."""

from __future__ import annotations

from typing import Any

from stoker.exchange.request_context import RequestContext
from stoker.gateway.flow import Flow
from stoker.gateway.outcome import first_token

MAX_LISTED = 500
"""Requests that are told; those that arrived first."""


class RequestsInFlight:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def document(self) -> dict[str, Any]:
        """`requests` by id, and the `count` of all. Nothing in it changes by itself: clients count the seconds."""
        active = self._flow.active
        shown = [call for call, _ in zip(active.values(), range(MAX_LISTED), strict=False)]
        return {"count": len(active), "requests": {call.decision.id: _entry(call) for call in shown}}


def _entry(context: RequestContext) -> dict[str, Any]:
    decision = context.decision
    entry = {
        "at": decision.at, "endpoint": decision.endpoint, "model": decision.model, "key": decision.key,
        "serve": decision.serve, "replica": decision.replica, "stream": decision.stream, "state": _state(context),
        "attempts": decision.attempts, "queued": decision.queued,
    }  # fmt: skip
    if (first := first_token(context)) is not None:
        entry["ttft"] = round(first, 3)
    if decision.routed is not None:
        entry |= {"class": decision.routed.task, "tier": decision.routed.tier}
    return {name: value for name, value in entry.items() if value not in ("", None)}


def _state(context: RequestContext) -> str:
    """`reading` (its body, or what it asks for), `waiting` (for a place or a load), `prompt` (the engine reads it, no
    answer yet), `answering`.
    """
    if context.waiting is not None:
        return "waiting"
    if context.relay is None:
        return "reading"
    return "prompt" if context.reply.first_byte_at is None else "answering"
