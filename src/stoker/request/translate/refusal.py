"""A serve's 4xx as an error for the client: the serve's message and status, in the client's dialect."""

from __future__ import annotations

from stoker.domain.errors import CapacityError, ClientError, StokerError
from stoker.request.codec.context_overflow import overflow_of
from stoker.request.codec.upstream_messages import reason_of
from stoker.request.translate.neutral.json_text import loose


def refusal_of(status: int, body: bytes, retry_after: bytes = b"") -> StokerError:
    """`status` is 400 to 499."""
    found = loose(body)
    said = reason_of(body)
    text, source = (said, "upstream") if said else (f"the serve refused the request with HTTP {status}", "stoker")
    if status == 429:
        seconds = min(float(retry_after), 3600.0) if retry_after.isdigit() else 1.0
        error = CapacityError(text, code="upstream_busy", retry_after=seconds, source=source)
        error.status = 429
        return error
    inner = found.get("error") if isinstance(found, dict) else None
    if said and status in (400, 413, 422) and (overflow := overflow_of(said, inner)) is not None:
        return overflow
    code = inner.get("code") if isinstance(inner, dict) else None
    known = code if isinstance(code, str) and code.isascii() and code.isidentifier() else "upstream_refused"
    return ClientError(text, code=known[:64], status=status, source=source)
