"""By which key a measurement comes in at the front door."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stoker.cli.console.errors import UsageError
from stoker.domain.key import Scope

if TYPE_CHECKING:
    from stoker.cli.console.answers import FrontDoorStatus
    from stoker.cli.console.installation import Installation
    from stoker.domain.serve import Serve

KEY = "STOKER_KEY"
"""Where the front door's key is looked for if nothing else is said."""


@dataclass(frozen=True, slots=True)
class FrontDoorKey:
    """The key with which the front door is asked. It is never printed; where it comes from is."""

    value: str | None = field(default=None, repr=False)
    source: str = ""


def front_door_key(
    installation: Installation, door: FrontDoorStatus, serve: Serve, variable: str | None
) -> FrontDoorKey:
    """By which key the front door is asked, for the model and for what the engine says of itself.

    1. the one in the variable  2. none is wanted  3. unless a variable was named, a key of the configuration that may
    do both and can be read here; the one with the most requests at once, since they are what is measured
    """
    value = os.environ.get(variable or KEY)
    if value:
        return FrontDoorKey(value, f"the key in {variable or KEY}")  # 1
    if door.auth != "keys":
        return FrontDoorKey()  # 2
    keys = installation.settings.front_door.keys if installation.settings is not None and variable is None else ()
    able = [one for one in keys if one.scope >= Scope.OBSERVE and not {"*", *serve.names()}.isdisjoint(one.models)]
    readable = [one for one in able if one.value.is_readable]
    if not readable:
        unread = "".join(f"; '{one.name}' ({one.value.source}) cannot be read here" for one in able)
        raise UsageError(
            f"the front door requires a key: put one with scope `observe` into the variable {variable or KEY}{unread}; "
            f"{how_to_make(variable or KEY, installation.place)}"
        )
    most = max(readable, key=lambda one: math.inf if one.max_active is None else one.max_active)
    return FrontDoorKey(most.value.reveal(), f"the key '{most.name}' of the configuration")  # 3


def how_to_make(variable: str, place: str) -> str:
    """`place`: the options that lead to the same Stoker: a key made in another one would lock its callers out."""
    return f"make one: export {variable}=$(stoker keys create NAME --scope observe{place})"
