"""What the file says to the records that the program works with: absolute paths, secrets that were read, and what keys
that are left out follow from.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry, also_name, is_cloud
from stoker.config.local_address import is_loopback
from stoker.config.paths import VAULT, absolute, default_state, default_vault, in_vault
from stoker.config.rules.names import public_served_names
from stoker.config.secrets import UnreadableSecret, key_weakness, read_secret
from stoker.config.sections import section
from stoker.config.tables.file import File
from stoker.config.tables.gates import build_aliases, build_choices, task_names
from stoker.config.tables.router import build_router
from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.definition import Change, changed, no_problem, read
from stoker.domain.definition import KeyPath as KeyPath
from stoker.domain.dialect import SPOKEN, ApiFamily
from stoker.domain.gate import PRODUCTION, Gate
from stoker.domain.key import make_key
from stoker.domain.kinds import FILE, Form
from stoker.domain.request_parameters import NO_PARAMETERS
from stoker.domain.serve import (
    SECRET,
    SPECULATIVE_WORDS,
    AlsoServed,
    Driver,
    Secret,
    Serve,
    Slot,
    SwapPolicy,
    Tuning,
    box_slots,
)
from stoker.engines.record import Weights
from stoker.engines.registry import engine_of
from stoker.request.decide.alias_patterns import is_pattern

Secrets = dict[KeyPath, Secret]


def read_secrets(
    doc: ConfigDocument, file: File, entries: list[ServeEntry], directory: Path, needs_all: bool = True
) -> Secrets:
    """Every secret by the place of its source. What cannot be read becomes a problem; without `needs_all`, only what is
    no source does, and the other problems come up where the secret is revealed.
    """
    secrets: Secrets = {}

    def collect(value: Any, form: Form, path: KeyPath) -> Any:
        if form is SECRET and value is not None and path not in secrets:
            source = value.source
            try:
                secrets[path] = read_secret(source, directory)
            except UnreadableSecret as error:
                if needs_all:
                    doc.problem(path, str(error))
                else:
                    secrets[path] = Secret("", source, doc.text(path, str(error)))
            except ValueError as error:
                doc.problem(path, str(error))
        return value

    _changed(file, collect)
    for entry in entries:
        changed(entry.table, collect, entry.at)
    if needs_all:
        for path, secret in secrets.items():
            if path[0] == "front_door" and (weakness := key_weakness(secret)):
                doc.problem(path, f"the key {weakness}")
        _check_same(doc, secrets)
    return secrets


def _shipped_gate(file: File) -> tuple[Gate, ...]:
    """The gate that ships, if an alias names it and the file has none of that name."""
    is_used = any(alias.gate == PRODUCTION.name for alias in file.alias.values())
    return (PRODUCTION,) if is_used and PRODUCTION.name not in file.gate else ()


def _changed(file: File, change: Change) -> File:
    """Without its serves, which may inherit, and so have their values from other places."""
    brought = {
        name: table if (found := section(name)) is None else found.kind.changed(table, (name,), change)
        for name, table in file.extensions.items()
    }
    return changed(msgspec.structs.replace(file, serve=(), extensions=brought), change, lambda name: (name,))


def _completed(name: str, table: object, directory: Path) -> object:
    found = section(name)
    return table if found is None or found.complete is None else found.complete(table, directory)


def _check_same(doc: ConfigDocument, secrets: Secrets) -> None:
    """Two callers with the same key could not be distinguished."""
    owners: dict[str, KeyPath] = {}
    for path, secret in secrets.items():
        if path[0] == "front_door":
            other = owners.setdefault(secret.reveal(), path)
            if other != path:
                doc.problem(path, f"is the same key as in line {doc.line(other)}; each caller needs a key of its own")


def build(
    doc: ConfigDocument,
    written: File,
    entries: list[ServeEntry],
    secrets: Secrets,
    source: Path,
) -> Settings:
    """The settings for the program. Call it only if there are no problems."""
    directory = source.parent

    def final(value: Any, form: Form, path: KeyPath) -> Any:
        if form is FILE and value:
            return str(absolute(value, directory))
        return secrets[path] if form is SECRET and value is not None else value

    file = _changed(written, final)
    paths = _paths(doc, file.paths)
    real = [entry for entry in entries if not entry.table.abstract]
    public = public_served_names(entries, written)
    final_entries = [replace(entry, table=changed(entry.table, final, entry.at)) for entry in real]
    serves = tuple(
        _serve(doc, entry, directory, Path(paths.vault), entry.served_name in {entry.name, *public})
        for entry in final_entries
    )
    clouds = {serve.name: serve.served_name or serve.name for serve in serves if serve.translation.cloud}
    is_here = is_loopback(file.front_door.host)
    compat: dict[str, Any] = {key: is_here for key in ("llama_swap", "llama_cpp") if not doc.holds(("compat", key))}
    return Settings(
        front_door=_front_door(file),
        paths=paths,
        slots=(
            *(_slot(doc, slot) for slot in file.slots.values()),
            *(_box_slot(doc, slot) for slot in box_slots(serves)),
        ),
        serves=serves,
        source=str(source),
        warm=file.warm,
        watchdog=file.watchdog,
        conversations=file.conversations,
        apps=tuple(file.app.values()),
        gates=(*file.gate.values(), *_shipped_gate(file)),
        aliases=build_aliases(file.alias),
        alias_choices=build_choices(file.alias),
        clusters=tuple(file.clusters.values()),
        compat=replace(file.compat, **compat),
        media=replace(file.media, hosts=tuple(dict.fromkeys(file.media.hosts))),
        responses=file.responses,
        extensions={name: _completed(name, table, directory) for name, table in file.extensions.items()},
        unread=file.unread,
        router=build_router(file.router, file.tier, clouds, task_names(file.alias)),
    )


def _paths(doc: ConfigDocument, paths: Paths) -> Paths:
    state = paths.state or str(default_state())
    return replace(
        paths,
        state=state,
        logs=paths.logs or str(Path(state) / "logs"),
        vault=paths.vault or str(default_vault()),
        placement=paths.placement if doc.holds(("paths", "placement")) else bool(paths.vault),
    )


def _front_door(file: File) -> ListenSettings:
    door = file.front_door
    keys = tuple(
        make_key(key.name, key.value, key.own, key.app, file.app[key.app].settings if key.app else None)
        for key in door.keys
    )
    return replace(door, keys=keys, prefixes=tuple(dict.fromkeys(door.prefixes)))


def _slot(doc: ConfigDocument, slot: Slot) -> Slot:
    """What `[slots.NAME.swap]` leaves out is as in `[swap]`."""
    path = ("slots", slot.name, "swap")
    swap = {**doc.raw.get("swap", {}), **doc.raw["slots"][slot.name].get("swap", {})}
    return replace(slot, swap=read(SwapPolicy, swap, path, no_problem))


def _box_slot(doc: ConfigDocument, slot: Slot) -> Slot:
    """That of another Stoker. How long requests wait for it is as in `[swap]`."""
    return replace(slot, swap=read(SwapPolicy, doc.raw.get("swap", {}), ("swap",), no_problem))


def _model(entry: ServeEntry, directory: Path, vault: Path) -> str:
    """Weights become an absolute path; other models stay as written."""
    text = entry.table.model
    if text.startswith(VAULT):
        return str(in_vault(text, vault))
    is_ours = entry.driver in (Driver.PROCESS, Driver.SYSTEMD)
    weights = engine_of(entry.engine).weights
    named = weights is Weights.GGUF or (weights is Weights.FOLDER and text.startswith((".", "/", "~")))
    is_path = text and named and is_ours  # a hub id looks like a relative path
    return str(absolute(text, directory)) if is_path else text


def _beside(entry: ServeEntry, directory: Path, vault: Path) -> Tuning:
    """The same for what is loaded beside the model: draft model, projector, adapters."""
    is_file = engine_of(entry.engine).weights is Weights.GGUF

    def path(text: str) -> str:
        if text.startswith(VAULT):
            return str(in_vault(text, vault))
        return str(absolute(text, directory)) if is_file or text.startswith((".", "/", "~")) else text

    tuning = entry.table.tuning
    draft = tuning.speculative
    return replace(
        tuning,
        speculative=draft if draft is None or draft in SPECULATIVE_WORDS else path(draft),
        mmproj=None if tuning.mmproj is None else path(tuning.mmproj),
        adapters=tuple(map(path, tuning.adapters)),
    )


def _served_name(entry: ServeEntry, model: str) -> str:
    """What its /v1/models must show."""
    listed_as = engine_of(entry.engine).listed_as
    is_ours = entry.driver in (Driver.PROCESS, Driver.SYSTEMD) and entry.table.cmd is None
    return entry.served_name if listed_as is None or not is_ours or entry.table.served_name else listed_as(model)


def _serve(doc: ConfigDocument, entry: ServeEntry, directory: Path, vault: Path, is_served_name_public: bool) -> Serve:
    """The table with what follows from its keys, and from those that are left out."""
    table, given = entry.table, entry.given
    values: dict[str, Any] = {one.name: getattr(table, one.name) for one in fields(Serve)}
    dialects = (
        table.dialects if "dialects" in given else SPOKEN if entry.is_in_boxes else engine_of(entry.engine).dialects
    )
    aliases = dict.fromkeys(table.aliases)
    unit = table.unit or f"stoker-serve-{entry.name}.service"
    model = _model(entry, directory, vault)
    served_name = _served_name(entry, model)
    is_public = is_served_name_public and entry.section == "serve" and served_name == entry.served_name
    values |= {
        "name": entry.name,
        "engine": entry.engine,
        "model": model,
        "tuning": _beside(entry, directory, vault),
        "served_name": served_name,
        "is_served_name_public": is_public,
        "aliases": tuple(alias for alias in aliases if not is_pattern(alias)),
        "alias_patterns": tuple(alias for alias in aliases if is_pattern(alias)),
        "slot": table.slots[0] if table.slots else table.slot,
        "slots": table.slots if len(table.slots) > 1 else (),
        "also": tuple(_also(one) for one in table.also),
        "max_active": table.max_active if "max_active" in given else table.parallel,
        "request": table.request or NO_PARAMETERS,
        "driver": entry.driver,
        "health": None if table.probe is not None and "health" not in given else table.health,
        "dialects": dialects,
        "asks_dialects": "dialects" not in given,
        "translation": entry.translation,
        "unit": unit if entry.driver is Driver.SYSTEMD else None,
        "fallback_on": tuple(dict.fromkeys(table.fallback_on)),
        "directory": str(directory),
        "from_tier": entry.section == "tier",
    }
    if "key_header" not in given:
        values["key_header"] = (
            "x-api-key" if {one.spec.api for one in dialects} == {ApiFamily.ANTHROPIC} else "authorization"
        )
    return Serve(**values)


def _also(also: AlsoServed) -> AlsoServed:
    return replace(also, name=also_name(also), is_cloud=is_cloud(also.base_url))
