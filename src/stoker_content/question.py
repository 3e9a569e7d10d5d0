"""Questions that Stoker itself asks a model: rules, foreign data, and one word in JSON as the answer. Pure.

Foreign data stands between lines with a mark that its author cannot know, and the rules say to follow no instruction in
it. That makes prompt injection hard, not impossible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt, Reasoning, Role, Text, Turn

_MAX_REPLY = 2048
_OBJECT = re.compile(r"\{")
_FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.IGNORECASE | re.DOTALL)


def question(name: str, rules: str, data: str, max_tokens: int, cloud: bool = False, plain: bool = False) -> Prompt:
    """The prompt of a question. `plain`: without settings, for a model that refuses them.

    Some clouds accept no temperature, and most no switch for thinking; so no cloud gets the latter.
    """
    return Prompt(
        Dialect.CHAT,
        name,
        [Turn(Role.SYSTEM, [Text(rules)]), Turn(Role.USER, [Text(data)])],
        max_tokens=max_tokens,
        reasoning=None if cloud or plain else Reasoning(enabled=False),
        settings={} if plain else {"temperature": 0},
    )


def quoted(name: str, text: str, nonce: str) -> str:
    """Foreign text between marks. `nonce`: a random word, new for each question."""
    return f"<{name} {nonce}>\n{text}\n</{name} {nonce}>"


def whole_object(reply: str) -> dict[str, Any] | None:
    """The JSON object that the whole reply is, with or without a code fence around it; for a verdict, which must not be
    a quotation or an example within other words. None: it is none, or names a key twice. Never raises.
    """
    text = reply.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(text if fenced is None else fenced[1], object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def one_word(reply: str, key: str, words: Collection[str]) -> str | None:
    """The word that a reply has under this key. Code fences, prose, case and blanks around it do not matter.

    None: it is none of `words`, or the reply has two different ones. Never raises.
    """
    found = {word for word in _under(reply[:_MAX_REPLY], key) if word in words}
    return found.pop() if len(found) == 1 else None


def _under(text: str, key: str) -> Iterator[str]:
    """The text under `key` in each JSON object of the reply; objects within objects are not searched."""
    decoder, at = json.JSONDecoder(), 0
    while (found := _OBJECT.search(text, at)) is not None:
        at = found.end()
        try:
            value, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        word = value.get(key)
        if isinstance(word, str):
            yield word.strip().lower()
