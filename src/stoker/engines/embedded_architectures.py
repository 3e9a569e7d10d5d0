"""Whether the embedded llama.cpp knows the architecture of a model, told before anything is stopped for it."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec

from stoker.domain.serve import Serve
from stoker.store.files.model_file import architecture_of

_CHUNK = 2**20
_KNOWN_EVERYWHERE = ("llama", "qwen2", "gemma", "bert")
"""Architectures that every build of llama.cpp knows: where their names are found, the table of names is."""


def problems(serve: Serve) -> list[str]:
    """At most one sentence, for a model file that has no other problem. Only the embedded engine can be asked what it
    knows without starting it. Takes milliseconds; the first time, tenths of a second.
    """
    if not os.path.isfile(serve.model):
        return []
    name, library = architecture_of(serve.model), _library()
    if not name or library is None or _has_name(library, name):
        return []
    if not all(_has_name(library, one) for one in _KNOWN_EVERYWHERE):
        return []
    return [
        f"{serve.model} has the architecture '{name[:60]}', which the embedded llama.cpp does not know: update it with "
        "`pip install -U xllamacpp`, or take another file"
    ]


def _library() -> str | None:
    """The file of the embedded engine."""
    spec = find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.dirname(spec.origin)
    found = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".so")]
    return found[0] if len(found) == 1 else None


def _has_name(library: str, name: str) -> bool:
    """Whether the library has this text."""
    seen = os.stat(library)
    return _is_in(library, seen.st_size, seen.st_mtime_ns, name)


@lru_cache(maxsize=256)
def _is_in(library: str, size: int, changed: int, name: str) -> bool:
    """`size` and `changed` tell one version of the library from another. Reads in pieces, so that others go on."""
    wanted, rest = name.encode("utf-8", "replace") + b"\0", b""
    with open(library, "rb") as file:
        while piece := file.read(_CHUNK):
            if wanted in rest + piece:
                return True
            rest = piece[-len(wanted) :]
    return False
