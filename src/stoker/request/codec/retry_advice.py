"""Whether the same request, sent again, may succeed: what `x-should-retry` tells a client. Pure.

1. the error's code has an entry in BY_CODE   -> that
2. its HTTP status is one of MAY_PASS         -> yes
3. any other status                           -> no

The official OpenAI and Anthropic SDKs, and the agents that are built on them, do what the header says. They try again
a few times, with growing pauses, and wait as long as Retry-After says.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.errors import CANNOT_LOAD, LASTING, StokerError

NO_CREDIT = "insufficient_quota"
"""Code of an error that says: the account at the serve has no credit."""
MAY_PASS: Mapping[int, str] = {
    408: "somebody waited too long",
    409: "the serve's own state stood in the way",
    425: "too early",
    429: "a limit, which time lifts",
    500: "a failure",
    502: "the serve failed, broke off, or gave no answer",
    503: "busy, loading, or down",
    504: "the serve was silent for too long",
    529: "overloaded, or draining",
}
BY_CODE: Mapping[str, bool] = {
    "upstream_auth": False,  # until the operator corrects the key
    "upstream_redirect": False,  # until the operator corrects the address
    "project_conflict": False,  # the client has to read the files again
    "not_resumable": False,
    NO_CREDIT: False,  # OpenAI says so with status 429
    **dict.fromkeys((CANNOT_LOAD, *LASTING), False),  # until somebody changes a file or the configuration
}
"""Codes whose status says something else."""


def may_retry(error: StokerError) -> bool:
    """Whether a repeated request may succeed, with nothing changed."""
    advice = BY_CODE.get(error.code)
    return error.status in MAY_PASS if advice is None else advice
