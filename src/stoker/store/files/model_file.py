"""What is wrong with a model file: said here alone, for commands, imports, `stoker doctor` and every start."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from stoker.domain.errors import UnreadableModel
from stoker.store.files import gguf_header
from stoker.store.files.split_gguf import GgufPart, model_files, parse_part

_POINTER = b"version https://git-lfs"
_REMEMBERED = 2048
"""Files whose headers are not read again until they change."""


def problem_of(path: str, is_language_model: bool = True) -> str:
    """Why no engine can load the GGUF file at `path`, or a part of that model: the file, why, and what to do, in one
    sentence. Empty: nothing that names and headers can tell.

    Without `is_language_model` a projector, an adapter or anything else in a whole GGUF file is right, too.
    Blocks: headers are read once (up to 0.2 s for a large vocabulary), and again after a file has changed.
    """
    named = parse_part(path)
    if named is not None and named.number != 1:
        first = str(GgufPart(named.stem, 1, named.count))
        if missing := absence(first, f", part 1 of {named.count},"):
            return missing
        return f"{path} is part {named.number} of {named.count}: name the first part instead, {first}"
    files = model_files(path)
    for number, file in enumerate(files, start=1):
        part = f", part {number} of {len(files)}," if len(files) > 1 else ""
        if problem := absence(file, part):
            return problem
    for file in files:
        if problem := _content_problem(file, len(files)):
            return problem
    return _kind_problem(files) if is_language_model else ""


def absence(path: str, part: str = "") -> str:
    """Why there is no file to read at `path`; empty: there is one. `part`: which part of a model it is."""
    if os.path.isdir(path):
        return f"{path} is a directory: name one GGUF file, or the first part of one"
    if os.path.exists(path):
        return ""
    if os.path.islink(path):
        target = os.path.join(os.path.dirname(path), os.readlink(path))
        return f"{path} is a link to {target}, which does not exist: download the model again, or correct the link"
    return f"{path}{part} does not exist: put the file there, or correct the path"


def architecture_of(path: str) -> str:
    """The architecture that the header of the GGUF file at `path` names; empty: none, or it cannot be read. Blocks."""
    return _summary(path).architecture


def is_later_part(path: str) -> bool:
    """Whether an earlier part of the same model lies beside this file."""
    part = parse_part(path)
    return part is not None and any(os.path.lexists(one) for one in part.siblings()[: part.number - 1])


def _content_problem(path: str, count: int) -> str:
    """Why the file at `path`, one of `count`, cannot be loaded."""
    try:
        with open(path, "rb") as file:
            head = file.read(24)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror}): give this user the right to read it"
    if not head:
        return f"{path} is empty: download it again"
    if head.startswith(_POINTER[: len(head)]):
        return f"{path} is a git-lfs pointer, not the weights: fetch them with `git lfs pull`"
    if head[:4] != b"GGUF":
        return f"{path} is not a GGUF file: download it again, or name another file"
    found = _summary(path)
    if found.parts > 1 and count == 1 and not found.problem:
        return (
            f"{path} is one of {found.parts} parts by its header, but its name does not say which: llama.cpp finds the "
            f"others by NAME-00001-of-{found.parts:05d}.gguf; give the files their names back"
        )
    return found.problem


def _kind_problem(files: list[str]) -> str:
    """Why whole GGUF files are no language model."""
    first = _summary(files[0])
    if first.architecture == "clip":
        return f"{files[0]} is a projector of another model: name the model's own file, and this one with `--mmproj`"
    if first.kind not in ("", "model"):
        return f"{files[0]} is no model but of type '{first.kind}', by its header: name the model's own file"
    if not any(_summary(file).has_weights for file in files):
        return f"{files[0]} has no weights in it: download it again, or name another file"
    return ""


@dataclass(frozen=True, slots=True)
class _Summary:
    """What counts of one file's header."""

    problem: str = ""
    parts: int = 1
    kind: str = ""
    architecture: str = ""
    has_weights: bool = False


def _summary(path: str) -> _Summary:
    try:
        found = os.stat(path)
    except OSError as error:
        return _Summary(f"{path} cannot be read ({error.strerror}): download it again")
    return _summary_of(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=_REMEMBERED)
def _summary_of(path: str, inode: int, size: int, changed: int) -> _Summary:
    """`inode`, `size` and `changed` tell one content of the file from another."""
    try:
        header = gguf_header.read_header(path)
    except UnreadableModel as error:
        return _Summary(error.message)
    kind, architecture = header.facts.get("general.type"), header.facts.get("general.architecture")
    return _Summary(
        parts=gguf_header.whole(header.facts, "split.count") or 1,
        kind=kind if isinstance(kind, str) and kind.isprintable() else "",
        architecture=architecture if isinstance(architecture, str) else "",
        has_weights=any(size for _, size, _, _ in header.tensors),
    )
