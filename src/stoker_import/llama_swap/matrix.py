"""The expressions of a matrix, written out: `(a | b) & c` is [a, c] and [b, c]; `+name` is another set's expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stoker.domain.errors import ConfigError

MAX_SETS = 256
"""Sets that a matrix may become: it is a product of alternatives, which can be astronomical."""
DEEPEST = 64

_TOKEN = re.compile(r"\s*(?:([&|()])|\+([\w.-]+)|([\w.-]+))")

Sets = list[frozenset[str]]


def expand_matrix(expressions: Mapping[str, str], models: Mapping[str, str]) -> Sets:
    """The sets of models that may be loaded together, each once, in the order of the expressions.

    `models`: by the name in an expression, the model. Raises ConfigError if an expression cannot be read, names nobody,
    refers to itself, or becomes too many sets.
    """
    known: dict[str, Sets] = {}
    found: dict[frozenset[str], None] = {}
    for name in expressions:
        found.update(dict.fromkeys(_expand(name, expressions, models, known, ())))
        if len(found) > MAX_SETS:
            raise ConfigError([_too_many(name)])
    return list(found)


def _expand(
    name: str, expressions: Mapping[str, str], models: Mapping[str, str], known: dict[str, Sets], path: tuple[str, ...]
) -> Sets:
    if name in path:
        raise ConfigError([f"matrix.sets.{name}: refers to itself: {' -> '.join((*path, name))}"])
    if name not in known:
        known[name] = _Parser(name, expressions, models, known, (*path, name)).read()
    return known[name]


class _Parser:
    """Recursive descent: `|` of `&` of names, references and parentheses."""

    def __init__(
        self, name: str, expressions: Mapping[str, str], models: Mapping[str, str], known: dict[str, Sets],
        path: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._name, self._expressions, self._models, self._known, self._path = name, expressions, models, known, path
        self._tokens = list(self._tokenize(expressions[name]))
        self._place = 0

    def read(self) -> Sets:
        found = self._alternatives(0)
        if self._place < len(self._tokens):
            raise self._problem(f"did not expect '{self._tokens[self._place]}'")
        return found

    def _tokenize(self, text: str) -> Iterator[str]:
        place = 0
        text = text.strip()
        while place < len(text):
            token = _TOKEN.match(text, place)
            if token is None:
                raise self._problem(f"did not expect '{text[place:].strip()[:1]}'")
            yield f"+{token[2]}" if token[2] else token[1] or token[3]
            place = token.end()

    def _alternatives(self, depth: int) -> Sets:
        if depth > DEEPEST:
            raise self._problem(f"parentheses more than {DEEPEST} deep")
        found = self._together(depth)
        while self._next("|"):
            found = self._bounded(list(dict.fromkeys([*found, *self._together(depth)])))
        return found

    def _together(self, depth: int) -> Sets:
        found = self._atom(depth)
        while self._next("&"):
            more = self._atom(depth)
            if len(found) * len(more) > MAX_SETS * MAX_SETS:
                raise self._problem("", _too_many(self._name))
            found = self._bounded(list(dict.fromkeys(one | other for one in found for other in more)))
        return found

    def _atom(self, depth: int) -> Sets:
        if self._next("("):
            found = self._alternatives(depth + 1)
            if not self._next(")"):
                raise self._problem("a closing parenthesis is missing")
            return found
        token = self._tokens[self._place] if self._place < len(self._tokens) else ""
        self._place += 1
        if token.startswith("+"):
            if token[1:] not in self._expressions:
                raise self._problem(f"there is no set '{token[1:]}'")
            return _expand(token[1:], self._expressions, self._models, self._known, self._path)
        if not token or token in "&|()":
            raise self._problem("the expression ends too early" if not token else f"did not expect '{token}'")
        if token not in self._models:
            raise self._problem(f"there is no model '{token}'")
        return [frozenset((self._models[token],))]

    def _next(self, token: str) -> bool:
        if self._place < len(self._tokens) and self._tokens[self._place] == token:
            self._place += 1
            return True
        return False

    def _bounded(self, sets: Sets) -> Sets:
        if len(sets) > MAX_SETS:
            raise self._problem("", _too_many(self._name))
        return sets

    def _problem(self, text: str, whole: str = "") -> ConfigError:
        return ConfigError([whole or f"matrix.sets.{self._name}: {text}"])


def _too_many(name: str) -> str:
    return (
        f"matrix.sets.{name}: becomes more than {MAX_SETS} sets; give each model its `memory` in Stoker instead: "
        "then as many are loaded as fit"
    )
