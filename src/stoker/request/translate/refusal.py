"""A serve's 4xx as an error for the client: the serve's message and status, in the client's dialect."""

from __future__ import annotations

from stoker.domain.errors import CapacityError, ClientError, StokerError
from stoker.request.codec.context_overflow import overflow_of
from stoker.request.codec.retry_advice import NO_CREDIT
from stoker.request.codec.unsupported_input import refused_input
from stoker.request.codec.upstream_messages import reason_of
from stoker.request.translate.neutral.json_text import loose


def refusal_of(status: int, body: bytes, retry_after: float | None = None) -> StokerError:
    """`status` is 400 to 499. `retry_after`: seconds for which the serve asked for a pause."""
    found = loose(body)
    said = reason_of(body)
    text, source = (said, "upstream") if said else (f"the serve refused the request with HTTP {status}", "stoker")
    inner = found.get("error") if isinstance(found, dict) else None
    code = inner.get("code") if isinstance(inner, dict) else None
    if status == 429 and code != NO_CREDIT:
        seconds = 1.0 if retry_after is None else retry_after
        error = CapacityError(text, code="upstream_busy", retry_after=seconds, source=source)
        error.status = 429
        return error
    if said and status in (400, 413, 422) and (overflow := overflow_of(said, inner)) is not None:
        return overflow
    if (unsupported := refused_input(said)) is not None:
        return unsupported
    known = code if isinstance(code, str) and code.isascii() and code.isidentifier() else "upstream_refused"
    return ClientError(text, code=known[:64], status=status, retry_after=retry_after, source=source)
