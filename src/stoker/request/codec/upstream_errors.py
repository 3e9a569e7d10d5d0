"""What an engine's error frame, or a 200 that holds no answer, means to the client."""

from __future__ import annotations

import re
from typing import Any

from stoker.domain.errors import CapacityError, ClientError, OutputLimitTooHigh, StokerError, UpstreamError
from stoker.request.codec.context_overflow import CODE, overflow_of
from stoker.request.codec.upstream_messages import HINT, message_of

KEY_REFUSED_STATUSES = (401, 403, 407)
"""Statuses by which a serve rejects Stoker's key."""
_KEY_REFUSED = ("authentication_error", "permission_error", "invalid_api_key")
_BUSY = ("overloaded_error", "rate_limit_error", "rate_limit_exceeded", "server_is_overloaded")
_CALLERS = ("invalid_request_error", "invalid_prompt", CODE, "invalid_image", "invalid_image_url")
"""Error types that mean a client's error, in dialects whose frames carry no status."""
_RECORDED = frozenset(
    (*_CALLERS, OutputLimitTooHigh.code, *_BUSY, *_KEY_REFUSED, "upstream_refused", "upstream_error", "upstream_busy")
)
"""A serve's error codes that may be recorded: any other code could repeat a prompt."""


_REQUEST_FAULTS = re.compile(
    r"^Failed to parse (?:tool call arguments|messages|tools)\b|^Invalid tool_choice\b"  # llama.cpp
    r"|(?:image|audio|video) input is not supported"
    r"|^\s*-*\s*While executing \w+ at line|Jinja Exception:|Error rendering prompt with jinja template"
    r"|^Conversation roles must alternate|^Can only get item pairs from a mapping"  # vLLM, SGLang
)
"""Messages with which engines report a request that they cannot read, or that the model's template refuses, as a
failure of their own (HTTP 500). The same request would fail again, everywhere."""
_SEALS = re.compile(
    r"signature.{0,40}thinking|thinking.{0,80}(?:signature|cannot be modified|redacted_thinking)"
    r"|redacted_thinking|encrypted[ _]content|thought_signature|'rs_\w+'",
    re.IGNORECASE,
)
"""Messages of vendors about thinking that they did not sign or encrypt, or that is missing."""
_MOST_READ = 4096


def is_request_fault(message: str) -> bool:
    """Whether an engine's message is about the request, whatever its status says."""
    return _REQUEST_FAULTS.search(message[:_MOST_READ]) is not None


def is_about_seals(error: StokerError) -> bool:
    """Whether a vendor refuses a request for its past thinking: without that, it might take it."""
    return error.status == 400 and _SEALS.search(error.message[:_MOST_READ]) is not None


def with_reason(problem: UpstreamError, error: object) -> UpstreamError:
    """`problem`, with the message of the reply's `error` as its reason, unless the message is about a key."""
    said = as_error({"error": error})
    if said.code == "upstream_auth" and isinstance(said, UpstreamError):
        return said
    problem.upstream_message = message_of({"error": error})
    return problem


def no_answer(what: str) -> UpstreamError:
    """The error for a 200 that is no answer."""
    return UpstreamError(f"the serve answered HTTP 200, but the reply {what}{HINT}", code="upstream_unusable")


def is_error(payload: dict[str, Any]) -> bool:
    """An error frame: a truthy `error` (OpenAI), or type `error` (Messages, Responses)."""
    return bool(payload.get("error")) or payload.get("type") == "error"


def failure_of(payload: dict[str, Any]) -> dict[str, Any]:
    """The error object in the terminal event of a failed response; never empty."""
    response = payload.get("response")
    given = response.get("error") if isinstance(response, dict) else None
    if isinstance(given, str):
        given = {"message": given}
    return given if isinstance(given, dict) and given else {"code": "server_error"}


def as_error(payload: dict[str, Any]) -> StokerError:
    """What an error frame means. A client's error has the serve's message; any other error has it as its reason."""
    error = payload.get("error")
    source = error if isinstance(error, dict) else payload
    code = source.get("code")
    message = message_of(payload)
    if (overflow := overflow_of(message, source)) is not None:
        return overflow
    if type(code) is int and 400 <= code < 500 and code not in KEY_REFUSED_STATUSES and message:
        return ClientError(message, code="upstream_refused", status=code, source="upstream")
    word = code if isinstance(code, str) else source.get("type")
    if code in KEY_REFUSED_STATUSES or word in _KEY_REFUSED or source.get("type") in _KEY_REFUSED:
        return key_refused("an authentication error")
    if word in _BUSY:
        return CapacityError("the serve is overloaded", code="upstream_busy", upstream_message=message)
    if message and (word in _CALLERS or is_request_fault(message)):
        return ClientError(message, code="upstream_refused", source="upstream")
    return UpstreamError(
        f"the serve reported an error in its stream{HINT}", code="upstream_error", upstream_message=message
    )


def recorded_code(error: StokerError) -> str:
    return error.code if error.source == "stoker" or error.code in _RECORDED else "upstream_refused"


def key_refused(what: str) -> UpstreamError:
    """The error for a serve that rejects Stoker's key. It hides the serve's message: the key is not the client's."""
    return UpstreamError(
        f"the serve rejected Stoker's key ({what}): check the `key` in its configuration", code="upstream_auth"
    )
