"""From Ollama's store to a configuration. Its blobs are served in place; models of one blob share a serve."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stoker.cli.machine.discover import ModelFile
from stoker.cli.machine.serve_plan import PARALLEL, MachineInventory
from stoker.domain.errors import UnreadableModel
from stoker.store.files.gguf_header import Header, read_header
from stoker_import.gguf_folders import embedding_arguments, embedding_context
from stoker_import.imported import ImportedConfig, KeyOutcome, KeyReport
from stoker_import.ollama_engine import (
    OllamaEngine,
    foreign_layout,
    is_embedding_model,
    llama3_corrections,
    sees_its_own_file,
)
from stoker_import.ollama_settings import CarriedSettings, carry_parameters, carry_server_settings
from stoker_import.ollama_store import (
    OllamaName,
    StoredModel,
    UnreadableStore,
    manifest_files,
    read_model,
)
from stoker_import.owned_models import ExternalModel, ImportableModel, OwnedModel, Progress, command_models, shown

ORIGIN = "Ollama"
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class OllamaSource:
    """Where Ollama's models are, and which parts of Ollama can still be used."""

    stores: Sequence[Path]
    environment: Mapping[str, str]
    """Variables of this process and of Ollama's systemd unit."""
    engine: OllamaEngine | None = None
    """Ollama's own llama-server."""
    server: str | None = None
    """Ollama's address, `http://127.0.0.1:11434`, if it keeps serving the models that only it can load."""


def import_ollama(
    source: OllamaSource,
    machine: MachineInventory,
    front_door: Mapping[str, Any],
    chosen: Sequence[str] = (),
    on_progress: Progress = lambda what, share: None,
) -> ImportedConfig:
    """Every model of the stores, or those that `chosen` names. Raises UnreadableStore if there is none to read, or if
    `chosen` names a model that is not there.
    """
    found, report = _read_stores(source, chosen)
    server = carry_server_settings(source.environment)
    models: list[ImportableModel] = []
    for model in found:
        carried, rows = _import_model(model, source, server)
        report += rows
        if carried is not None:
            models.append(carried)
    comments = ("From Ollama's models, which stay where they are: `ollama rm` removes them from here, too.",)
    imported = command_models(_shared(models), machine, front_door, comments, on_progress)
    return replace(imported, report=(*server.report, *_in_order(found, (*report, *imported.report))))


def _in_order(found: Sequence[StoredModel], report: Sequence[KeyReport]) -> list[KeyReport]:
    """The rows of each model together, in the order of the models."""
    places = {str(model.name): place for place, model in enumerate(found)}
    return sorted(report, key=lambda row: places.get(row.model, -1))


def list_names(stores: Sequence[Path]) -> dict[OllamaName, tuple[Path, Path]]:
    """Every model's store and manifest. The first store that has a name wins. Raises UnreadableStore if none is
    readable.
    """
    names: dict[OllamaName, tuple[Path, Path]] = {}
    failures = []
    for store in stores:
        try:
            for name, manifest in manifest_files(store):
                names.setdefault(name, (store, manifest))
        except UnreadableStore as error:
            failures.append(error)
    if failures and not names:
        raise failures[0]
    return names


def _read_stores(source: OllamaSource, chosen: Sequence[str]) -> tuple[list[StoredModel], list[KeyReport]]:
    names = list_names(source.stores)
    unknown = [one for one in chosen if not any(_is_named(name, one) for name in names)]
    if unknown:
        raise UnreadableStore(f"Ollama has no model {unknown[0]}: `ollama list` shows those that it has")
    wanted = [name for name in names if not chosen or any(_is_named(name, one) for one in chosen)]
    report = [
        KeyReport(str(store), "manifests", KeyOutcome.FAILED, note=message)
        for store, message in _unreadable(source.stores)
    ]
    return [read_model(names[name][0], name, names[name][1]) for name in wanted], report


def _unreadable(stores: Sequence[Path]) -> list[tuple[Path, str]]:
    found = []
    for store in stores:
        try:
            manifest_files(store)
        except UnreadableStore as error:
            found.append((store, error.message))
    return found


def _is_named(name: OllamaName, wanted: str) -> bool:
    return wanted.lower() in [spelling.lower() for spelling in name.spellings]


def _import_model(
    model: StoredModel, source: OllamaSource, server: CarriedSettings
) -> tuple[OwnedModel | ExternalModel | None, list[KeyReport]]:
    """The model, if it can be imported, and further rows of the report.

    1. the manifest is unreadable -> failed
    2. the model runs elsewhere, or its weights are no GGUF file -> Ollama keeps serving it, or failed
    3. the blob is gone or broken -> failed
    4. only Ollama's engine loads it -> that engine, if it is installed; else as 2
    5. otherwise -> a serve of its own
    """
    title = str(model.name)
    weights = model.of_kind("model")
    if model.problem:
        return None, [KeyReport(title, "manifest", KeyOutcome.FAILED, note=model.problem)]  # 1
    reason = _no_file_reason(model)
    if reason:
        return _through_ollama(model, source, reason)  # 2
    path = weights[0].path
    try:
        header = read_header(str(path))
    except UnreadableModel as error:
        gone = f"{path} is gone: `ollama pull {title}`, or remove the model with `ollama rm {title}`"
        note = error.message if path.exists() else gone
        return None, [KeyReport(title, "model", KeyOutcome.FAILED, note=note)]  # 3
    reason = foreign_layout(header)
    if reason and source.engine is None:
        return _through_ollama(model, source, f"only Ollama's own llama-server loads it: {reason}")  # 4
    return _owned(model, header, source, server, reason), []  # 4, 5


def _no_file_reason(model: StoredModel) -> str:
    """Why there is no weights file to serve; empty if there is one."""
    host = (model.config or {}).get("remote_host")
    if host:
        return f"it is a cloud model, which runs at {host}"
    if model.of_kind("tensor"):
        return "its weights are separate tensors (safetensors, MLX), which only Ollama loads"
    count = len(model.of_kind("model"))
    return "" if count == 1 else f"its manifest has {count or 'no'} model layers, where one is served"


def _through_ollama(
    model: StoredModel, source: OllamaSource, reason: str
) -> tuple[ExternalModel | None, list[KeyReport]]:
    title = str(model.name)
    if source.server is None:
        advice = "keep Ollama running and add --through-ollama, or leave the model out with --partial"
        return None, [KeyReport(title, "model", KeyOutcome.FAILED, note=f"{reason}; {advice}")]
    url = f"{source.server}/v1"
    note = f"{reason}; Ollama has to keep running"
    row = KeyReport(title, "model", KeyOutcome.CHANGED, shown("base_url", url), note)
    keys = {"engine": "openai", "base_url": url, "served_name": title}
    aliases = tuple(name for name in model.name.spellings if name != title)
    return ExternalModel(title=title, name=model.name.short, aliases=aliases, keys=keys, report=(row,)), []


def _owned(
    model: StoredModel, header: Header, source: OllamaSource, server: CarriedSettings, foreign: str
) -> OwnedModel:
    title, path = str(model.name), model.of_kind("model")[0].path
    carried = _parameters(model)
    env: dict[str, str] = {}
    if foreign and source.engine is not None:
        env = source.engine.environment(source.environment.get("PATH", os.defpath))
        carried.keys["embedded"] = False
        note = f"{foreign}: Ollama's own llama-server loads it"
        became = shown("env.PATH", f"{source.engine.directory}:...")
        carried.report.append(KeyReport(title, "engine", KeyOutcome.CHANGED, became, note))
    context = carried.context or server.context
    if is_embedding_model(header):
        carried.keys["dialects"] = ["embeddings"]
        context = embedding_context(header, context)
        carried.arguments += embedding_arguments(context)
    _carry_files(model, header, carried, bool(foreign))
    _carry_corrections(title, header, carried)
    _carry_texts(model, header, carried)
    return OwnedModel(
        title=title,
        name=model.name.short,
        file=ModelFile(path, path.stat().st_size, model.name.short, ORIGIN),
        aliases=model.name.spellings,
        context=context,
        parallel=server.keys.get("parallel", PARALLEL),
        keys={key: value for key, value in server.keys.items() if key != "parallel"} | carried.keys,
        arguments=tuple(carried.arguments),
        env=env,
        report=tuple(carried.report),
    )


def _parameters(model: StoredModel) -> CarriedSettings:
    """The parameters of all `params` layers; a later one overrides."""
    title = str(model.name)
    parameters: dict[str, Any] = {}
    rows = []
    for layer in model.of_kind("params"):
        try:
            values = layer.values()
            parameters |= values if isinstance(values, dict) else {}
        except UnreadableStore as error:
            rows.append(KeyReport(title, "PARAMETER", KeyOutcome.FAILED, note=error.message))
    carried = carry_parameters(title, parameters)
    carried.report += rows
    return carried


def _carry_files(model: StoredModel, header: Header, carried: CarriedSettings, is_foreign: bool) -> None:
    """Projectors, adapters and draft models: files beside the weights."""
    title = str(model.name)
    for kind, option in (("projector", "--mmproj"), ("adapter", "--lora")):
        for layer in model.of_kind(kind):
            if layer.path.is_file():
                carried.arguments.append((option, str(layer.path)))
                became = shown("extra_args", [option, str(layer.path)])
                carried.report.append(KeyReport(title, kind, KeyOutcome.CARRIED, became))
            else:
                note = f"{layer.path} is gone: `ollama pull {title}`"
                carried.report.append(KeyReport(title, kind, KeyOutcome.FAILED, note=note))
    if is_foreign and sees_its_own_file(header) and not model.of_kind("projector"):
        path = str(model.of_kind("model")[0].path)
        carried.arguments.append(("--mmproj", path))
        note = "the file has its vision encoder inside"
        carried.report.append(
            KeyReport(title, "projector", KeyOutcome.CARRIED, shown("extra_args", ["--mmproj", path]), note)
        )
    if any(option == "--mmproj" for option, *_ in carried.arguments):
        carried.keys["modalities"] = ["text", "image"]
    for layer in model.of_kind("draft"):
        note = f"speculative decoding is set up by hand: `extra_args` with -md {layer.path}"
        carried.report.append(KeyReport(title, "draft", KeyOutcome.DROPPED, note=note))


def _carry_corrections(title: str, header: Header, carried: CarriedSettings) -> None:
    for key, value in llama3_corrections(header).items():
        words = ("--override-kv", f"{key}={value}")
        carried.arguments.append(words)
        note = "Ollama corrects this old file of Llama 3 when it loads it; now llama.cpp does"
        carried.report.append(KeyReport(title, key, KeyOutcome.CARRIED, shown("extra_args", list(words)), note))


def _carry_texts(model: StoredModel, header: Header, carried: CarriedSettings) -> None:
    """Rows for what Ollama adds to a prompt. Stoker leaves the prompt to the client and the template to the file."""
    title = str(model.name)
    if model.of_kind("template"):
        has_own = isinstance(header.facts.get("tokenizer.chat_template"), str)
        note = "the template in the GGUF file is used; Ollama's is in another language"
        if not has_own and not is_embedding_model(header):
            note = "the GGUF file has none, so llama.cpp takes ChatML: set `chat_template` to the model's own"
        outcome = KeyOutcome.CHANGED if has_own else KeyOutcome.DROPPED
        carried.report.append(KeyReport(title, "TEMPLATE", outcome, note=note))
    for kind, what in (
        ("system", "send it as the first message, of role system"),
        ("messages", "send them with each request"),
    ):
        for layer in model.of_kind(kind):
            try:
                text = " ".join(layer.text().split())
            except UnreadableStore as error:
                text = error.message
            short = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
            key = "SYSTEM" if kind == "system" else "MESSAGE"
            note = f"Stoker adds nothing to prompts: {what} ({short})"
            carried.report.append(KeyReport(title, key, KeyOutcome.DROPPED, note=note))


def _shared(models: Sequence[ImportableModel]) -> list[ImportableModel]:
    """One serve for models of one file with the same settings: the others' names become its aliases."""
    kept: list[ImportableModel] = []
    for model in models:
        place = next((i for i, other in enumerate(kept) if _is_alike(model, other)), None)
        if place is None:
            kept.append(model)
            continue
        first = kept[place]
        note = f"the same file and settings as {first.title}, so it is another name of that serve"
        row = KeyReport(model.title, "model", KeyOutcome.CARRIED, shown("aliases", list(model.aliases)), note)
        kept[place] = replace(
            first, aliases=(*first.aliases, *model.aliases), report=(*first.report, row, *model.report)
        )
    return kept


def _is_alike(model: ImportableModel, other: ImportableModel) -> bool:
    if not (isinstance(model, OwnedModel) and isinstance(other, OwnedModel)):
        return False
    both = (model, other)
    return all(
        one == another
        for one, another in (
            [entry.file.path for entry in both], [entry.context for entry in both], [entry.keys for entry in both],
            [entry.arguments for entry in both],
        )
    )  # fmt: skip
