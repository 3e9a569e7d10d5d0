"""How an engine on PyTorch reads its weights (`load_format`): what each way needs beside the engine."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from stoker.domain.serve import Driver, Serve

Version = tuple[int, ...]
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


class LoadFormat(NamedTuple):
    """`package`: what has to be installed in the engine's environment; empty: nothing."""

    package: str = ""
    install: str = ""
    """What to type; empty: `pip install PACKAGE`."""
    since: Version = ()
    """The first version of the engine that has it; (): all that matter."""
    least: tuple[tuple[Version, Version], ...] = ()
    """From which version of the engine on which version of the package is needed."""


PLAIN = LoadFormat()
PAST_THE_CACHE = frozenset(("instanttensor",))
"""Those that read by direct I/O: weights that are kept in memory do not make them faster."""


def problems(serve: Serve, formats: Mapping[str, LoadFormat], title: str, program: str | None) -> list[str]:
    """What the serve's `load_format` lacks in the environment of its engine: one sentence. `program`: the engine's
    command. What cannot be seen there is left to the engine.
    """
    name = serve.tuning.load_format
    wanted = formats.get(name or "", PLAIN)
    if not wanted.package or program is None or serve.driver is Driver.RAY:
        return []
    installed = packages_beside(program)
    engine = installed.get(title.lower())
    if engine is None:
        return []
    start = f"serve '{serve.name}': `load_format` {name} needs"
    if wanted.since and engine < wanted.since:
        return [f"{start} {title} {_text(wanted.since)} or newer, and {_text(engine)} is installed: update it"]
    how = wanted.install or f"pip install {wanted.package.replace('_', '-')}"
    has = installed.get(wanted.package)
    if has is None:
        return [f"{start} a package: type `{how}` in the environment of {program}"]
    for since, least in wanted.least:
        if engine >= since and has < least:
            package = wanted.package.replace("_", "-")
            return [f"{start} {package} {_text(least)} or newer, and {_text(has)} is installed: type `{how} -U`"]
    return []


def cautions(serve: Serve) -> list[str]:
    """See `Engine.cautions`."""
    if serve.tuning.load_format not in PAST_THE_CACHE or serve.warm == "never":
        return []
    return [
        f"`load_format` {serve.tuning.load_format} reads past the page cache: weights that are kept in memory do not "
        'help it, so set `warm = "never"`'
    ]


def packages_beside(program: str) -> dict[str, Version]:
    """The packages of the Python environment that this command belongs to, with their versions; empty: unknown."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    found = {}
    for path in glob.glob(os.path.join(glob.escape(root), "lib", "python3*", "site-packages", "*.dist-info")):
        name, _, version = os.path.basename(path).removesuffix(".dist-info").partition("-")
        if (numbers := _NUMBERS.match(version)) is not None:
            found[name.lower().replace("-", "_")] = tuple(map(int, numbers[0].split(".")))
    return found


def _text(version: Version) -> str:
    return ".".join(map(str, version))
