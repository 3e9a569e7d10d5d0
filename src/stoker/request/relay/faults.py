"""What a serve's failure becomes for the caller.

An upstream 4xx is the caller's own doing and goes through as it is, except 401, 403 and 407: those mean that Stoker's
key for the serve is wrong. A 5xx gets Stoker's words; its body may echo a prompt, so it is kept nowhere.
"""

from __future__ import annotations

from stoker.domain.errors import CapacityError, ClientError, StokerError, UpstreamError
from stoker.request.relay.headers import retry_after

PAUSES = (429, 503, 529)
"""Statuses with which a serve may ask for a pause (Retry-After)."""


def from_status(status: int, headers: list[tuple[bytes, bytes]]) -> StokerError | None:
    """The error for this status; None: the reply goes through as it is."""
    if status in (401, 403, 407):
        text = f"the serve refused Stoker's key for it (HTTP {status}): check the serve's `key`"
        return UpstreamError(text, code="upstream_auth")
    if status < 500:
        return None
    if status in (503, 529):
        given = retry_after(headers)
        seconds = 1.0 if given is None else given
        return CapacityError(f"the serve is busy or loading (HTTP {status})", code="upstream_busy", retry_after=seconds)
    return UpstreamError(f"the serve failed with HTTP {status}; its own log may say why", code="upstream_error")


def refused(status: int) -> StokerError:
    """A 4xx for a client whose stream was committed already."""
    return UpstreamError(f"the serve refused the request with HTTP {status}", code="upstream_refused", status=status)


def unusable(what: str) -> StokerError:
    return UpstreamError(f"the serve {what}", code="upstream_unusable")


def stalled(silent: float) -> StokerError:
    return UpstreamError(f"the serve sent nothing for {silent:.0f} s (stall_timeout)", code="stalled", status=504)


def unread(silent: float) -> StokerError:
    return ClientError(f"the client took nothing for {silent:.0f} s", code="stalled", status=408)
