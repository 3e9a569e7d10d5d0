"""Faults of answers that look whole: counts off by one, log probabilities, limits, temperature, ids, caches, and who
answers long prompts."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from stoker_lab.testing.faults.fault import Document, Frames, ServingFault, both, delta, message

LONG = 1000
"""Characters from which on another model answers a prompt."""
_PREFIX = 600
"""Characters of a prompt by which a cache knows it."""
_CAPS = (48, 256)


# -- counts ----------------------------------------------------------------------------------------------------------


def _usage(change: Callable[[Document, Document], None]) -> tuple[Callable[..., None], Callable[..., Frames]]:
    """(whole, stream) that change the usage: (request, usage)."""

    def amend(asked: Document, document: Document | None) -> None:
        found = (document or {}).get("usage")
        if isinstance(found, dict):
            change(asked, found)
            found["total_tokens"] = found["prompt_tokens"] + found["completion_tokens"]

    def stream(asked: Document, frames: Frames) -> Frames:
        for frame in frames:
            amend(asked, frame)
        return frames

    return amend, stream


def _more(name: str, by: int) -> Callable[[Document, Document], None]:
    def change(asked: Document, usage: Document) -> None:
        usage[name] = max(0, usage[name] + by)

    return change


# -- log probabilities -----------------------------------------------------------------------------------------------


def _entries(document: Document | None) -> list[Document]:
    choices = (document or {}).get("choices") or [{}]
    found = choices[0].get("logprobs")
    return found.get("content") or [] if isinstance(found, dict) else []


def _logprobs(change: Callable[[list[Document]], None]) -> tuple[Callable[..., None], Callable[..., Frames]]:
    """(whole, stream) that change the entries of the log probabilities."""

    def whole(asked: Document, reply: Document) -> None:
        change(_entries(reply))

    def stream(asked: Document, frames: Frames) -> Frames:
        change([entry for frame in frames for entry in _entries(frame)])
        return frames

    return whole, stream


def _no_logprobs(asked: Document, reply: Document) -> None:
    for choice in reply.get("choices") or ():
        choice["logprobs"] = None


def _no_logprobs_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        _no_logprobs(asked, frame or {})
    return frames


def _constant(entries: list[Document]) -> None:
    for entry in entries:
        entry["logprob"] = -0.5


def _of_another(entries: list[Document]) -> None:
    """Each entry is that of the token before."""
    kept = [dict(entry) for entry in entries]
    for entry, other in zip(entries[1:], kept, strict=False):
        entry.update(other)


def _probabilities(entries: list[Document]) -> None:
    for entry in entries:
        for one in (entry, *entry.get("top_logprobs", ())):
            one["logprob"] = 2.718281828459045 ** one["logprob"]


def _random(entries: list[Document]) -> None:
    dice = random.Random(1)
    for entry in entries:
        for one in (entry, *entry.get("top_logprobs", ())):
            one["logprob"] = -3 * dice.random()


def _no_alternatives(entries: list[Document]) -> None:
    for entry in entries:
        entry["top_logprobs"] = []


# -- limits and temperature ------------------------------------------------------------------------------------------


def _capped(most: int) -> Callable[[str, Document], None]:
    def request(path: str, document: Document) -> None:
        if isinstance(document.get("max_tokens"), int):
            document["max_tokens"] = min(most, document["max_tokens"])

    return request


def _temperature(value: float) -> Callable[[str, Document], None]:
    def request(path: str, document: Document) -> None:
        document["temperature"] = value

    return request


# -- ids and caches --------------------------------------------------------------------------------------------------


def _one_id(asked: Document, reply: Document) -> None:
    reply["id"] = "chatcmpl-0"


def _one_id_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if frame is not None:
            frame["id"] = "chatcmpl-0"
    return frames


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _key(asked: Document) -> str:
    """The beginning of the prompt; empty: it is too short for the cache. Requests with tools are let pass."""
    text = str(asked.get("messages"))
    return "" if len(text) < _PREFIX or asked.get("tools") else text[:_PREFIX]


def _cached() -> tuple[Callable[..., None], Callable[..., Frames]]:
    answers: dict[str, Document] = {}
    streams: dict[str, Frames] = {}

    def whole(asked: Document, reply: Document) -> None:
        if key := _key(asked):
            kept = answers.setdefault(key, _copied(reply))
            reply.clear()
            reply.update(_copied(kept))

    def stream(asked: Document, frames: Frames) -> Frames:
        key = _key(asked)
        return _copied(streams.setdefault(key, _copied(frames))) if key else frames

    return whole, stream


# -- thoughts, and who answers ---------------------------------------------------------------------------------------


def _copied_thoughts(asked: Document, reply: Document) -> None:
    found = message(reply)
    if thought := found.get("reasoning_content") or found.get("reasoning"):
        found["content"] = f"{thought}\n\n{found.get('content') or ''}"


def _copied_thoughts_stream(asked: Document, frames: Frames) -> Frames:
    thought = "".join(delta(one).get("reasoning_content") or delta(one).get("reasoning") or "" for one in frames)
    first = next((frame for frame in frames if delta(frame).get("content")), None)
    if thought and first is not None:
        delta(first)["content"] = f"{thought}\n\n{delta(first)['content']}"
    return frames


def _is_long(asked: Document) -> bool:
    return len(str(asked.get("messages"))) >= LONG


def _more_when_long(asked: Document, usage: Document) -> None:
    if _is_long(asked):
        usage["prompt_tokens"] += usage["prompt_tokens"] // 12


def _named_when_long(asked: Document, reply: Document) -> None:
    if _is_long(asked):
        reply["model"] = "another-model"


def _named_when_long_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if frame is not None:
            _named_when_long(asked, frame)
    return frames


def _of(*checks: str) -> frozenset[str]:
    return frozenset(checks)


_plus, _minus = _usage(_more("completion_tokens", 1)), _usage(_more("completion_tokens", -1))
_prompt_plus, _tokenizer = _usage(_more("prompt_tokens", 1)), _usage(_more_when_long)
_fixed, _shifted, _linear = _logprobs(_constant), _logprobs(_of_another), _logprobs(_probabilities)
_invented, _alone = _logprobs(_random), _logprobs(_no_alternatives)
_cache = _cached()
_stranger = both(lambda asked, text: f"Ahoy! Another one speaks here. {text[::-1]}" if _is_long(asked) else text)
ANSWERS = (
    ServingFault("count-plus-one", "one completion token more than were written", _of("max-tokens"), whole=_plus[0],
                 stream=_plus[1]),
    ServingFault("count-minus-one", "one completion token less than were written", _of("max-tokens"), whole=_minus[0],
                 stream=_minus[1]),
    ServingFault("prompt-count-plus-one", "one prompt token more than were read", _of("template"),
                 whole=_prompt_plus[0], stream=_prompt_plus[1], needs_real_engine=True),
    ServingFault("logprobs-missing", "log probabilities are dropped", _of("logprobs"), whole=_no_logprobs,
                 stream=_no_logprobs_stream),
    ServingFault("logprobs-missing-stream", "streams have no log probabilities", _of("logprobs"),
                 stream=_no_logprobs_stream),
    ServingFault("logprobs-constant", "every token has the same log probability", _of("logprobs"), whole=_fixed[0],
                 stream=_fixed[1]),
    ServingFault("logprobs-shifted", "log probabilities are those of the token before", _of("logprobs"),
                 whole=_shifted[0], stream=_shifted[1]),
    ServingFault("logprobs-linear", "probabilities where their logarithms belong", _of("logprobs"), whole=_linear[0],
                 stream=_linear[1]),
    ServingFault("logprobs-random", "log probabilities are invented", _of("logprobs"), whole=_invented[0],
                 stream=_invented[1]),
    ServingFault("logprobs-alone", "the alternatives of a token are dropped", _of("logprobs"), whole=_alone[0],
                 stream=_alone[1]),
    ServingFault("limit-capped", "no answer is longer than 48 tokens", _of("max-tokens"), request=_capped(_CAPS[0])),
    ServingFault("limit-capped-256", "no answer is longer than 256 tokens", _of("max-tokens"),
                 request=_capped(_CAPS[1]), needs_real_engine=True),
    ServingFault("temperature-forced", "the temperature is always 0.7", _of("determinism"),
                 request=_temperature(0.7)),
    ServingFault("temperature-zero", "the temperature is always 0", _of("determinism"), request=_temperature(0.0)),
    ServingFault("constant-ids", "all answers have the same id", _of("ids"), whole=_one_id, stream=_one_id_stream),
    ServingFault("prefix-cache", "prompts that begin alike get the same answer", _of("prefix"), whole=_cache[0],
                 stream=_cache[1]),
    ServingFault("thoughts-copied", "thoughts stand in the answer as well", _of("thinking"), whole=_copied_thoughts,
                 stream=_copied_thoughts_stream, needed_abilities=("thinking",)),
    ServingFault("other-tokenizer-long", "a model with another tokenizer reads long prompts", _of("long-prompts"),
                 whole=_tokenizer[0], stream=_tokenizer[1]),
    ServingFault("other-name-long", "answers to long prompts bear another model's name", _of("long-prompts"),
                 whole=_named_when_long, stream=_named_when_long_stream),
    ServingFault("other-model-long", "another model answers long prompts, under the same name", _of("needle"),
                 whole=_stranger[0], stream=_stranger[1]),
)  # fmt: skip
