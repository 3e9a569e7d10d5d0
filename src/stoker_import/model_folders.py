"""From folders with model files to a configuration: LM Studio's, the hub's cache, llama.cpp's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stoker.cli.machine.serve_plan import MachineInventory
from stoker_import.gguf_folders import FolderModel, owned_model
from stoker_import.hf_cache import HubModel
from stoker_import.imported import ImportedConfig, KeyOutcome, KeyReport
from stoker_import.owned_models import (
    EngineModel,
    ImportableModel,
    Progress,
    command_models,
    shown,
)

_HUB_ENGINES = ("vllm", "sglang")


def import_folders(
    found: Sequence[FolderModel],
    hub: Sequence[HubModel],
    report: Sequence[KeyReport],
    machine: MachineInventory,
    front_door: Mapping[str, Any],
    comments: tuple[str, ...] = (),
    on_progress: Progress = lambda what, share: None,
    others: Sequence[EngineModel] = (),
) -> ImportedConfig:
    """A serve for each file, for each model of the hub if an engine for those is installed, and for `others`. A file
    that is found in two places is served once.
    """
    models: list[ImportableModel] = []
    rows: list[KeyReport] = []
    for place, one in enumerate(found):
        on_progress(one.title, place / (2 * len(found)))
        first = next((i for i, other in enumerate(found[:place]) if _is_alike(one, other)), None)
        if first is not None:
            note = f"the same file and settings as {found[first].title}, so it is another name of that serve"
            rows.append(KeyReport(one.title, "model", KeyOutcome.CARRIED, note=note))
            continue
        names = dict.fromkeys(alias for other in found if _is_alike(one, other) for alias in other.aliases)
        model, more = owned_model(replace(one, aliases=tuple(names)))
        rows += more
        models += [model] if model is not None else []
    engine = next((name for name in _HUB_ENGINES if any(one.name == name for one in machine.engines)), None)
    for hub_model in hub:
        if engine is None:
            rows.append(_without_engine(hub_model))
        else:
            models.append(_engine_model(hub_model, engine))
    models += others
    imported = command_models(
        _with_own_aliases(models), machine, front_door, comments, lambda what, share: on_progress(what, (1 + share) / 2)
    )
    return replace(imported, report=(*imported.report, *rows, *report))


def _is_alike(one: FolderModel, other: FolderModel) -> bool:
    """Whether both are one serve: the same file, even by another link, and the same settings."""
    return one is other or (
        (one.context, one.parallel, one.keys, one.arguments, one.projector)
        == (other.context, other.parallel, other.keys, other.arguments, other.projector)
        and one.path.resolve() == other.path.resolve()
    )


def _with_own_aliases(
    models: Sequence[ImportableModel],
) -> list[ImportableModel]:
    """Gives each alias to the first model that has it: models of two publishers may share a name."""
    taken: set[str] = set()
    kept = []
    for model in models:
        aliases = tuple(alias for alias in model.aliases if alias not in taken)
        taken.update(aliases)
        kept.append(replace(model, aliases=aliases))
    return kept


def _without_engine(model: HubModel) -> KeyReport:
    note = "it is for vLLM or SGLang, and neither is installed: install one, or download the GGUF files of this model"
    return KeyReport(model.repository, "model", KeyOutcome.DROPPED, note=note)


def _engine_model(model: HubModel, engine: str) -> EngineModel:
    keys = {"engine": engine, "model": model.repository}
    row = KeyReport(model.repository, "model", KeyOutcome.CARRIED, shown("model", model.repository), f"with {engine}")
    return EngineModel(
        title=model.repository,
        name=model.repository.rsplit("/", 1)[-1],
        aliases=(model.repository,),
        keys=keys,
        report=(row,),
    )
