"""What a caller's key says about one request: its context, its limits, and whether it is a background request."""

from __future__ import annotations

from stoker.access.caller import Caller
from stoker.domain.dialect import Dialect, Endpoint
from stoker.domain.key import Priority
from stoker.exchange.call import Call
from stoker.request.codec.body_fields import BodyFields

PREEMPTIBLE_HEADER = b"x-stoker-preemptible"
"""`true`: the client allows Stoker to end a background request when a more important one needs its place."""
_WITHOUT_TEXT = (Dialect.EMBEDDINGS, Dialect.RERANK, Dialect.OLLAMA_EMBED)


def apply_rules(call: Call, caller: Caller, endpoint: Endpoint, fields: BodyFields, size: int) -> None:
    """Set the call's share and context, and reserve tokens of its key's limits. Raises ClientError 429."""
    share = call.share
    call.context = caller.key.context
    if fields.service_tier == "flex" and share.priority is not Priority.BACKGROUND:
        call.share = share = share._replace(priority=Priority.BACKGROUND)
    if share.priority is Priority.BACKGROUND:
        call.may_be_preempted = call.wire.headers.get(PREEMPTIBLE_HEADER, b"").strip().lower() == b"true"
    if call.charge is not None:
        writes = endpoint.has_tokens and endpoint.dialect not in _WITHOUT_TEXT
        # audio and images are not counted in tokens: their size does not tell their cost
        call.charge.reserve_tokens(0 if endpoint.is_media else size, fields.output_budget() if writes else 1)
        show_limits(call, caller)


def show_limits(call: Call, caller: Caller) -> None:
    """Writes what is left of the key's limits into the reply's headers."""
    for name, value in caller.rate_headers(call.reply.dialect is Dialect.MESSAGES):
        call.reply.set_header(name, value)
