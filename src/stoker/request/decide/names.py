"""Serves, served names and aliases share one namespace: the `model` field. Patterns are tried after all names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.nearest import nearest
from stoker.domain.serve import Serve, Status
from stoker.request.decide.alias_patterns import LONGEST_NAME, AliasPatterns

REMEMBERED = 256
"""Names that were tried against the patterns, and what was found."""
_LONGEST_ALIAS_SHOWN = 64
_CONVERSES = frozenset((Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES))


class Names:
    """Every name that clients may ask for."""

    def __init__(self, serves: Iterable[Serve]) -> None:
        self.serves = tuple(serves)
        self._by_name = {name: serve for serve in self.serves for name in serve.names()}
        self._variants = {one.name: serve.as_variant(one) for serve in self.serves for one in serve.variants}
        self._by_name |= self._variants
        patterns = AliasPatterns(self.serves)
        self._has_patterns = bool(patterns)
        self._find_by_pattern = lru_cache(REMEMBERED)(patterns.find)

    def find(self, model: str) -> Serve | None:
        """1. the serve with this name  2. that of the most specific pattern which matches it"""
        serve = self._by_name.get(model)
        if serve is None and self._has_patterns and len(model) <= LONGEST_NAME:
            return self._find_by_pattern(model)
        return serve

    def means(self, model: str, may_use: Callable[[Serve], bool]) -> bool:
        """Whether `resolve` would find a serve."""
        serve = self.find(model)
        return serve is not None and may_use(serve)

    def resolve(self, model: str, may_use: Callable[[Serve], bool], others: Iterable[str] = ()) -> Serve:
        """The serve that `model` means. Raises ClientError 404 for a name that is unknown, or that this caller may not
        use: it cannot tell the two apart. `others`: names that mean no serve, to suggest.
        """
        serve = self._by_name.get(model) or self.find(model)
        if serve is not None and may_use(serve):
            return serve
        known = [*(name for name, s in self._by_name.items() if may_use(s)), *others]
        near = nearest(model, known)
        hint = f"did you mean {near!r}?" if near else "GET /v1/models lists the names."
        text = f"no model is named {model[:100]!r}; {hint}{self._alias_hint(model, near, may_use)}".removesuffix(".")
        raise ClientError(text, code="unknown_model", status=404, param="model")

    def listed(self, may_use: Callable[[Serve], bool]) -> list[tuple[str, Serve]]:
        """(name, serve) for lists of models: what this caller may use and is to be listed, in configuration order. The
        serve of a variant has its parameters.
        """
        usable = ((name, serve) for serve in self.serves if may_use(serve) for name in serve.names())
        shown = ((name, self._variants.get(name, serve)) for name, serve in usable)
        return [(name, serve) for name, serve in shown if serve.listed]

    def _alias_hint(self, model: str, near: str | None, may_use: Callable[[Serve], bool]) -> str:
        """The line of the configuration with which `model` would mean the nearest serve; empty: there is none.

        1. it cannot be an alias, or the nearest name means no serve: none  2. the serve of the nearest name  3. the
        first production serve that converses
        """
        is_valid = model.isprintable() and model == model.strip(" ") and 0 < len(model) <= _LONGEST_ALIAS_SHOWN
        if not is_valid or (near is not None and near not in self._by_name):
            return ""  # 1
        usable = [serve for serve in self.serves if may_use(serve) and not serve.from_tier]
        found = next((serve for serve in usable if near in serve.names()), None) or next(
            (one for one in usable if one.status is Status.PRODUCTION and not _CONVERSES.isdisjoint(one.dialects)), None
        )
        if found is None:
            return ""
        line = f"aliases = [{_quoted(model)}]"
        return f" Or let it mean serve '{found.name}': add {line} to that [[serve]] in stoker.toml"


def _quoted(text: str) -> str:
    """A text of TOML."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
