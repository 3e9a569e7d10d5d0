"""What is kept, as the documents of /admin/captures. Secrets are hidden here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from stoker.domain.decision import Decision
from stoker.domain.errors import ClientError, StokerError
from stoker.request.codec.content_coding import PLAIN, ContentDecoder
from stoker_capture.redaction import hidden
from stoker_capture.store import Capture, CaptureStore, Message

LISTED = 1000


def list_document(store: CaptureStore) -> dict[str, object]:
    """The newest first, at most LISTED."""
    return {
        "memory": store.limit,
        "used": store.used,
        "captures": [summary(request, capture) for request, capture in islice(store.newest(), LISTED)],
    }


def one_document(store: CaptureStore, request: str, redacted: Callable[[str], str]) -> dict[str, object]:
    """`redacted`: hides the secrets that Stoker knows. Raises ClientError 404."""
    capture = store.get(request)
    if capture is None:
        why = "it is too old, or there was none" if store.limit else "[capture] memory is not set"
        text = f"what request {request[:80]!r} said is not kept: {why}"
        raise ClientError(text, code="unknown_request", status=404)
    calls = [
        {"serve": call.serve, "request": _shown(call.request, redacted), "answer": _shown(call.answer, redacted)}
        for call in capture.calls
    ]
    return {
        **summary(request, capture),
        "client": {"request": _shown(capture.request, redacted), "answer": _shown(capture.answer, redacted)},
        "calls": calls,
        "more_calls": capture.more_calls,
    }


def summary(request: str, capture: Capture) -> dict[str, object]:
    decision = capture.facts
    assert isinstance(decision, Decision)
    return {
        "request": request, "at": decision.at, "endpoint": decision.endpoint, "model": decision.model,
        "serve": decision.serve, "key": decision.key, "status": decision.status, "bytes": capture.bytes,
    }  # fmt: skip


def _shown(message: Message, redacted: Callable[[str], str]) -> dict[str, object]:
    text, note = _text(message)
    if text is not None:
        text = redacted(hidden(text))
    return {
        "line": redacted(message.line),
        "headers": [[name, redacted(value)] for name, value in message.headers],
        "body": text,
        "size": message.size,
        "cut": message.is_cut,
        "note": note,
    }


def _text(message: Message) -> tuple[str | None, str]:
    """The body, and what there is to say about it."""
    if message.is_elsewhere:
        return None, "a form with files, of which nothing is kept"
    data = bytes(message.body)
    note = f"cut: the first {len(data)} of {message.size} bytes are kept" if message.is_cut else ""
    coding = next((value for name, value in message.headers if name == "content-encoding"), "").lower().encode()
    if coding not in PLAIN:
        try:
            data = ContentDecoder(coding).feed(data)
        except StokerError:
            return None, f"{message.size} bytes, compressed as {coding.decode('latin-1')[:40]}, which cannot be shown"
    try:
        return data.decode(), note
    except UnicodeDecodeError as error:
        if message.is_cut and error.start >= len(data) - 3:  # within a character
            return data[: error.start].decode(), note
        return None, f"{message.size} bytes that are no text"
