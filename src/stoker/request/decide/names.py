"""Serves, served names and aliases share one namespace: the `model` field."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.domain.errors import ClientError
from stoker.domain.nearest import nearest
from stoker.domain.serve import Serve


class Names:
    """Every name that clients may ask for."""

    def __init__(self, serves: Iterable[Serve]) -> None:
        self.serves = tuple(serves)
        self._by_name = {name: serve for serve in self.serves for name in serve.names()}

    def means(self, model: str, may_use: Callable[[Serve], bool]) -> bool:
        """Whether `resolve` would find a serve."""
        serve = self._by_name.get(model)
        return serve is not None and may_use(serve)

    def resolve(self, model: str, may_use: Callable[[Serve], bool], others: Iterable[str] = ()) -> Serve:
        """The serve that `model` means. Raises ClientError 404 for a name that is unknown, or that this caller may not
        use: it cannot tell the two apart. `others`: names that mean no serve, to suggest.
        """
        serve = self._by_name.get(model)
        if serve is not None and may_use(serve):
            return serve
        known = [*(name for name, s in self._by_name.items() if may_use(s)), *others]
        near = nearest(model, known)
        hint = f"did you mean {near!r}?" if near else "GET /v1/models lists the names"
        text = f"no model is named {model[:100]!r}; {hint}"
        raise ClientError(text, code="unknown_model", status=404, param="model")

    def listed(self, may_use: Callable[[Serve], bool]) -> list[tuple[str, Serve]]:
        """(name, serve) for /v1/models: what this caller may use, in configuration order."""
        return [(name, serve) for serve in self.serves if may_use(serve) for name in serve.names()]
