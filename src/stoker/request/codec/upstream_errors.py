"""What an engine's error frame, or a 200 that holds no answer, means to the client."""

from __future__ import annotations

import re
from typing import Any

from stoker.domain.errors import (
    CapacityError,
    ClientError,
    OutputLimitTooHigh,
    StokerError,
    UnsupportedInput,
    UpstreamError,
)
from stoker.request.codec.context_overflow import CODE, overflow_of
from stoker.request.codec.retry_advice import NO_CREDIT
from stoker.request.codec.upstream_messages import HINT, message_of

_MEDIA = "(image|audio|video)"
_SAID = re.compile(
    rf"{_MEDIA} input is not (?:supported|enabled)"  # llama.cpp, Mistral
    rf"|\bAt most 0 {_MEDIA}\(s\) may be provided|is not a multimodal model"  # vLLM
    rf"|missing data required for {_MEDIA} input|\bdoes not support {_MEDIA}"  # Ollama, LM Studio
    rf"|\bNo endpoints found that support (?:input )?{_MEDIA}"  # OpenRouter
    rf"|\b{_MEDIA}_url is only supported by certain models|unknown variant `{_MEDIA}_url`"  # OpenAI, DeepSeek
    r"|\bOnly 'text' content type is supported",  # mlx-lm
    re.IGNORECASE,
)
_MOST_READ = 4096


def refused_input(message: str) -> UnsupportedInput | None:
    """The error for an engine's message that its model takes no such input; None: it is about something else."""
    found = _SAID.search(message[:_MOST_READ])
    if found is None:
        return None
    return UnsupportedInput(next((kind.lower() for kind in found.groups() if kind), "media"))


KEY_REFUSED_STATUSES = (401, 403, 407)
"""Statuses by which a serve rejects Stoker's key."""
_SURE = frozenset((402, *KEY_REFUSED_STATUSES))
"""Statuses whose word counts more than a number beside it."""
_OVERLOADED = (429, 503, 529)
_STATUS_OF = {
    "invalid_request_error": 400, "invalid_prompt": 400, CODE: 400, "invalid_image": 400, "invalid_image_url": 400,
    "authentication_error": 401, "invalid_api_key": 401, "billing_error": 402, NO_CREDIT: 402, "permission_error": 403,
    "rate_limit_error": 429, "rate_limit_exceeded": 429, "overloaded_error": 503, "server_is_overloaded": 503,
    "slow_down": 503,
}  # fmt: skip
"""The HTTP status that a word means in an error frame, whose own status was 200."""
_NUMBER = re.compile("[45][0-9]{2}")
_RECORDED = frozenset((*_STATUS_OF, OutputLimitTooHigh.code, "upstream_refused", "upstream_error", "upstream_busy"))
"""A serve's error codes that may be recorded: any other code could repeat a prompt."""


_REQUEST_FAULTS = re.compile(
    r"^Failed to parse (?:tool call arguments|messages|tools)\b|^Invalid tool_choice\b"  # llama.cpp
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


def is_request_fault(message: str) -> bool:
    """Whether an engine's message is about the request, whatever its status says."""
    return _REQUEST_FAULTS.search(message[:_MOST_READ]) is not None


def is_about_seals(error: StokerError) -> bool:
    """Whether a vendor refuses a request for its past thinking: without that, it might take it."""
    return error.status == 400 and _SEALS.search(error.message[:_MOST_READ]) is not None


def whole_error(payload: dict[str, Any]) -> StokerError:
    """What a 200 means whose body is an error: what an error frame would."""
    error = as_error(payload)
    if error.code != "upstream_error":
        return error
    problem = no_answer("is an error")
    problem.upstream_message = error.upstream_message
    return problem


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
    """An error frame: a truthy `error` (OpenAI), type `error` (Messages, Responses), or object `error` (vLLM)."""
    return bool(payload.get("error")) or payload.get("type") == "error" or payload.get("object") == "error"


def failure_of(payload: dict[str, Any]) -> dict[str, Any]:
    """The error object in the terminal event of a failed response; never empty."""
    response = payload.get("response")
    given = response.get("error") if isinstance(response, dict) else None
    if isinstance(given, str):
        given = {"message": given}
    return given if isinstance(given, dict) and given else {"code": "server_error"}


def as_error(payload: dict[str, Any]) -> StokerError:
    """What an error frame means: what a reply with the same HTTP status would. A client's error has the serve's
    message; any other error has it as its reason.
    """
    error = payload.get("error")
    source = error if isinstance(error, dict) else payload
    message = message_of(payload)
    if (overflow := overflow_of(message, source)) is not None:
        return overflow
    if (unsupported := refused_input(message)) is not None:
        return unsupported
    status = _status_of(source)
    if status in KEY_REFUSED_STATUSES:
        return key_refused("an authentication error")
    if status in _OVERLOADED:
        busy = CapacityError("the serve is overloaded", code="upstream_busy", upstream_message=message)
        busy.status = 429 if status == 429 else busy.status
        return busy
    if status == 402:
        text, whose = (message, "upstream") if message else ("the account at the serve has no credit", "stoker")
        return ClientError(text, code=NO_CREDIT, status=402, source=whose)
    if message and (400 <= status < 500 or is_request_fault(message)):
        status = status if 400 <= status < 500 else 400
        return ClientError(message, code="upstream_refused", status=status, source="upstream")
    return UpstreamError(
        f"the serve reported an error in its stream{HINT}", code="upstream_error", upstream_message=message
    )


def _status_of(source: dict[str, Any]) -> int:
    """The HTTP status that an error object means; 0: it does not say. A word about a key or credit says more than the
    number beside it.
    """
    given = [source.get(name) for name in ("code", "type", "status", "status_code")]
    meant = [_STATUS_OF[word] for word in given if isinstance(word, str) and word in _STATUS_OF]
    if sure := [status for status in meant if status in _SURE]:
        return sure[0]
    numbers = [int(one) for one in given if type(one) is int or (isinstance(one, str) and _NUMBER.fullmatch(one))]
    return next((status for status in (*numbers, *meant) if 400 <= status < 600), 0)


def recorded_code(error: StokerError) -> str:
    return error.code if error.source == "stoker" or error.code in _RECORDED else "upstream_refused"


def key_refused(what: str) -> UpstreamError:
    """The error for a serve that rejects Stoker's key. It hides the serve's message: the key is not the client's."""
    return UpstreamError(
        f"the serve rejected Stoker's key ({what}): check the `key` in its configuration", code="upstream_auth"
    )
