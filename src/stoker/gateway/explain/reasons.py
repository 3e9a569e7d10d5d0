"""Error codes in words, for people who look at a request afterwards. docs/reference/http.md has all codes."""

from __future__ import annotations

REASONS = {
    "bad_field": "a field of the request has a wrong value",
    "bad_json": "the request is not JSON",
    "bad_model": "the request's 'model' has a wrong type",
    "body_too_large": "the request is larger than body_limit",
    "busy": "no place was free",
    "bad_option": "the engine does not know an option",
    "bad_weights": "the weights are damaged",
    "cannot_load": "the serve cannot load until its files or its configuration change",
    "cannot_start": "the serve cannot start",
    "class_not_allowed": "the key may not use this class",
    "context_length_exceeded": "the prompt does not fit the context",
    "output_limit_too_high": "the engine refused the output limit, which the prompt leaves no room for",
    "cut": "Stoker ended it: its place was needed, or an operator cancelled it",
    "dialect_not_spoken": "the serve does not speak this API, and it cannot be translated",
    "draining": "Stoker or the serve was draining",
    "empty_answer": "the answer had no text, no tool call and no refusal",
    "exited": "the engine exited",
    "failed_verification": "every tier's answer failed the checks",
    "first_byte_timeout": "no answer began in time",
    "key_limit": "the key has as many requests in flight as it may",
    "no_fit": "the serve does not fit its slot",
    "no_place": "no place was free",
    "no_tier": "no tier may serve the class",
    "not_spoken": "the serve does not speak this API",
    "parked": "the serve is parked: it is not started again by a request",
    "queue_bytes": "the bodies of waiting requests took too much memory",
    "queue_full": "its queue was full",
    "queue_timeout": "no place became free within queue_timeout",
    "rate_limit_exceeded": "a limit of the key was reached",
    "rate_limited": "every tier that may serve it asked for a pause",
    "request_exceeds_limit": "the request alone is more than a limit of the key",
    "shutting_down": "Stoker was shutting down",
    "stalled": "nothing was sent for longer than the stall timeout",
    "start_failed": "the serve did not start",
    "stopped": "the serve was stopped",
    "swap_timeout": "it was not loaded within swap_timeout",
    "unknown_class": "there is no such class",
    "unknown_model": "no serve has this name",
    "unsupported_architecture": "the engine does not know the model's architecture",
    "unsupported_backend": "the engine's attention backend cannot run here",
    "unsupported_quantization": "the engine cannot run this quantisation here",
    "unreachable": "the serve could not be reached",
    "upstream_auth": "the serve refused Stoker's key",
    "upstream_broke": "the engine closed the connection",
    "upstream_busy": "the engine had too much to do",
    "upstream_error": "the engine answered with an error",
    "unsupported_input": "the model takes no such input: images, audio or video",
    "upstream_refused": "the engine refused the request",
    "would_lose": "the translation would lose something, and it is strict",
}


def in_words(code: str) -> str:
    """`queue_full (its queue was full)`; a code that has no words stays alone."""
    words = REASONS.get(code)
    return code if words is None else f"{code} ({words})"
