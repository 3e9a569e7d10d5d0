"""A question of Stoker's own to a model: rules, data of others, and one word in JSON for an answer. Pure.

Data stands between lines with a mark that it cannot know, and the model is told to follow nothing in it. That makes it
hard to talk a model round, not impossible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt, Reasoning, Role, Text, Turn

_MAX_REPLY = 2048
_OBJECT = re.compile(r"\{")


def question(name: str, rules: str, data: str, max_tokens: int, cloud: bool = False, plain: bool = False) -> Prompt:
    """`plain`: without settings, for a model that refuses them: some clouds know no temperature, and most no switch for
    thinking, so no cloud is told of the latter.
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
    """`nonce`: made by chance for this one question."""
    return f"<{name} {nonce}>\n{text}\n</{name} {nonce}>"


def one_word(reply: str, key: str, words: Collection[str]) -> str | None:
    """What a reply says under this key; fences and prose around the object, case and blanks do not matter. None: none
    of these words, or two different ones. Never raises.
    """
    said = {word for word in _under(reply[:_MAX_REPLY], key) if word in words}
    return said.pop() if len(said) == 1 else None


def _under(text: str, key: str) -> Iterator[str]:
    """Of each JSON object in it, not looking for objects within objects."""
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
