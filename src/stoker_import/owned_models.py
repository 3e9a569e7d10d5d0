"""From the models that another program owns to a configuration: names, slots, contexts. The files stay in place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.cli.machine.discover import ModelFile
from stoker.cli.machine.serve_plan import (
    CONTEXT,
    PARALLEL,
    MachineInventory,
    PlannedServe,
    ServePlanner,
    gpu_slots,
    unused_name,
)
from stoker.engines import embedded
from stoker_import.imported import ImportedConfig, KeyOutcome, KeyReport

LONGEST_NAME = 60
"""Limit for a serve's name in characters, so that a number can be appended."""
Progress = Callable[[str, float], None]
"""Called with what is being read, and the share that is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedModel:
    """A model file and how it is served."""

    title: str
    """As the other program names it."""
    name: str
    """Proposed name of the serve, which is then made plain and unique."""
    file: ModelFile
    aliases: tuple[str, ...] = ()
    context: int | None = None
    """Context in tokens in the other program; None: as many as fit."""
    parallel: int = PARALLEL
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of its `[[serve]]`."""
    arguments: tuple[tuple[str, ...], ...] = ()
    """Further arguments of llama-server, by option."""
    env: Mapping[str, str] = field(default_factory=dict)
    report: tuple[KeyReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalModel:
    """A model that another server keeps serving."""

    title: str
    name: str
    aliases: tuple[str, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    """`base_url`, `served_name`, and further keys of its `[[serve]]`."""
    report: tuple[KeyReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModel:
    """A model that another engine than llama.cpp loads, or whose file is not here: its memory is not planned."""

    title: str
    name: str
    aliases: tuple[str, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    """`engine`, `model`, and further keys of its `[[serve]]`."""
    report: tuple[KeyReport, ...] = ()


ImportableModel = OwnedModel | ExternalModel | EngineModel


def command_models(
    models: Sequence[ImportableModel],
    machine: MachineInventory,
    front_door: Mapping[str, Any],
    comments: tuple[str, ...] = (),
    on_progress: Progress = lambda what, share: None,
) -> ImportedConfig:
    """A serve for each model, in their order. Reads the headers of model files."""
    planner = ServePlanner(machine.gpus)
    taken = {alias for model in models for alias in model.aliases}
    rows: list[dict[str, Any]] = []
    report: list[KeyReport] = []
    for place, model in enumerate(models):
        on_progress(model.title, place / len(models))
        name = plain_name(model.name, taken - set(model.aliases))
        taken.add(name)
        row: dict[str, Any] = {"name": name}
        reports: tuple[KeyReport, ...] = ()
        lost: tuple[KeyReport, ...] = ()
        if isinstance(model, EngineModel):
            row["slot"] = planner.next_slot().name
        elif isinstance(model, OwnedModel):
            planned = planner.plan(name, model.file, model.context, model.parallel, model.env)
            row |= _managed(planned, model.file)
            reports = _reports(planned, model)
        aliases = [alias for alias in dict.fromkeys(model.aliases) if alias != name]
        row |= {"aliases": aliases} if aliases else {}
        row |= dict(model.keys)
        if isinstance(model, OwnedModel):
            kept, lost = _arguments(model, machine)
            row |= {"extra_args": kept} if kept else {}
            row |= {"env": dict(model.env)} if model.env else {}
            reports += lost
        rows.append(row)
        report += [*reports, *(one for one in model.report if not any(_is_about(one, option.key) for option in lost))]
    return ImportedConfig(_document(rows, machine, front_door), tuple(report), comments=comments)


def plain_name(text: str, taken: Collection[str]) -> str:
    """A name that a serve can have: letters, digits, `.`, `_` and `-`; none of `taken`."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:LONGEST_NAME].rstrip("-._") or "model"
    return unused_name(plain, taken)


def shown(key: str, value: Any) -> str:
    """`key = value`, as in the configuration."""
    text = ("true" if value else "false") if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
    return f"{key} = {text}"


def _managed(planned: PlannedServe, file: ModelFile) -> dict[str, Any]:
    return {
        "model": str(file.path),
        "slot": planned.slot,
        "context": CONTEXT if planned.context is None else planned.context,
        "parallel": planned.parallel,
    }


def _reports(planned: PlannedServe, model: OwnedModel) -> tuple[KeyReport, ...]:
    """Rows for the file and its context. Each outcome says whether the other program's value was kept."""
    rows = [
        KeyReport(model.title, "model", KeyOutcome.CARRIED, shown("model", str(model.file.path)), "served in place")
    ]
    context, trained = planned.context, planned.trained
    if context is None:
        outcome, note = KeyOutcome.CHANGED, f"a guess: {planned.problem}"
    elif model.context is None:
        outcome, note = KeyOutcome.CARRIED, "all that the model was trained for"
        if context != trained:
            note = f"the most that fits, of {trained} that the model was trained for"
    elif context == model.context:
        outcome, note = KeyOutcome.CARRIED, ""
    elif context == trained:
        outcome, note = KeyOutcome.CHANGED, f"{model.context} is more than the model was trained for"
    else:
        outcome, note = KeyOutcome.CHANGED, f"{model.context} does not fit into memory"
    rows.append(KeyReport(model.title, "context", outcome, shown("context", context or CONTEXT), note))
    return tuple(rows)


def _is_about(row: KeyReport, option: str) -> bool:
    """Whether the row says that this option of llama-server is carried."""
    return row.became.startswith(shown("extra_args", [option])[:-1])


def _arguments(model: OwnedModel, machine: MachineInventory) -> tuple[list[str], tuple[KeyReport, ...]]:
    """The arguments that this machine's engine accepts, and a report of the others."""
    kept: list[str] = []
    lost: list[KeyReport] = []
    has_server = "embedded" in model.keys or any(engine.name == "llama.cpp" for engine in machine.engines)
    for words in model.arguments:
        if has_server or embedded.refusal(words) is None:
            kept += words
        else:
            note = "the embedded engine does not take it: put llama-server on PATH, and import again"
            lost.append(KeyReport(model.title, words[0], KeyOutcome.DROPPED, note=note))
    return kept, tuple(lost)


def _document(rows: list[dict[str, Any]], machine: MachineInventory, front_door: Mapping[str, Any]) -> dict[str, Any]:
    slots: dict[str, Any] = {slot.name: {"devices": [slot.word]} for slot in gpu_slots(machine.gpus)}
    used = {row["slot"] for row in rows if "slot" in row}
    slots = {name: slots.get(name, {"devices": []}) for name in (*slots, *sorted(used - slots.keys())) if name in used}
    return {"front_door": dict(front_door)} | ({"slots": slots} if slots else {}) | {"serve": rows}
