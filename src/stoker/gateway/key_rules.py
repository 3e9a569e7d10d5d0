"""What a caller's key says about one request: its context, its limits, and whether it is a background request."""

from __future__ import annotations

from stoker.access.caller import Caller
from stoker.domain.dialect import ApiFamily, Endpoint
from stoker.domain.key import Priority
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.body_fields import BodyFields

PREEMPTIBLE_HEADER = b"x-stoker-preemptible"
"""`true`: the client allows Stoker to end a background request when a more important one needs its place."""


def apply_rules(context: RequestContext, caller: Caller, endpoint: Endpoint, fields: BodyFields, size: int) -> None:
    """Set the call's share and context, and reserve tokens of its key's limits. Raises ClientError 429."""
    share = context.share
    context.max_context = caller.key.context
    if fields.service_tier == "flex" and share.priority is not Priority.BACKGROUND:
        context.share = share = share._replace(priority=Priority.BACKGROUND)
    if share.priority is Priority.BACKGROUND:
        context.may_be_preempted = context.exchange.headers.get(PREEMPTIBLE_HEADER, b"").strip().lower() == b"true"
    if context.charge is not None:
        writes = endpoint.has_tokens and bool(endpoint.dialect.spec.limits)
        # audio and images are not counted in tokens: their size does not tell their cost
        context.charge.reserve_tokens(0 if endpoint.is_media else size, fields.output_budget() if writes else 1)
        show_limits(context, caller)


def show_limits(context: RequestContext, caller: Caller) -> None:
    """Writes what is left of the key's limits into the reply's headers."""
    dialect = context.reply.dialect
    for name, value in caller.rate_headers(dialect is not None and dialect.spec.api is ApiFamily.ANTHROPIC):
        context.reply.set_header(name, value)
