"""Serves, served names and aliases share one namespace: the `model` field. Patterns are tried after all names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from stoker.domain.alias_choice import AliasChoice, Pick
from stoker.domain.dialect import TARGETS
from stoker.domain.errors import ClientError
from stoker.domain.nearest import nearest
from stoker.domain.serve import Serve, Status
from stoker.request.decide.alias_patterns import LONGEST_NAME, AliasPatterns

REMEMBERED = 256
"""How many names are cached with the result of the patterns."""
_LONGEST_ALIAS_SHOWN = 64


def _anybody(serve: Serve) -> bool:
    return True


class ServeStates(NamedTuple):
    """The states of a serve, by name, on which the choice among several serves depends."""

    is_loaded: Callable[[str], bool] = lambda name: False
    is_available: Callable[[str], bool] = lambda name: True
    """Whether it accepts requests, once loaded: it is not parked, held, or in back-off after a failed start."""


UNKNOWN_STATES = ServeStates()


class Names:
    """Every name that clients may ask for."""

    def __init__(
        self, serves: Iterable[Serve], choices: Iterable[AliasChoice] = (), states: ServeStates = UNKNOWN_STATES,
        lists_aliases: bool = True,
    ) -> None:  # fmt: skip
        """`choices`: aliases that several serves have; `states` decides which of them answers."""
        self._lists_aliases = lists_aliases
        self.serves = tuple(serves)
        self._choices = {choice.name: choice for choice in choices}
        self._states = states
        self._by_name = {name: serve for serve in self.serves for name in serve.names()}
        self._variants = {one.name: serve.as_variant(one) for serve in self.serves for one in serve.variants}
        self._by_name |= self._variants
        for choice in self._choices:
            self._by_name.pop(choice, None)
        patterns = AliasPatterns(self.serves)
        self._has_patterns = bool(patterns)
        self._find_by_pattern = lru_cache(REMEMBERED)(patterns.find)

    def find(self, model: str, may_use: Callable[[Serve], bool] = _anybody) -> Serve | None:
        """1. the serve with this name  2. of an alias for several, the one that answers now
        3. that of the most specific pattern which matches it
        """
        serve = self._by_name.get(model)
        if serve is None and (choice := self._choices.get(model)) is not None:
            return self._chosen(choice, may_use)
        if serve is None and self._has_patterns and len(model) <= LONGEST_NAME:
            return self._find_by_pattern(model)
        return serve

    def has(self, model: str) -> bool:
        """Whether a serve has exactly this name."""
        return model in self._by_name

    def means(self, model: str, may_use: Callable[[Serve], bool]) -> bool:
        """Whether `resolve` would find a serve."""
        serve = self.find(model, may_use)
        return serve is not None and may_use(serve)

    def resolve(self, model: str, may_use: Callable[[Serve], bool], others: Iterable[str] = ()) -> Serve:
        """The serve that `model` means. Raises ClientError 404 for a name that is unknown, or that this caller may not
        use: it cannot tell the two apart. `others`: names that mean no serve, to suggest.
        """
        serve = self._by_name.get(model) or self.find(model, may_use)
        if serve is not None and may_use(serve):
            return serve
        known = [*(name for name, s in self._by_name.items() if may_use(s)), *others]
        near = nearest(model, known)
        engines = [one.name for one in self.serves if one.served_name == model and may_use(one) and not one.from_tier]
        if len(engines) > 1:
            text = f"{model[:100]!r} is what several engines call their model; ask for {' or '.join(engines[:5])}"
            raise ClientError(text, code="unknown_model", status=404, param="model")
        hint = f"did you mean {near!r}?" if near else "GET /v1/models lists the names."
        text = f"no model is named {model[:100]!r}; {hint}{self._alias_hint(model, near, may_use)}".removesuffix(".")
        raise ClientError(text, code="unknown_model", status=404, param="model")

    def is_loaded(self, serve: Serve) -> bool:
        """Whether its model is loaded now."""
        return self._states.is_loaded(serve.name)

    @property
    def known(self) -> list[str]:
        """Every name, and every pattern."""
        return [*self._by_name, *self._choices, *(one for serve in self.serves for one in serve.alias_patterns)]

    @property
    def choices(self) -> tuple[AliasChoice, ...]:
        """The aliases for several serves."""
        return tuple(self._choices.values())

    def choice(self, alias: str) -> AliasChoice | None:
        """The serves of an alias for several; None if it is not such an alias."""
        return self._choices.get(alias)

    def listed(self, may_use: Callable[[Serve], bool]) -> list[tuple[str, Serve]]:
        """(name, serve) for lists of models: the listed names that this caller may use, in configuration order. The
        serve of a variant has the variant's parameters.
        """
        names = Serve.names if self._lists_aliases else Serve.own_names
        usable = ((name, serve) for serve in self.serves if may_use(serve) for name in names(serve))
        shown = {name: self._variants.get(name) or self._owner(name, serve, may_use) for name, serve in usable}
        return [(name, serve) for name, serve in shown.items() if serve.listed]

    def _owner(self, name: str, serve: Serve, may_use: Callable[[Serve], bool]) -> Serve:
        """`serve`, or the one that answers now if several share the name."""
        choice = self._choices.get(name)
        return (None if choice is None else self._chosen(choice, may_use)) or serve

    def _chosen(self, choice: AliasChoice, may_use: Callable[[Serve], bool]) -> Serve | None:
        """1. none: the caller may use none of them  2. the first that is loaded, if that is asked for
        3. the first that takes requests  4. the first, whose refusal says why
        """
        known = (self._by_name.get(name) for name in choice.serves)
        usable = [serve for serve in known if serve is not None and may_use(serve)]
        available = [serve for serve in usable if self._is_available(serve)]
        if choice.pick is Pick.LOADED:
            loaded = next((serve for serve in available if self._states.is_loaded(serve.name)), None)
            if loaded is not None:
                return loaded  # 2
        return next(iter(available), None) or next(iter(usable), None)  # 3, 4, 1

    def _is_available(self, serve: Serve) -> bool:
        states = self._states
        return states.is_available(serve.name) and (not serve.needs_force or states.is_loaded(serve.name))

    def _alias_hint(self, model: str, near: str | None, may_use: Callable[[Serve], bool]) -> str:
        """The line of configuration that would make `model` an alias of the nearest serve; empty if there is none.

        1. it cannot be an alias, or the nearest name means no serve: none  2. the serve of the nearest name  3. the
        first production serve that converses
        """
        is_valid = model.isprintable() and model == model.strip(" ") and 0 < len(model) <= _LONGEST_ALIAS_SHOWN
        if not is_valid or (near is not None and near not in self._by_name):
            return ""  # 1
        usable = [serve for serve in self.serves if may_use(serve) and not serve.from_tier]
        found = next((serve for serve in usable if near in serve.names()), None) or next(
            (one for one in usable if one.status is Status.PRODUCTION and not one.dialects.isdisjoint(TARGETS)), None
        )
        if found is None:
            return ""
        line = f"aliases = [{_quoted(model)}]"
        return f" Or let it mean serve '{found.name}': add {line} to that [[serve]] in stoker.toml"


def _quoted(text: str) -> str:
    """The text as a TOML string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
