"""Aliases that move: which serve each of them means now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker.domain.alias_choice import AliasChoice
from stoker.domain.gate import Alias
from stoker.domain.serve import Serve


def resolve_aliases(aliases: Iterable[Alias], moved: Mapping[str, str], serves: Iterable[Serve]) -> dict[str, str]:
    """Alias to serve: the one that it was moved to, if that still exists, else that of the configuration file."""
    known = {serve.name for serve in serves}
    found: dict[str, str] = {}
    for alias in aliases:
        serve = moved.get(alias.name)
        found[alias.name] = serve if serve is not None and serve in known else alias.serve
    return found


def with_aliases(serves: Iterable[Serve], meaning: Mapping[str, str]) -> tuple[Serve, ...]:
    """The serves, each with the aliases that mean it added to its own: lists, keys and names need no second rule."""
    return tuple(
        replace(serve, aliases=(*serve.aliases, *(alias for alias, name in meaning.items() if name == serve.name)))
        if serve.name in meaning.values()
        else serve
        for serve in serves
    )


def with_choices(serves: Iterable[Serve], choices: Iterable[AliasChoice]) -> tuple[Serve, ...]:
    """The serves, each with the aliases that may mean it added to its own: an alias gives access to all its serves."""
    found = list(choices)
    if not found:
        return tuple(serves)
    return tuple(
        replace(
            serve,
            aliases=(*serve.aliases, *(one.name for one in found if not set(one.serves).isdisjoint(serve.names()))),
        )
        for serve in serves
    )
