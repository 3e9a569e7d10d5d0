"""GGUF files in folders: which can be served, their names, and the projector of each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.cli.machine.discover import ModelFile
from stoker.cli.machine.serve_plan import PARALLEL
from stoker.store.files.gguf_header import Header, read_header
from stoker.store.files.model_file import is_later_part, problem_of
from stoker.store.files.split_gguf import parse_part
from stoker_import.imported import KeyOutcome, KeyReport
from stoker_import.ollama_engine import architecture_of, foreign_layout, is_embedding_model
from stoker_import.owned_models import OwnedModel, shown

_QUANTIZATION = re.compile(
    r"[-_.]((?:UD-)?(?:I?Q\d[A-Z0-9_]*|TQ\d_\d|BF16|F16|FP16|F32|MXFP4(?:_MOE)?))$", re.IGNORECASE
)
_UNFINISHED = re.compile(r"\.gguf\.(?:part|incomplete|downloadInProgress|crdownload|tmp)$|^downloading_", re.IGNORECASE)
_DEPTH = 6
EMBEDDING_BATCH = 2048
"""Context in tokens of an embedding model whose header does not give one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderModel:
    """One GGUF model in a folder; of a split one, its first file."""

    title: str
    """The other program's name for it."""
    name: str
    path: Path
    origin: str
    aliases: tuple[str, ...] = ()
    projector: Path | None = None
    context: int | None = None
    parallel: int = PARALLEL
    keys: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[tuple[str, ...], ...] = ()
    report: tuple[KeyReport, ...] = ()


def gguf_files(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The first or only file of each GGUF model below `folder`, whatever is wrong with it, projectors included; hidden
    folders are skipped.
    """
    for path in _files(folder, depth):
        if path.name.lower().endswith(".gguf") and not is_later_part(str(path)):
            yield path


def unfinished_files(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Incomplete downloads."""
    return (path for path in _files(folder, depth) if _UNFINISHED.search(path.name))


def _files(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # missing, or not readable
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth > 0 and not entry.name.startswith("."):
                yield from _files(Path(entry.path), depth - 1)
        elif entry.name.isprintable():
            yield Path(entry.path)


def is_projector(path: Path) -> bool:
    """Whether the file, by its name, is the vision or sound encoder of another one."""
    return "mmproj" in path.name.lower()


def projector_beside(path: Path, files: Sequence[Path]) -> Path | None:
    """The projector in the folder of a model; of several, not the largest, which is F32."""
    found = [file for file in files if file.parent == path.parent and is_projector(file)]
    return min(found, key=lambda file: ("f32" in file.name.lower(), file.name), default=None)


def quantization(path: Path) -> str:
    """`Q4_K_M` of `Qwen3-8B-Q4_K_M-00001-of-00002.gguf`; empty: the name does not say."""
    found = _QUANTIZATION.search(stem(path))
    return found[1] if found else ""


def stem(path: Path) -> str:
    """The file's name without its ending, and without the number of a part."""
    part = parse_part(path.name)
    return part.stem if part is not None else re.sub(r"\.gguf$", "", path.name, flags=re.IGNORECASE)


def without_gguf(repository: str) -> str:
    """`Qwen3-8B` of `Qwen3-8B-GGUF`."""
    return re.sub(r"[-_.]gguf$", "", repository, flags=re.IGNORECASE)


def model_name(repository: str, path: Path) -> str:
    """The repository without `-GGUF`, and the quantisation."""
    return "-".join(part for part in (without_gguf(repository), quantization(path)) if part)


def owned_model(model: FolderModel) -> tuple[OwnedModel | None, tuple[KeyReport, ...]]:
    """How the model is served; None if it cannot be, and the report says why. Reads its header."""
    for is_language_model, outcome in ((False, KeyOutcome.FAILED), (True, KeyOutcome.DROPPED)):
        if problem := problem_of(str(model.path), is_language_model):
            return None, (KeyReport(model.title, "model", outcome, note=problem),)
    header = read_header(str(model.path))
    reason = foreign_layout(header)
    if reason:
        note = f"stock llama.cpp does not load it: {reason}; download the model as llama.cpp converts it"
        return None, (KeyReport(model.title, "model", KeyOutcome.FAILED, note=note),)
    report = list(model.report)
    keys, arguments, context = dict(model.keys), list(model.arguments), model.context
    if model.projector is not None:
        arguments.append(("--mmproj", str(model.projector)))
        keys["modalities"] = ["text", "image"]
        became = shown("extra_args", ["--mmproj", str(model.projector)])
        report.append(KeyReport(model.title, "projector", KeyOutcome.CARRIED, became))
    if is_embedding_model(header):
        context = embedding_context(header, context)
        keys["dialects"] = ["embeddings"]
        arguments += embedding_arguments(context)
    return OwnedModel(
        title=model.title,
        name=model.name,
        file=ModelFile(model.path, model.path.stat().st_size, model.name, model.origin),
        aliases=model.aliases,
        context=context,
        parallel=model.parallel,
        keys=keys,
        arguments=tuple(arguments),
        report=tuple(report),
    ), ()


def parts_of(path: Path) -> list[Path]:
    """All files of a model, by the first one's name; they need not exist."""
    part = parse_part(path.name)
    return [path] if part is None else [path.with_name(name) for name in part.siblings()]


def embedding_context(header: Header, wanted: int | None) -> int:
    """The context of an embedding model: at most what it was trained for, because it reads its input in one batch."""
    trained = header.facts.get(f"{architecture_of(header)}.context_length")
    given = [number for number in (wanted, trained) if isinstance(number, int) and number > 0]
    return min(given, default=EMBEDDING_BATCH)


def embedding_arguments(context: int) -> list[tuple[str, ...]]:
    """llama-server's options for a model that answers with vectors."""
    return [("--embeddings",), ("-b", str(context)), ("-ub", str(context))]


def read_json(path: Path) -> Any:
    """A small JSON file of another program; None if it is missing or unreadable."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
