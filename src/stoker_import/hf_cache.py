"""The cache of the Hugging Face hub, and that of llama.cpp: models are served from the snapshot that `main` names.

`models--ORG--REPO/refs/main` holds a commit, `snapshots/COMMIT/` the files of it, each a link to a blob. A model is
served by its path in the snapshot, because the parts of a split model are found by name, and blobs have no names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker_import.gguf_folders import (
    FolderModel,
    gguf_files,
    is_projector,
    model_name,
    projector_beside,
    quantization,
    read_json,
    unfinished_files,
)
from stoker_import.imported import KeyOutcome, KeyReport

ORIGIN, LLAMA_CPP = "Hugging Face cache", "llama.cpp cache"
_LANGUAGE_MODEL = re.compile(r"ForCausalLM$|ForConditionalGeneration$|LMHeadModel$")
_COMMIT = re.compile(r"[0-9a-f]{6,64}")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model in the hub's own format, for vLLM or SGLang: `ORG/REPO`."""

    repository: str
    snapshot: Path


def find_hub(environment: Mapping[str, str], home: Path) -> Path:
    """Where the hub's client keeps models: `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`, else `~/.cache`."""
    given = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    if given:
        return Path(os.path.expanduser(given))
    own = environment.get("HF_HOME")
    if own:
        return Path(os.path.expanduser(own)) / "hub"
    return _cache_home(environment, home) / "huggingface" / "hub"


def find_llama_cache(environment: Mapping[str, str], home: Path) -> Path:
    """Where llama.cpp kept the models of `-hf`, before it used the hub's cache."""
    given = environment.get("LLAMA_CACHE")
    return Path(os.path.expanduser(given)) if given else _cache_home(environment, home) / "llama.cpp"


def _cache_home(environment: Mapping[str, str], home: Path) -> Path:
    given = environment.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else home / ".cache"


def read_hub(hub: Path) -> tuple[list[FolderModel], list[HubModel], list[KeyReport]]:
    """GGUF models, models in the hub's own format, and a report of what is unfinished or cannot be served."""
    ggufs: list[FolderModel] = []
    others: list[HubModel] = []
    report: list[KeyReport] = []
    for folder in sorted(hub.glob("models--*")) if hub.is_dir() else []:
        repository = folder.name.removeprefix("models--").replace("--", "/")
        if any(folder.glob("blobs/*.incomplete")):
            note = f"a download was not completed: `hf download {repository}` finishes it"
            report.append(KeyReport(repository, "blobs", KeyOutcome.DROPPED, note=note))
        snapshot = current_snapshot(folder)
        if snapshot is None:
            continue
        found = list(_gguf_models(repository, snapshot))
        ggufs += found
        if not found:
            hub_model, rows = _hub_model(repository, snapshot)
            others += [hub_model] if hub_model is not None else []
            report += rows
    return ggufs, others, report


def current_snapshot(folder: Path) -> Path | None:
    """The snapshot of `refs/main`; without one, the newest. None: nothing was downloaded."""
    try:
        commit = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        commit = ""
    if _COMMIT.fullmatch(commit) and (folder / "snapshots" / commit).is_dir():
        return folder / "snapshots" / commit
    others = [path for path in folder.glob("snapshots/*") if path.is_dir()]
    return max(others, default=None, key=lambda path: (path.stat().st_mtime, path.name))


def _gguf_models(repository: str, snapshot: Path) -> Iterator[FolderModel]:
    files = list(gguf_files(snapshot))
    models = [path for path in files if not is_projector(path)]
    quantizations = [quantization(path) for path in models]
    for path in models:
        quantized = quantization(path)
        is_named = bool(quantized) and quantizations.count(quantized) == 1
        names = [f"{repository}:{quantized}"] if is_named else []
        names += [repository] if len(models) == 1 else []
        yield FolderModel(
            title=f"{repository}/{path.relative_to(snapshot)}",
            name=model_name(repository.rsplit("/", 1)[-1], path) if is_named or len(models) == 1 else path.stem,
            path=path.absolute(),
            origin=ORIGIN,
            aliases=tuple(names),
            projector=projector_beside(path, files) or _only_projector(files),
        )


def _only_projector(files: Sequence[Path]) -> Path | None:
    """The projector of a repository that keeps its quantisations in folders."""
    found = [file for file in files if is_projector(file)]
    return found[0] if len(found) == 1 else None


def _hub_model(repository: str, snapshot: Path) -> tuple[HubModel | None, list[KeyReport]]:
    """A language model with its weights. Other models, and models without weights, get a row in the report."""
    config = read_json(snapshot / "config.json")
    names = config.get("architectures") if isinstance(config, dict) else None
    weights = [file for file in snapshot.glob("*.safetensors") if file.exists()]
    if not isinstance(names, list) or not any(_LANGUAGE_MODEL.search(str(name)) for name in names):
        note = "it is no language model, or not all of it was downloaded"
        return None, [KeyReport(repository, "model", KeyOutcome.DROPPED, note=note)]
    missing = missing_weights(snapshot)
    if not weights or missing:
        what = f"{missing[0]} is missing" if missing else "it has no weights"
        note = f"{what}: `hf download {repository}` fetches the rest"
        return None, [KeyReport(repository, "model", KeyOutcome.DROPPED, note=note)]
    return HubModel(repository, snapshot), []


def missing_weights(snapshot: Path) -> list[str]:
    """Files that the index of a model's weights lists but that are missing."""
    index: Any = read_json(snapshot / "model.safetensors.index.json")
    places = index.get("weight_map") if isinstance(index, dict) else None
    names = sorted({str(name) for name in places.values()}) if isinstance(places, dict) else []
    return [name for name in names if not (snapshot / name).exists()]


def read_llama_cache(cache: Path) -> tuple[list[FolderModel], list[KeyReport]]:
    """Models that llama.cpp itself downloaded: `ORG_REPO_FILE.gguf`, with `manifest=ORG=REPO=TAG.json` beside it."""
    files = [path for path in gguf_files(cache, depth=1) if path.exists()]
    repositories = [
        "/".join(parts[1:3]) for path in cache.glob("manifest=*=*=*.json") if len(parts := path.stem.split("=")) == 4
    ]
    found = []
    for path in files:
        if is_projector(path):
            continue
        repository = next((one for one in repositories if path.name.startswith(_prefix(one))), "")
        beside = [file for file in files if repository and file.name.startswith(_prefix(repository))]
        quantized = quantization(path)
        found.append(
            FolderModel(
                title=path.name,
                name=model_name(repository.rsplit("/", 1)[-1], path) if repository else path.stem,
                path=path.absolute(),
                origin=LLAMA_CPP,
                aliases=(f"{repository}:{quantized}",) if repository and quantized else (),
                projector=projector_beside(path, beside),
            )
        )
    note = "the download was not completed: repeat it with llama-server"
    report = [KeyReport(path.name, "model", KeyOutcome.DROPPED, note=note) for path in unfinished_files(cache, 1)]
    return found, report


def _prefix(repository: str) -> str:
    return f"{repository.replace('/', '_')}_"
