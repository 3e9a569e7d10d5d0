"""Which files a start reads, and how to see whether one of them is another one now."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from importlib.util import find_spec

from stoker.domain.protocols import FileMarks
from stoker.domain.serve import Driver, Serve
from stoker.engines import plan
from stoker.engines.launch import LaunchPlace
from stoker.engines.registry import ENGINES
from stoker.store.files.split_gguf import model_files

MOST_IN_A_FOLDER = 2000
_READ = (".gguf", ".safetensors", ".bin", ".pt", ".json", ".jinja", ".yaml", ".yml", ".py", ".sh")
"""What an engine reads and never writes: its log, if an option names that, changes with every start."""


def marks(serve: Serve) -> FileMarks:
    """Of the weights, the engine, and the files that its command line names; those that do not exist are left out.

    Call it for a serve whose command line can be made: see `plan.problems`. Contents are not read.
    """
    if serve.driver in (Driver.EXTERNAL, Driver.RAY):
        return ()
    found = {path: seen for path in _paths(serve) if (seen := _stat(path)) is not None}
    return tuple((path, seen.st_ino, seen.st_size, seen.st_mtime_ns) for path, seen in sorted(found.items()))


def _paths(serve: Serve) -> Iterator[str]:
    if serve.model:
        for path in model_files(os.path.join(serve.working_directory, serve.model)):
            yield path
            yield from _inside(path)
    if serve.driver is Driver.PROCESS:
        words = plan.plan(serve, LaunchPlace(serve.port or 1, "")).argv
        modules = {part: package for engine in ENGINES.values() for part, package in engine.modules.items()}
        for package in {package for part, package in modules.items() if any(part in word for word in words)}:
            if (spec := find_spec(package)) is not None and spec.origin is not None:
                yield from _inside(os.path.dirname(spec.origin))
    else:
        words = serve.up or ()
    for place, word in enumerate((*words, *serve.requires.files)):
        for part in (word, word.partition("=")[2]):
            if place == 0 or part.endswith(_READ):
                yield os.path.join(serve.working_directory, part)


def _inside(path: str) -> Iterator[str]:
    """The files of a folder of weights."""
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            yield from (entry.path for entry in itertools.islice(entries, MOST_IN_A_FOLDER))


def _stat(path: str) -> os.stat_result | None:
    """None: there is no such file. A folder changes with what lies in it, so it counts only by that."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(seen.st_mode) else seen
