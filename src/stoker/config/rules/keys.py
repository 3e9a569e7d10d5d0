"""Rules about `[[front_door.keys]]` and `[app.NAME]`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.rules.names import auto_names, model_names
from stoker.config.sections import table_names
from stoker.config.tables.file import File
from stoker.domain import kinds
from stoker.domain.definition import KeyPath
from stoker.domain.key import KeySettings
from stoker.domain.task import CLASSES
from stoker.request.decide.alias_patterns import PATTERN_HINT, is_matched, is_nameable

_CONTAINED = (
    ("input_tokens_per_minute", "tokens_per_minute"),
    ("output_tokens_per_minute", "tokens_per_minute"),
    ("tokens_per_minute", "tokens_per_day"),
    ("input_tokens_per_minute", "tokens_per_day"),
    ("output_tokens_per_minute", "tokens_per_day"),
    ("tokens_per_day", "tokens_per_month"),
    ("cost_per_day", "cost_per_month"),
    ("max_output", "context"),
)
"""Pairs of limits: the first is reached only if it is not larger than the second."""


def check_keys(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """1. name and value are there  2. no name twice  3. the application exists  4. the settings: `_check_settings`"""
    seen: dict[str, int] = {}
    for index, key in enumerate(file.front_door.keys):
        path = ("front_door", "keys", index)
        for required in ("name", "value"):
            if not getattr(key, required) and not doc.is_spoiled((*path, required)):
                doc.problem(path, f"`{required}` is missing")  # 1
        if key.name and key.name in seen:
            doc.problem((*path, "name"), f"line {seen[key.name]} already has a key with this name; choose another")  # 2
        elif key.name:
            seen[key.name] = doc.line((*path, "name"))
        if key.app and key.app not in file.app and not doc.is_spoiled(("app", key.app)):
            hint = doc.did_you_mean(key.app, file.app) or f"; add a section [app.{key.app}]"
            doc.problem((*path, "app"), f"there is no application '{key.app}'{hint}")  # 3
    for name in file.app:
        try:
            kinds.name(name)
        except ValueError as error:
            doc.problem(("app", name), str(error))
    models = _models(doc, file, entries)
    for place, table in _tables(file):
        _check_settings(doc, place, table, models, [*CLASSES, *(one.name for one in file.router.classes)])  # 4


def _tables(file: File) -> Iterator[tuple[KeyPath, KeySettings]]:
    for index, key in enumerate(file.front_door.keys):
        yield ("front_door", "keys", index), key.own
    for name, app in file.app.items():
        yield ("app", name), app.settings


def _models(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> set[str] | None:
    """Every name that a key may list; None: not all are known, because a section is wrong."""
    places = (
        ("serve",),
        *(entry.at(key) for entry in entries for key in ("name", "served_name", "aliases", "variant")),
        *(("tier", index, "name") for index in range(max(len(file.tier), 1))),
    )
    if any(doc.is_spoiled(place) for place in places):
        return None
    return {*model_names(entries, file), *auto_names(file), *table_names(file, "orchestrator"), *file.alias}


def _check_settings(
    doc: ConfigDocument, path: KeyPath, table: KeySettings, models: set[str] | None, classes: Collection[str]
) -> None:
    """1. models and classes exist  2. no limit that can never be reached"""
    named = [((*path, "models", place), model) for place, model in enumerate(table.models or ())]
    named += [((*path, "default_model"), table.default_model)] if table.default_model else []
    for place, model in named:
        is_class_known = not doc.is_spoiled(("router", "class", model.removeprefix("auto:")))
        if models is not None and is_class_known and not is_nameable(model, models, place[-1] == "default_model"):
            hint = PATTERN_HINT if is_matched(model, models) else doc.did_you_mean(model, models)
            doc.problem(place, f"no serve has the name '{model[:64]}'{hint}")  # 1
    for index, name in enumerate(table.classes or ()):
        if name != "*" and name not in classes and not doc.is_spoiled(("router", "class")):
            hint = doc.did_you_mean(name, classes) or f"; add a section [router.class.{name[:64]}]"
            doc.problem((*path, "classes", index), f"there is no class '{name[:64]}'{hint}")  # 1
    for smaller, larger in _CONTAINED:
        one, other = getattr(table, smaller), getattr(table, larger)
        if one is not None and other is not None and one > other:
            doc.problem((*path, smaller), f"is larger than {larger}, so it can never be reached; lower it")  # 2
