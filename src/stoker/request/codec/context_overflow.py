"""A prompt that does not fit: how engines report it, and the wording that clients recognise.

Agents compact their conversation, or ask for a shorter reply, if they recognise a full context, and give up otherwise.
Codex, Copilot CLI and the OpenAI SDKs look at the code; Claude Code reads the message of Anthropic's API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.domain.errors import ContextExceeded, OutputLimitTooHigh, StokerError
from stoker.request.codec.tolerant_json import NOT_JSON

CODE = ContextExceeded.code
_TYPES = frozenset((CODE, "exceed_context_size_error"))
"""Values of `code` or `type`: OpenAI and compatible servers; llama.cpp."""
_DIGITS = r"\d{1,12}"
_NUMBER = rf"\(?({_DIGITS})"
_MESSAGES = (
    re.compile(rf"prompt is too long(?:: {_NUMBER} tokens > {_NUMBER} maximum)?"),  # Anthropic
    re.compile(rf"(?:request|input) {_NUMBER} tokens\) (?:exceeds|is longer than) the (?:available|model's) context "
               rf"(?:size|length) {_NUMBER} tokens\)"),
    re.compile(rf"prompt \(length {_NUMBER}\) is longer than the maximum model length of {_NUMBER}"),
)  # fmt: skip
"""The first number is the prompt's, the second the context: Anthropic; llama.cpp and SGLang; vLLM."""
_MAXIMUM = re.compile(rf"maximum context length (?:is|of) {_NUMBER}")
_REQUESTED = tuple(
    re.compile(f"{before}{_NUMBER} {after}")
    for before, after in (("", "in the messages"), ("", "input tokens"), ("requested (?:a total of )?", "tokens"))
)
"""vLLM, SGLang and older APIs of OpenAI, in this order of preference."""
_PROMPT = re.compile(
    rf"{_NUMBER} (?:in (?:the messages|your prompt|the prompt)|input tokens|tokens from the input messages)"
)
_OUTPUT = re.compile(
    rf"{_NUMBER} (?:tokens )?(?:in the completion|for the completion|output tokens)|too large: ({_DIGITS})"
)
_SUMS = (
    re.compile(r"`max_tokens` exceed context limit: (?P<prompt>\d{1,12}) \+ (?P<output>\d{1,12}) > "
               r"(?P<context>\d{1,12})"),
    re.compile(r"`max_new_tokens` must be <= (?P<context>\d{1,12})\. Given: (?P<prompt>\d{1,12}) `inputs` tokens and "
               r"(?P<output>\d{1,12}) `max_new_tokens`"),
)  # fmt: skip
"""Of the prompt and the output that is asked for: Anthropic; TGI."""
_OTHER = re.compile(
    r"exceeds? (?:the |this |model's |maximum |available )*context (?:window|length|size|limit)|context limit:"
)
_OPENAI = "Your input exceeds the context window of this model."
_OLDER = "maximum context length is"
_MOST_READ = 4096


class _Body(msgspec.Struct):
    error: Any = None


_decode = msgspec.json.Decoder(_Body).decode


def overflow_of(message: str, error: object) -> ContextExceeded | OutputLimitTooHigh | None:
    """The error for a prompt that an engine reports as too long, by itself or with the output that is asked for; None
    if the message is about something else.

    `error` is the engine's error object, `message` its text. The token counts are read from either.
    """
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {}
    limit = _output_limit(message[:_MOST_READ])
    if limit is not None:
        return limit
    counts = _counts(message[:_MOST_READ], fields)
    if counts is None:
        return None
    text = message or "the prompt is longer than the context"
    return ContextExceeded(text, prompt=counts[0], context=counts[1], source="upstream")


def _output_limit(message: str) -> OutputLimitTooHigh | None:
    """The error if the prompt fits without the output that is asked for; None: it does not, or that is not said."""
    for pattern in _SUMS:
        if (found := pattern.search(message)) is not None:
            prompt, context, output = (int(found[name]) for name in ("prompt", "context", "output"))
            return OutputLimitTooHigh(prompt, context, output) if prompt < context else None
    maximum = _MAXIMUM.search(message)
    asked = None if maximum is None else _PROMPT.search(message)
    if maximum is None or asked is None or int(asked[1]) >= int(maximum[1]):
        return None
    given = _OUTPUT.search(message)
    return OutputLimitTooHigh(int(asked[1]), int(maximum[1]), None if given is None else int(given[1] or given[2]))


def _counts(message: str, fields: Mapping[str, Any]) -> tuple[int | None, int | None] | None:
    """Tokens of the prompt and of the context, as far as they are known; None: no overflow."""
    for pattern in _MESSAGES:
        if (found := pattern.search(message)) is not None:
            return _number(found[1]), _number(found[2])
    if (found := _MAXIMUM.search(message)) is not None:
        asked = next(filter(None, (pattern.search(message) for pattern in _REQUESTED)), None)
        return None if asked is None else int(asked[1]), int(found[1])
    named = fields.get("code"), fields.get("type")
    if any(isinstance(name, str) and name in _TYPES for name in named) or _OTHER.search(message) is not None:
        return _count(fields.get("n_prompt_tokens")), _count(fields.get("n_ctx"))
    return None


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


def _count(value: object) -> int | None:
    return value if type(value) is int else None


def is_recognised(error: StokerError, is_messages: bool, body: bytes) -> bool:
    """Whether clients of the dialect recognise the overflow in the engine's own body, which then needs no change."""
    if is_messages:
        return error.message.startswith("prompt is too long")
    try:
        found = _decode(body).error
    except NOT_JSON:
        return False
    return isinstance(found, dict) and found.get("code") == CODE and _OLDER in error.message


def messages_wording(error: StokerError) -> str:
    """The message as Anthropic's API words it, if `error` is about the context; its own message otherwise.

    1. the prompt fits, but leaves too little for `max_tokens`: the client may ask for fewer
    2. the prompt does not fit
    """
    prompt, output, context = (error.details.get(name) for name in ("prompt_tokens", "output_tokens", "context"))
    if error.code == OutputLimitTooHigh.code:
        if output is None:
            return error.message
        wording = f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {context}"
        return f"{wording}, decrease input length or `max_tokens` and try again"  # 1
    if error.code != CODE or error.message.startswith("prompt is too long"):
        return error.message
    if not (isinstance(prompt, int) and isinstance(context, int)):
        return f"prompt is too long: {error.message}"
    return f"prompt is too long: {prompt} tokens > {context} maximum"  # 2


def openai_wording(error: StokerError) -> str:
    """The message as OpenAI's APIs word it, if `error` is an overflow; its own message otherwise.

    The message holds both sentences of OpenAI. Copilot CLI looks for the one of Responses even in Chat Completions.
    LangChain, Continue and LiteLLM (used by aider and mini-swe-agent) look for the older one even in Responses.
    """
    if error.code != CODE:
        return error.message
    context = error.details.get("context")
    size = f"{context} tokens" if isinstance(context, int) else "smaller than this prompt"
    limit = "" if _OLDER in error.message else f" This model's {_OLDER} {size}."
    rest = error.message.replace(_OPENAI, "").strip()
    return f"{_OPENAI}{limit} {rest}".rstrip()
