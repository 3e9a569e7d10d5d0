"""Aliases that mean one of several serves, chosen for each request."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Pick(StrEnum):
    """Which serve of an alias answers."""

    FIRST = "first"
    """The first that can be used."""
    LOADED = "loaded"
    """The first of those that is loaded, else the first."""


class AliasChoice(msgspec.Struct, frozen=True):
    """`[alias.NAME] serves`: it is never promoted."""

    name: str
    serves: tuple[str, ...]
    """Names of serves or of their variants, in order of preference; at least one."""
    pick: Pick = Pick.FIRST
