"""The headers by which clients see how much of a limit is left, as OpenAI and Anthropic send them.

`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`     reset: a duration such as `6m0s`
`anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`     reset: a time, RFC 3339

Where several limits count the same, the one with the smallest share left is shown. Limits on money have no header.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from stoker.access.limits import LimitState

_OPENAI = {"requests": "requests", "tokens": "tokens", "input tokens": "tokens", "output tokens": "tokens"}
_ANTHROPIC = {
    "requests": "requests", "tokens": "tokens", "input tokens": "input-tokens", "output tokens": "output-tokens",
}  # fmt: skip

Headers = list[tuple[bytes, bytes]]


def rate_headers(states: Iterable[LimitState], at: float, is_messages: bool) -> Headers:
    """`at`: Unix time now. `is_messages`: for a client of the Anthropic Messages API."""
    tightest: dict[str, LimitState] = {}
    names = _ANTHROPIC if is_messages else _OPENAI
    for state in states:
        name = names.get(state.rule.unit)
        if name is None:
            continue
        known = tightest.get(name)
        if known is None or state.remaining / state.limit < known.remaining / known.limit:
            tightest[name] = state
    found: Headers = []
    for name, state in tightest.items():
        limit, remaining = b"%d" % state.limit, b"%d" % state.remaining
        if is_messages:
            reset = datetime.fromtimestamp(state.reset_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
            prefix = b"anthropic-ratelimit-" + name.encode()
            found += [(prefix + b"-limit", limit), (prefix + b"-remaining", remaining), (prefix + b"-reset", reset)]
        else:
            tail = name.encode()
            found += [
                (b"x-ratelimit-limit-" + tail, limit),
                (b"x-ratelimit-remaining-" + tail, remaining),
                (b"x-ratelimit-reset-" + tail, _duration(max(0.0, state.reset_at - at))),
            ]
    return found


def _duration(seconds: float) -> bytes:
    """As OpenAI writes them: `90ms`, `12s`, `6m0s`, `3h25m0s`."""
    if seconds < 1:
        return b"%dms" % round(seconds * 1000)
    whole = round(seconds)
    if whole < 60:
        return b"%ds" % whole
    if whole < 3600:
        return b"%dm%ds" % divmod(whole, 60)
    return b"%dh%dm%ds" % (whole // 3600, whole % 3600 // 60, whole % 60)
