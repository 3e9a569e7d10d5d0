"""What a package adds to Stoker, and how it is found.

A package is an extension if it has an entry point in the group `stoker.extensions` that names an `Extension`. Importing
the module of that object must be cheap: it is done by every command. What it offers is named by place ("module:object")
and imported when it is used. docs/how-it-works/extensions.md has an example.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from stoker.domain.printable import one_line

GROUP = "stoker.extensions"
FAILURES = (Exception, SystemExit)
"""What code of an extension may raise without harm to Stoker: modules that miss something call sys.exit."""
_NAME_SEPARATORS = re.compile(r"[-_.]+")


class Command(NamedTuple):
    """A command of `stoker`, or a group of commands."""

    name: str
    """Of a command in a group of Stoker's own: with the group, `serves experiment`."""
    place: str
    """A function with Typer's annotations, or for a group a `typer.Typer`."""
    summary: str
    """What `stoker --help` says: at most 60 characters, ends with a full stop."""


class Offer(NamedTuple):
    """Something that others ask for by its name."""

    name: str
    place: str


class Extension(NamedTuple):
    """What one package offers. Everything is optional."""

    summary: str
    """One line for `stoker --version -v`."""
    commands: tuple[Command, ...] = ()
    server: str = ""
    """The place of a function from a `ServerContext` to a `ServerPart`, called when a server starts: see
    `stoker.app.server_parts`.
    """
    drivers: tuple[Offer, ...] = ()
    """By the name of the driver: a function from a `stoker.fleet.drivers.unit.DriverContext` to a `UnitDriver`."""
    engines: tuple[Offer, ...] = ()
    """By the word for `engine` in a serve: a `stoker.engines.record.Engine`. It is imported with the configuration."""
    doctor: str = ""
    """The place of a function from the configuration (`Settings`) to findings for `stoker doctor`."""
    warnings: str = ""
    """The place of a function from the configuration (`Settings`) to what is allowed there but probably not meant, a
    sentence each: for `config check`, `up`, `reload` and `doctor`.
    """
    pages: str = ""
    """The place of a tuple of `stoker.gateway.operations.Operation`: paths below /admin that its part answers."""
    offers: tuple[Offer, ...] = ()
    """Functions for other extensions."""
    tables: tuple[Offer, ...] = ()
    """By the name of a table of the configuration: a `stoker.config.sections.Section`."""


_LISTS = {"commands": Command, "drivers": Offer, "engines": Offer, "offers": Offer, "tables": Offer}


class InstalledExtension(NamedTuple):
    """An entry point of the group, and what is behind it."""

    name: str
    package: str
    """Name and version of the distribution."""
    extension: Extension | None
    problem: str
    """Why it cannot be used, if `extension` is None."""


@cache
def installed_extensions() -> tuple[InstalledExtension, ...]:
    """Those that this Python finds, by name. One that cannot be imported has its problem. Raises nothing."""
    places: dict[tuple[str, str], tuple[str, str]] = {}  # of a package that is there twice, the first counts
    for name, place, package in _entry_points(sys.path):
        places.setdefault((name, _NAME_SEPARATORS.sub("-", package.split()[0]).lower()), (place, package))
    installed: dict[str, list[InstalledExtension]] = {}
    for name, owner in sorted(places, key=lambda one: (one[0], one[1] != "stoker")):
        place, package = places[name, owner]
        if first := installed.setdefault(name, []):
            problem = f"{first[0].package} has an extension of this name, too, and that one counts"
            first.append(InstalledExtension(name, package, None, problem))
        else:
            first.append(_load(name, place, package))
    return tuple(one for same in installed.values() for one in same)


def usable_extensions() -> tuple[Extension, ...]:
    """Those without a problem."""
    return tuple(one.extension for one in installed_extensions() if one.extension is not None)


def missing_because(name: str) -> str:
    """Why nobody does what this extension is for, in half a sentence that says where to read more."""
    installed = next((one for one in installed_extensions() if one.name == name), None)
    if installed is None:
        return "which is not installed: `stoker --version -v` lists those that are"
    if installed.problem:
        return f"which cannot be used ({installed.problem}): see `stoker --version -v`"
    return "which failed: see LOGS/stoker.log"


def is_usable(name: str) -> bool:
    """Whether an extension is installed and can be imported."""
    return any(one.name == name and one.extension is not None for one in installed_extensions())


def offered(name: str) -> Any:
    """What an extension offers other extensions by this name; None: none does. Raises what `load` raises."""
    return _first(name, (offer for extension in usable_extensions() for offer in extension.offers))


def offered_driver(name: str) -> Any:
    """The maker of a driver, by the driver's name; None: no extension has it. Raises what `load` raises."""
    return _first(name, (offer for extension in usable_extensions() for offer in extension.drivers))


def load(place: str) -> Any:
    """The object at "module:object". Raises ImportError or AttributeError, and whatever the module raises."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _first(name: str, offers: Iterable[Offer]) -> Any:
    return next((load(offer.place) for offer in offers if offer.name == name), None)


def _load(name: str, place: str, package: str) -> InstalledExtension:
    try:
        extension = load(place)
    except FAILURES as error:
        return InstalledExtension(name, package, None, one_line(f"{type(error).__name__}: {error}"))
    if not isinstance(extension, Extension):
        return InstalledExtension(name, package, None, f"{place} is not a stoker.extensions.Extension")
    for field, kind in _LISTS.items():
        offered = getattr(extension, field)
        if not isinstance(offered, tuple) or not all(isinstance(one, kind) for one in offered):
            return InstalledExtension(name, package, None, f"{place}: {field} must be a tuple of {kind.__name__}")
    return InstalledExtension(name, package, extension, "")


def _entry_points(path: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Name, place and package of each entry point of the group.

    `importlib.metadata` says the same, but importing it takes 1 MB and as long as a fifth of `stoker --help`.
    """
    for folder in path:
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith(".dist-info"))
        except OSError:
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            if GROUP in text:
                package = " ".join(name.removesuffix(".dist-info").split("-", 1))
                yield from ((entry, place, package) for entry, place in _of_group(text))


def _of_group(text: str) -> Iterator[tuple[str, str]]:
    is_ours = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            is_ours = line == f"[{GROUP}]"
        elif is_ours and "=" in line and not line.startswith(("#", ";")):
            name, _, place = line.partition("=")
            yield name.strip(), place.split("[")[0].strip()
