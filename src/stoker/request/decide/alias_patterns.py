"""Aliases with wildcards: `*` stands for any characters, `?` for exactly one. Everything else is literal.

Time is linear in the length of the name: each literal part is searched for once, from left to right, after the part
before it. A part with `?` is compared at each position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from stoker.domain.serve import Serve

LONGEST_NAME = 200
"""Longer names match no pattern: no configured name can be longer."""


def is_pattern(alias: str) -> bool:
    """Whether an alias has wildcards."""
    return "*" in alias or "?" in alias


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name matches. Upper and lower case differ, as in names without wildcards."""
    first, *rest = pattern.split("*")
    if not rest:
        return len(name) == len(first) and _is_at(first, name, 0)
    last, end = rest.pop(), len(name)
    if end < len(first) + len(last) or not _is_at(first, name, 0) or not _is_at(last, name, end - len(last)):
        return False
    at, end = len(first), end - len(last)
    for part in rest:
        at = _find(part, name, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


class AliasPattern(NamedTuple):
    """A pattern, and the serve that it means."""

    text: str
    serve: Serve

    @property
    def specificity(self) -> tuple[int, int, int]:
        """Literal characters, then `?`, then as few `*` as possible: the larger value goes first."""
        stars, singles = self.text.count("*"), self.text.count("?")
        return len(self.text) - stars - singles, singles, -stars


class AliasPatterns:
    """The patterns of all serves, the most specific first; equally specific ones in the order of the configuration."""

    def __init__(self, serves: Iterable[Serve]) -> None:
        found = [AliasPattern(text, serve) for serve in serves for text in serve.alias_patterns]
        self._patterns = sorted(found, key=lambda one: one.specificity, reverse=True)  # stable, also in reverse

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def find(self, name: str) -> Serve | None:
        """The serve of the most specific pattern that matches."""
        if len(name) > LONGEST_NAME:
            return None
        return next((one.serve for one in self._patterns if matches(one.text, name)), None)


def is_matched(name: str, names: Iterable[str]) -> bool:
    """Whether one of `names` is a pattern that matches."""
    return any(is_pattern(one) and matches(one, name) for one in names)


def is_nameable(name: str, names: Collection[str], is_default: bool) -> bool:
    """Whether a key may name this model: in its list, which also takes `*`, or as its default (`is_default`), which may
    also match a pattern. `names`: all names and patterns that clients may ask for.
    """
    return name in names or (is_matched(name, names) if is_default else name == "*")


PATTERN_HINT = "; the list takes the pattern itself, or the serve's name"
"""For a name in a key's list that only a pattern matches."""


def _is_at(part: str, name: str, at: int) -> bool:
    if "?" not in part:
        return name.startswith(part, at)
    return all(expected in ("?", name[at + place]) for place, expected in enumerate(part))


def _find(part: str, name: str, start: int, end: int) -> int:
    """Offset at which `part` first occurs in name[start:end]; -1: it does not."""
    if "?" not in part:
        return name.find(part, start, end)
    return next((at for at in range(start, end - len(part) + 1) if _is_at(part, name, at)), -1)
