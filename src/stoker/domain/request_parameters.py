"""What a serve sets in the bodies of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestParameters:
    """Changes of top-level fields of the body, as the engine gets it. False: there is none.

    1. `drop` removes what the client gave  2. `default` adds what is missing or null  3. `set` overwrites
    """

    set: Mapping[str, Any] = field(default_factory=dict)
    default: Mapping[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.set or self.default or self.drop)

    def then(self, other: RequestParameters) -> RequestParameters:
        """Both, `other` after this one. A default of `other` replaces one of the same name."""
        kept = {name: value for name, value in self.set.items() if name not in other.drop}
        defaults = {name: value for name, value in self.default.items() if name not in other.drop}
        return RequestParameters(
            {**kept, **other.set}, {**defaults, **other.default}, tuple(dict.fromkeys((*self.drop, *other.drop)))
        )

    def names(self) -> dict[str, None]:
        """Every field that may change."""
        return dict.fromkeys((*self.drop, *self.default, *self.set))

    def without(self, names: frozenset[str]) -> RequestParameters:
        """The same, but for these fields."""
        return RequestParameters(
            {name: value for name, value in self.set.items() if name not in names},
            {name: value for name, value in self.default.items() if name not in names},
            tuple(name for name in self.drop if name not in names),
        )


NO_PARAMETERS = RequestParameters()
