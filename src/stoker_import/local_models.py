"""Model files that other programs downloaded to this machine, for `stoker init`. Bounded in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.cli.machine.discover import ModelFile
from stoker.domain.errors import UnreadableModel
from stoker.store.files.gguf_header import read_header
from stoker.store.files.model_file import problem_of
from stoker_import import hf_cache, lmstudio
from stoker_import.gguf_folders import FolderModel, gguf_files, is_projector
from stoker_import.ollama import list_names
from stoker_import.ollama_engine import foreign_layout, is_embedding_model
from stoker_import.ollama_store import UnreadableStore, find_stores, read_model

SEARCH_SECONDS = 5.0
"""Time limit for all of it. Ollama's models take the longest: the header of each is read."""


@dataclass(frozen=True, slots=True)
class LeftOutModel:
    """A model that was found but is not offered."""

    title: str
    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class LocalModels:
    """What was found; each file once."""

    models: tuple[ModelFile, ...]
    left_out: tuple[LeftOutModel, ...]


def find_local_models(
    environment: Mapping[str, str],
    home: Path,
    root: Path = Path("/"),
    clock: Callable[[], float] = time.monotonic,
) -> LocalModels:
    """Models of Ollama, LM Studio, the hub's and llama.cpp's caches, Jan and GPT4All, in this order."""
    deadline = clock() + SEARCH_SECONDS
    found: dict[Path, ModelFile] = {}
    left_out = []
    for entry in _every_model(environment, home, root):
        if clock() > deadline:
            left_out.append(LeftOutModel("the rest", "this machine", "the search took too long: see `stoker import`"))
            break
        if isinstance(entry, LeftOutModel):
            left_out.append(entry)
        else:
            found.setdefault(entry.path.resolve(), entry)
    return LocalModels(tuple(found.values()), tuple(left_out))


def _every_model(environment: Mapping[str, str], home: Path, root: Path) -> Iterator[ModelFile | LeftOutModel]:
    yield from _ollama(find_stores(environment, home, root))
    homes = lmstudio.find_homes(home)
    for folder in lmstudio.find_folders(home):
        yield from _files(lmstudio.read_folder(folder, homes)[0])
    yield from _files(hf_cache.read_hub(hf_cache.find_hub(environment, home))[0])
    yield from _files(hf_cache.read_llama_cache(hf_cache.find_llama_cache(environment, home))[0])
    share = home / ".local" / "share"
    for folder in (share / "Jan" / "data" / "llamacpp" / "models", home / ".config/Jan/data/llamacpp/models",
                   home / "jan" / "models"):  # fmt: skip
        yield from _jan(folder)
    for folder in (share / "nomic.ai" / "GPT4All", home / ".cache" / "gpt4all"):
        for path in gguf_files(folder, depth=1):
            yield _model(path, "", "GPT4All")


def _ollama(stores: list[Path]) -> Iterator[ModelFile | LeftOutModel]:
    try:
        names = list_names(stores)
    except UnreadableStore as error:
        yield LeftOutModel(str(stores[0]), "Ollama", error.message)
        return
    for name, (store, manifest) in names.items():
        weights = read_model(store, name, manifest).of_kind("model")
        if len(weights) != 1:
            yield LeftOutModel(str(name), "Ollama", f"it is no GGUF file: see `stoker import ollama {name} --check`")
            continue
        path = weights[0].path
        try:
            header = read_header(str(path))
        except UnreadableModel as error:
            yield LeftOutModel(str(name), "Ollama", error.message)
            continue
        if foreign_layout(header):
            reason = f"only Ollama's own llama-server loads it: see `stoker import ollama {name} --check`"
            yield LeftOutModel(str(name), "Ollama", reason)
        elif is_embedding_model(header):
            yield LeftOutModel(
                str(name), "Ollama", f"it answers with vectors: see `stoker import ollama {name} --check`"
            )
        else:
            yield ModelFile(path, path.stat().st_size, name.short, f"Ollama ({name})")


def _jan(folder: Path) -> Iterator[ModelFile | LeftOutModel]:
    """Jan names every file `model.gguf`, so the folder gives the model's name."""
    for path in gguf_files(folder):
        if not is_projector(path):
            yield _model(path, path.parent.name if path.stem == "model" else "", "Jan")


def _files(models: list[FolderModel]) -> Iterator[ModelFile | LeftOutModel]:
    return (_model(model.path, "", model.origin) for model in models)


def _model(path: Path, name: str, origin: str) -> ModelFile | LeftOutModel:
    if problem := problem_of(str(path)):
        return LeftOutModel(path.name, origin, problem)
    return ModelFile(path, path.stat().st_size, name, origin)
