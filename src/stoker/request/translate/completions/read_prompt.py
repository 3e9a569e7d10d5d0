"""A completion request as a Prompt: its one prompt is what the user says, and the model answers it.

A serve that speaks completions itself gets the bytes as they are. Here the prompt meets a chat template, so what only
makes sense without one (`suffix`, `echo`, token arrays) is refused instead of answered wrongly.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import Block, Prompt, Role, Text, Turn
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, shaped

DEFAULT_LIMIT = 16
"""Tokens of an answer where the client names no limit: the dialect's own default."""


class _Request(msgspec.Struct):
    model: str
    prompt: Any = None
    suffix: str | None = None
    echo: bool | None = None
    best_of: int | None = None
    n: int | None = None
    logprobs: int | bool | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    temperature: float | int | None = None
    top_p: float | int | None = None
    top_k: int | None = None
    min_p: float | int | None = None
    seed: int | None = None
    frequency_penalty: float | int | None = None
    presence_penalty: float | int | None = None
    repetition_penalty: float | int | None = None
    logit_bias: dict[str, Any] | None = None
    user: str | None = None


SETTINGS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "logit_bias", "user",
)  # fmt: skip
"""Settings that completions have, by the same names."""
_KNOWN = {field.encode_name for field in msgspec.structs.fields(_Request)}
_request = msgspec.json.Decoder(_Request)
_fields = msgspec.json.Decoder(dict[str, Raw])


def read_prompt(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400."""
    request = shaped(_request, body, "")
    if any(name not in _KNOWN for name in shaped(_fields, body, "")):
        losses.add("unknown_field")
    _refuse(request)
    if request.logprobs is not None and request.logprobs is not False:  # 0 asks for those of the chosen tokens
        losses.add("logprobs")
    text = _text(request.prompt)
    blocks: list[Block] = [Text(text)] if text else []
    return Prompt(
        dialect=Dialect.COMPLETIONS,
        model=request.model,
        turns=[Turn(Role.USER, blocks)],
        max_tokens=DEFAULT_LIMIT if request.max_tokens is None else request.max_tokens,
        stop=[request.stop] if isinstance(request.stop, str) else request.stop or [],
        stream=bool(request.stream),
        wants_usage=bool((request.stream_options or {}).get("include_usage")),
        settings={name: value for name in SETTINGS if (value := getattr(request, name)) is not None},
    )


def _refuse(request: _Request) -> None:
    if request.suffix:
        raise _error("suffix", "needs a serve that speaks completions: this model answers in chat turns")
    if request.echo:
        raise _error("echo", "needs a serve that speaks completions: this model cannot repeat the prompt in its answer")
    for name in ("n", "best_of"):
        if getattr(request, name) not in (None, 1):
            raise _error(name, "must be 1 for this model: its serve gives one answer")


def _text(prompt: Any) -> str:
    """1. a string; 2. a list of one string; 3. several prompts, 4. tokens, 5. anything else: refused."""
    if isinstance(prompt, str):
        return prompt  # 1
    if not isinstance(prompt, list) or not prompt:
        raise _error("prompt", "must be a string, or a list of one string")  # 5
    first = prompt[0]
    if isinstance(first, str) and len(prompt) == 1:
        return first  # 2
    if isinstance(first, str):
        raise _error("prompt", f"holds {len(prompt)} prompts: send one prompt per request")  # 3
    if type(first) is int or isinstance(first, list):
        raise _error("prompt", "contains token ids: send text, because token ids mean nothing to another engine")  # 4
    raise _error("prompt", "must be a string, or a list of one string")  # 5


def _error(name: str, text: str) -> ClientError:
    return ClientError(f"'{name}' {text}", code="bad_field", param=name)
