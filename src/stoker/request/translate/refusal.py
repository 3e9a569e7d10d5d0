"""A serve's 4xx, to be told in the caller's dialect: its own words, its own status."""

from __future__ import annotations

from typing import Any

from stoker.domain.errors import CapacityError, ClientError, StokerError
from stoker.request.translate.json_text import loose

MOST = 1000
"""Characters of its words that are kept."""


def refusal_of(status: int, body: bytes, retry_after: bytes = b"") -> StokerError:
    """`status` is 400 to 499."""
    found = loose(body)
    text = message_of(found) or f"the serve refused the request with HTTP {status}"
    if status == 429:
        seconds = min(float(retry_after), 3600.0) if retry_after.isdigit() else 1.0
        error = CapacityError(text, code="upstream_busy", retry_after=seconds)
        error.status = 429
        return error
    inner = found.get("error") if isinstance(found, dict) else None
    code = inner.get("code") if isinstance(inner, dict) else None
    known = code if isinstance(code, str) and code.isascii() and code.isidentifier() else "upstream_refused"
    return ClientError(text, code=known[:64], status=status)


def message_of(found: Any, depth: int = 4) -> str:
    """OpenAI's and Anthropic's `error.message`, FastAPI's `detail` (a text, or a list with `msg`), and what others
    write.
    """
    if isinstance(found, str):
        return found[:MOST]
    if isinstance(found, list):
        found = found[0] if found else None
    if not isinstance(found, dict) or not depth:
        return ""
    texts = (message_of(found.get(name), depth - 1) for name in ("error", "message", "detail", "msg"))
    return next((text for text in texts if text), "")
