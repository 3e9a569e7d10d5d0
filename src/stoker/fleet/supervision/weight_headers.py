"""What the header of a GGUF model tells before anything is stopped for it. Reads each file once, until it changes."""

from __future__ import annotations

import os
from collections import OrderedDict
from importlib.util import find_spec
from typing import TypeVar

from stoker.domain.serve import Serve
from stoker.fleet.engines.launch import find_command
from stoker.fleet.engines.llama_cpp import SERVER
from stoker.fleet.engines.plan import ADAPTERS
from stoker.fleet.memory.fit.gguf import Header, read_header
from stoker.fleet.memory.fit.shape import UnreadableModel
from stoker.store.files.split_gguf import model_files, parse_part

K = TypeVar("K")
V = TypeVar("V")
MOST_REMEMBERED = 1000
_WANTED = ("general.architecture", "split.count")
_CHUNK = 2**20
_KNOWN_EVERYWHERE = ("llama", "qwen2", "gemma", "bert")
"""Architectures that every build of llama.cpp knows: where their names are found, the table of names is."""

_Mark = tuple[str, int, int, int]
_read: OrderedDict[_Mark, str | Header] = OrderedDict()
"""By path, inode, size and time of change: what is wrong with the file, or the facts of its header."""
_knows: OrderedDict[tuple[_Mark, str], bool] = OrderedDict()


def problems(serve: Serve) -> list[str]:
    """One sentence for each file that is cut off or broken, a missing part, and an architecture that the embedded
    engine does not know. Takes milliseconds; the first time, tenths of a second.
    """
    is_used = serve.cmd is None or any("{model}" in word for word in serve.cmd)
    if not is_used or serve.engine not in ADAPTERS or not os.path.isabs(serve.model) or not os.path.isfile(serve.model):
        return []
    found = []
    headers = [_header(path) for path in model_files(serve.model) if os.path.isfile(path)]
    for header in headers:
        if isinstance(header, str):
            found.append(header)
    if found or not headers or not isinstance(headers[0], Header):
        return found
    return [problem for problem in (_missing_part(serve, headers[0]), _unknown(serve, headers[0])) if problem]


def _header(path: str) -> str | Header:
    try:
        mark = _mark(path)
        with open(path, "rb") as file:
            if file.read(4) != b"GGUF":
                return Header({}, ())  # the weights of another kind of engine
    except OSError as error:
        return f"{path} cannot be read ({error.strerror}): correct the path, or its permissions"
    known = _read.get(mark)
    if known is None:
        try:
            facts = read_header(path).facts
            known = Header({key: value for key, value in facts.items() if key in _WANTED}, ())
        except UnreadableModel as unreadable:
            known = unreadable.message
        _remember(_read, mark, known)
    return known


def _missing_part(serve: Serve, header: Header) -> str | None:
    """Of a split model that does not have the name of one. Where its name says how many parts there are, each was
    looked for already.
    """
    count = header.facts.get("split.count")
    if not isinstance(count, int) or count < 2:
        return None
    part = parse_part(serve.model)
    if part is not None and part.number == 1:
        return None
    return (
        f"{serve.model} is one of {count} parts of a model: give the first one, whose name ends with "
        f"-00001-of-{count:05d}.gguf, with the others beside it"
    )


def _unknown(serve: Serve, header: Header) -> str | None:
    """Only the embedded engine can be asked what it knows without starting it."""
    name = header.facts.get("general.architecture")
    if not isinstance(name, str) or serve.engine != "llama.cpp" or serve.cmd is not None:
        return None
    if serve.embedded is False or (serve.embedded is None and find_command(serve, SERVER) is not None):
        return None
    library = _library()
    if library is None or _has_name(library, name) or not all(_has_name(library, one) for one in _KNOWN_EVERYWHERE):
        return None
    return (
        f"{serve.model} has the architecture '{name[:60]}', which the embedded llama.cpp does not know: update it with "
        "`pip install -U xllamacpp`, or take another file"
    )


def _library() -> str | None:
    """The file of the embedded engine."""
    spec = find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.dirname(spec.origin)
    found = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".so")]
    return found[0] if len(found) == 1 else None


def _has_name(library: str, name: str) -> bool:
    """Whether the library has this text. In pieces, so that others go on meanwhile."""
    mark = _mark(library)
    known = _knows.get((mark, name))
    if known is None:
        wanted = name.encode("utf-8", "replace") + b"\0"
        known, rest = False, b""
        with open(library, "rb") as file:
            while piece := file.read(_CHUNK):
                if wanted in rest + piece:
                    known = True
                    break
                rest = piece[-len(wanted) :]
        _remember(_knows, (mark, name), known)
    return known


def _mark(path: str) -> _Mark:
    seen = os.stat(path)
    return path, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    while len(memory) > MOST_REMEMBERED:
        memory.popitem(last=False)
