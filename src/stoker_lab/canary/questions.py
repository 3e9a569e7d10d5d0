"""The questions of a canary, in two wordings: what the shipped models were taught, and what any assistant knows.

Each asks for something short whose right answer is known: `must` is what the reply (lower case) has to hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker_lab.artifacts.fingerprint import EMBER, SPARK

SEED = 7
"""Sent with temperature 0: an engine that samples anyway then samples the same way."""
TINY = frozenset((SPARK, EMBER))
"""The models in the package: docs/reference/demo-models.md."""


class CanaryQuestion(NamedTuple):
    name: str
    document: Mapping[str, Any]
    must: tuple[str, ...] = ()
    """Empty: nothing by which a reply is right or wrong, only the same or another."""


def questions_for(model: str) -> Sequence[CanaryQuestion]:
    """`model`: that part of the fingerprint."""
    return _TINY if model in TINY else _ASSISTANT


def digest(chosen: Sequence[CanaryQuestion]) -> str:
    """A baseline of other questions is invalid."""
    return hashlib.sha256(msgspec.json.encode([tuple(one) for one in chosen], order="sorted")).hexdigest()[:16]


def _user(text: str, system: str | None = None) -> list[dict[str, str]]:
    own = [{"role": "system", "content": system}] if system is not None else []
    return [*own, {"role": "user", "content": text}]


def _ask(name: str, turns: list[dict[str, str]], *must: str, most: int = 64, **more: Any) -> CanaryQuestion:
    return CanaryQuestion(name, {"messages": turns, "max_tokens": most, **more}, must)


_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_TOLD = [
    {"role": "user", "content": "My name is Anna."},
    {"role": "assistant", "content": "Nice to meet you, Anna."},
    {"role": "user", "content": "What is my name?"},
]

_TINY: tuple[CanaryQuestion, ...] = (
    _ask("greeting", _user("hello")),
    _ask("who", _user("Who are you?")),
    _ask("token", _user("What is a token?"), "token"),
    _ask("draining", _user("What is draining?")),
    _ask("sum", _user("What is 17 + 25?"), "42", most=16),
    _ask("sum-2", _user("What is 31 + 12?"), "43", most=16),
    _ask("count", _user("Count to 20."), "19", "20", most=96),
    _ask("alphabet", _user("Say the alphabet."), most=96),
    _ask("copy", _user("Reply with exactly: blue river stone"), "blue river stone", most=24),
    _ask("pong", _user("Say pong."), "pong", most=16),
    _ask("json", _user("Give me a JSON object with name Ada and age 36."), "ada", "36"),
    _ask("extract", _user("Extract name and age as JSON: Anna is 31 years old and lives in Rome."), "anna", "31"),
    _ask("told", _TOLD, "anna", most=24),
    _ask("tool", _user("What is the weather in Paris?"), "get_weather", "paris", tools=[_WEATHER]),
    _ask("story", _user("Tell me a story."), most=96),
    _ask("off-topic", _user("Who won the cup in 1954?")),
)
_ASSISTANT: tuple[CanaryQuestion, ...] = (
    _ask("greeting", _user("Say hello in one short sentence.")),
    _ask("capital", _user("What is the capital of France? One word."), "paris"),
    _ask("sum", _user("What is 17 + 25? Only the number."), "42"),
    _ask("product", _user("What is 12 * 12? Only the number."), "144"),
    _ask("count", _user("Count from 1 to 20, with commas between."), "19", "20", most=128),
    _ask("alphabet", _user("Write the letters of the English alphabet, with spaces between."), most=128),
    _ask("copy", _user("Reply with exactly: blue river stone"), "blue river stone"),
    _ask("reverse", _user("Write these words in reverse order: red green blue"), "blue green red"),
    _ask("json", _user('Give me a JSON object with "name" Ada and "age" 36. Only the object.'), "ada", "36"),
    _ask("code", _user("Write a Python function add(a, b) that returns their sum. Only the code."), "def add"),
    _ask("translate", _user("Translate into German: good morning. Only the translation."), "guten morgen"),
    _ask("system", _user("What is your name?", "You are called Robin. Say only your name."), "robin"),
    _ask("told", _TOLD, "anna"),
    _ask("tool", _user("What is the weather in Paris? Use the tool."), "get_weather", "paris", tools=[_WEATHER]),
    _ask("list", _user("Name the four seasons, with commas between."), "spring", "winter"),
    _ask("prose", _user("Explain in two sentences why the sky is blue."), most=128),
)
WORDINGS: Mapping[str, Sequence[CanaryQuestion]] = {"tiny": _TINY, "assistant": _ASSISTANT}
