"""Questions that Stoker itself asks a model: rules, foreign data, and one word in JSON as the answer. Pure.

Foreign data stands between lines with a mark that its author cannot know, and the rules say to follow no instruction in
it. That makes prompt injection hard, not impossible.
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
