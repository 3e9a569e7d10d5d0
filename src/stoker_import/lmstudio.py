"""LM Studio's models: `PUBLISHER/REPOSITORY/FILE.gguf` in its folder, and the settings that it keeps for each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.cli.machine.serve_plan import PARALLEL
from stoker_import.gguf_folders import (
    FolderModel,
    gguf_files,
    is_projector,
    model_name,
    projector_beside,
    quantization,
    read_json,
    stem,
    unfinished_files,
    without_gguf,
)
from stoker_import.imported import KeyOutcome, KeyReport
from stoker_import.owned_models import shown

ORIGIN = "LM Studio"
_SAMPLING = {
    "llm.prediction.temperature": "temperature", "llm.prediction.topPSampling": "top_p",
    "llm.prediction.topKSampling": "top_k", "llm.prediction.minPSampling": "min_p",
    "llm.prediction.repeatPenalty": "repetition_penalty",
}  # fmt: skip
_REQUEST = {"llm.prediction.maxPredictedTokens": "max_tokens", "llm.prediction.stopStrings": "stop"}
_KEYS = {
    "llm.load.llama.cpuThreadPoolSize": "threads", "llm.load.llama.evalBatchSize": "batched_tokens",
    "llm.load.numParallelSessions": "parallel",
}  # fmt: skip
_CACHE = "llm.load.llama.kCacheQuantizationType"
_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


def find_homes(home: Path) -> list[Path]:
    """LM Studio's own directories: where its pointer file says, else the usual ones that exist."""
    try:
        pointed = (home / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        pointed = ""
    usual = [*([Path(pointed)] if pointed else []), home / ".lmstudio", home / ".cache" / "lm-studio"]
    return [place for place in dict.fromkeys(usual) if place.is_dir()]


def find_folders(home: Path) -> list[Path]:
    """Folders with models: `downloadsFolder` of LM Studio's settings, and `models` in its own directories."""
    folders = []
    for own in find_homes(home):
        settings = read_json(own / "settings.json")
        chosen = settings.get("downloadsFolder") if isinstance(settings, dict) else None
        folders += [Path(chosen)] if isinstance(chosen, str) and chosen else []
        folders.append(own / "models")
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def read_folder(folder: Path, homes: list[Path]) -> tuple[list[FolderModel], list[KeyReport]]:
    """The models of one folder, and what cannot be served."""
    files = list(gguf_files(folder))
    models = [path for path in files if not is_projector(path)]
    repositories = [path.parent for path in models]
    found = [_model(path, folder, files, is_only=repositories.count(path.parent) == 1, homes=homes) for path in models]
    return found, [*_foreign_folders(folder), *_unfinished(folder)]


def _model(path: Path, folder: Path, files: list[Path], is_only: bool, homes: list[Path]) -> FolderModel:
    place = path.relative_to(folder)
    repository = place.parent.name or stem(path)
    short = without_gguf(repository).lower()
    quantized = quantization(path).lower()
    alias = short if is_only or not quantized else f"{short}@{quantized}"
    title = str(place)
    settings = next((one for home in homes if (one := _settings(home, place))), {})
    carried, context, report = _carry(title, settings)
    parallel = carried.pop("parallel", PARALLEL)
    return FolderModel(
        title=title,
        name=model_name(repository, path),
        path=path.absolute(),
        origin=ORIGIN,
        aliases=tuple(dict.fromkeys((alias, title) if " " not in title else (alias,))),
        projector=projector_beside(path, files),
        context=context,
        parallel=parallel,
        keys=carried,
        report=tuple(report),
    )


def _settings(home: Path, place: Path) -> dict[str, Any]:
    """What LM Studio keeps for one file: the fields of loading and of prediction."""
    found = read_json(home / ".internal" / "user-concrete-model-default-config" / f"{place}.json")
    fields: dict[str, Any] = {}
    for part in ("load", "operation"):
        section = found.get(part) if isinstance(found, dict) else None
        rows = section.get("fields") if isinstance(section, dict) else None
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict) and isinstance(row.get("key"), str):
                fields[row["key"]] = row.get("value")
    return fields


def _carry(title: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], int | None, list[KeyReport]]:
    """Keys of the serve, its context, and a row for each setting.

    A value may be wrapped: `{"checked": true, "value": 0.9}`; if it is not checked, LM Studio does not use it.
    """
    keys: dict[str, Any] = {}
    context = None
    report = []
    for key, given in settings.items():
        value = given
        if isinstance(given, dict) and "checked" in given:
            if not given["checked"]:
                report.append(KeyReport(title, key, KeyOutcome.IGNORED, note="it is switched off in LM Studio"))
                continue
            value = given.get("value")
        if key == "llm.load.contextLength" and _is_number(value):
            context = int(value)  # the planner reports it, because it may have to be smaller
            continue
        became = _carry_one(keys, key, value)
        outcome = KeyOutcome.CARRIED if became else KeyOutcome.DROPPED
        report.append(KeyReport(title, key, outcome, became, "" if became else "Stoker has no such setting"))
    return keys, context, report


def _carry_one(keys: dict[str, Any], key: str, value: Any) -> str:
    """The resulting key; empty if there is none."""
    if key in _SAMPLING and _is_number(value):
        keys.setdefault("sampling", {})[_SAMPLING[key]] = value
        return shown(f"sampling.{_SAMPLING[key]}", value)
    if key in _REQUEST and (_is_number(value) or (isinstance(value, list) and value)):
        keys.setdefault("request", {}).setdefault("default", {})[_REQUEST[key]] = value
        return shown(f"request.default.{_REQUEST[key]}", value)
    if key in _KEYS and _is_number(value) and value >= 1:
        keys[_KEYS[key]] = int(value)
        return shown(_KEYS[key], int(value))
    if key == _CACHE and value in _CACHE_TYPES:
        keys["kv_cache_type"] = value
        return shown("kv_cache_type", value)
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _foreign_folders(folder: Path) -> list[KeyReport]:
    """Models in other formats: MLX for Apple's processors."""
    note = "it is an MLX or safetensors model, which llama.cpp does not load: download the GGUF files of this model"
    found = sorted({file.parent for file in folder.glob("*/*/*.safetensors")})
    return [
        KeyReport(str(place.relative_to(folder)), "model", KeyOutcome.FAILED, note=note)
        for place in found
        if not any(place.glob("*.gguf"))
    ]


def _unfinished(folder: Path) -> list[KeyReport]:
    note = "the download was not completed: finish it in LM Studio"
    return [
        KeyReport(str(file.relative_to(folder)), "model", KeyOutcome.DROPPED, note=note)
        for file in unfinished_files(folder)
    ]
