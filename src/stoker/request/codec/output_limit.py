"""Lowers the output limit of a request to the room that its prompt leaves in the context.

llama.cpp answers until its context is full, whatever the limit. vLLM, SGLang and clouds refuse a limit above the room,
though the prompt fits, and agents take such a refusal for a prompt that is too long.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stoker.domain.dialect import Dialect
from stoker.request.codec.body_fields import BodyFields, locate_all
from stoker.request.codec.edits import put

_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_LOWERED: Final = frozenset((*_LIMITS, "min_tokens"))
"""vLLM and SGLang want `min_tokens` at most at the limit."""
LIMIT_OF: Final = {
    Dialect.RESPONSES: "max_output_tokens",
    Dialect.OLLAMA_CHAT: "num_predict",
    Dialect.OLLAMA_GENERATE: "num_predict",
}
"""What clients call the limit; in other dialects `max_tokens`."""
LEAST_THINKING: Final = 1024
"""The smallest `budget_tokens` of Anthropic's API, which has to be below `max_tokens`."""


def lower_output_limit(
    body: bytes, fields: BodyFields, dialect: Dialect, room: int
) -> tuple[bytes, BodyFields, tuple[str, ...]]:
    """The body with no limit above `room` (at least 1), its fields (a copy if anything changed), and the names of what
    was lowered. `fields` is what `read_body_fields` returned for `body`. A thinking budget of Messages goes below the
    limit, or thinking is switched off if that leaves too little for it.
    """
    names = {*_LOWERED, "thinking"} if dialect is Dialect.MESSAGES else _LOWERED
    lowered: list[str] = []
    for name, _, start, end in reversed(locate_all(body, names)):  # back to front: earlier offsets stay valid
        given = msgspec.json.decode(body[start:end])
        value = _less_thinking(given, room) if name == "thinking" else _at_most(given, room)
        if value is not None:
            body = put(body, start, end, msgspec.json.encode(value))
            lowered.append(name)
    if not lowered:
        return body, fields, ()
    fields = fields.copy()
    fields.model_at = None
    for name in _LIMITS:  # a translated request has its limit under the client's name here
        if _at_most(getattr(fields, name), room) is not None:
            setattr(fields, name, room)
    return body, fields, tuple(reversed(lowered))


def _at_most(given: Any, room: int) -> int | None:
    """The new value; None: it stays."""
    is_count = isinstance(given, int | float) and not isinstance(given, bool)
    return room if is_count and given > room else None


def _less_thinking(given: Any, room: int) -> dict[str, Any] | None:
    if not isinstance(given, dict) or given.get("type") != "enabled":
        return None
    budget = _at_most(given.get("budget_tokens"), room - 1)
    if budget is None:
        return None
    return {**given, "budget_tokens": budget} if budget >= LEAST_THINKING else {"type": "disabled"}
