"""Which error a serve's failure becomes for the client.

A 4xx is the client's fault and passes through unchanged, except 401, 403 and 407, which mean that Stoker's key for the
serve is wrong. A 500 whose message is about the request becomes a 400, and so does every
reply which says that the model takes no images, audio or video. The text of other 5xx may be shown to clients,
but is never stored: it could repeat a prompt.
Redirects are not followed: they could lead anywhere.
"""

from __future__ import annotations

from stoker.domain.errors import CapacityError, ClientError, StokerError, UpstreamError
from stoker.request.codec.context_overflow import overflow_of
from stoker.request.codec.retry_advice import NO_CREDIT
from stoker.request.codec.tolerant_json import read
from stoker.request.codec.upstream_errors import KEY_REFUSED_STATUSES, is_request_fault, key_refused, refused_input
from stoker.request.codec.upstream_messages import HINT, reason_of
from stoker.request.relay.headers import retry_after

PAUSES = (429, 503, 529)
"""Statuses with which a serve may ask for a pause (Retry-After)."""


def from_status(status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> StokerError | None:
    """The error for this status; None: the reply passes through unchanged."""
    if status in KEY_REFUSED_STATUSES:
        return key_refused(f"HTTP {status}")
    if 300 <= status < 400:
        text = f"the serve answered with a redirect (HTTP {status}), which is not followed: check its address"
        return UpstreamError(text, code="upstream_redirect")
    if status < 500:
        return None
    message, pause = reason_of(body), retry_after(headers)
    if status in (500, 501) and (unsupported := refused_input(message)) is not None:
        return unsupported
    if status == 500 and is_request_fault(message):
        return ClientError(message, code="upstream_refused", source="upstream")
    if status in (503, 529):
        text = f"the serve is busy or loading (HTTP {status})"
        seconds = 1.0 if pause is None else pause
        return CapacityError(text, code="upstream_busy", retry_after=seconds, upstream_message=message)
    text = f"the serve failed with HTTP {status}{HINT}"
    return UpstreamError(text, code="upstream_error", retry_after=pause, upstream_message=message)


def refused(status: int, body: bytes) -> StokerError:
    """A 4xx for a client whose stream was committed already."""
    text = f"the serve refused the request with HTTP {status}"
    return UpstreamError(text, code="upstream_refused", status=status, upstream_message=reason_of(body))


def unusable(what: str) -> StokerError:
    return UpstreamError(f"the serve {what}", code="upstream_unusable")


def stalled(silent: float) -> StokerError:
    return UpstreamError(f"the serve sent nothing for {silent:.0f} s (stall_timeout)", code="stalled", status=504)


def unread(silent: float) -> StokerError:
    return ClientError(f"the client read nothing for {silent:.0f} s", code="stalled", status=408)


def refusal_of(status: int, body: bytes, retry_after: float | None = None) -> StokerError:
    """`status` is 400 to 499. `retry_after`: seconds for which the serve asked for a pause."""
    found = read(body)
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
