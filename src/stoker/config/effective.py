"""The effective values, in the form of the file: show(), to_toml(), schema(). Secrets are shown as their source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.config.rules.clusters import CLUSTER_SLOT_IGNORES
from stoker.config.rules.serves import unused_in_boxes
from stoker.config.secret_words import is_secret_variable, secret_words
from stoker.config.sections import SHIPPED_BY_NAME, extension_sections, sections_of
from stoker.config.tables.file import File
from stoker.config.tables.gates import show_alias, show_choice
from stoker.config.tables.router import show_tier
from stoker.config.toml_writer import render
from stoker.domain.access import Settings
from stoker.domain.definition import Definitions, table_schema
from stoker.domain.definition import show as table
from stoker.domain.serve import Driver, Serve, Slot, Status, unused_keys

HIDDEN = "***"


def show(settings: Settings) -> dict[str, object]:
    """Every effective value, JSON-able, in the shape of the file; what is unset is left out.

    Environment values and arguments that look like secrets are shown as `***`.
    """
    router, serves = settings.router, {serve.name: serve for serve in settings.serves}
    shown = {
        "front_door": table(settings.front_door),
        "paths": table(settings.paths),
        "slots": {slot.name: _slot(slot) for slot in settings.slots if not slot.box},
        "serve": [_serve(serve) for serve in settings.serves if not serve.from_tier],
        "warm": table(settings.warm),
        "watchdog": table(settings.watchdog),
        "conversations": table(settings.conversations),
        "app": {app.name: table(app) for app in settings.apps},
        "gate": {gate.name: table(gate) for gate in settings.gates},
        "alias": {alias.name: show_alias(alias) for alias in settings.aliases}
        | {choice.name: show_choice(choice) for choice in settings.alias_choices}
        | {name: {"serve": meant} for name, meant in (router.aliases if router is not None else {}).items()},
        "clusters": {cluster.name: table(cluster) for cluster in settings.clusters},
        "compat": table(settings.compat),
        "media": table(settings.media),
        "responses": table(settings.responses),
        "router": None if router is None else table(router),
        "tier": None if router is None else [show_tier(tier, serves) for tier in router.tiers],
    }
    boxes = [slot for slot in settings.slots if slot.box]
    shown |= {"swap": table(boxes[0].swap)} if boxes else {}  # the slots of this machine say theirs
    none: dict[str, object] = {name: {} for name in SHIPPED_BY_NAME if name not in settings.unread}
    brought = {name: found.kind.show(value) for name, found, value in sections_of(settings)}
    return _given(shown | none | brought)


def _slot(slot: Slot) -> dict[str, Any]:
    """Without the keys that have no effect for this slot."""
    hidden = ("gpus", "node") if slot.cluster is None else CLUSTER_SLOT_IGNORES
    return {key: value for key, value in table(slot).items() if key not in hidden}


def to_toml(settings: Settings) -> str:
    """show() as a file. Loaded from the same directory it gives the same settings, but for what show() hides."""
    shown = show(settings)
    return render({name: value for name, value in shown.items() if value or name not in SHIPPED_BY_NAME})


def schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of the file; `docs/reference/stoker.schema.json` is this."""
    definitions: Definitions = {}
    file = table_schema(File, definitions)
    for name, found in extension_sections().items():
        node = {**found.kind.schema(definitions), "description": found.meaning}
        file["properties"][name] = {**node, "default": {}} if found.by_name else node
    named = dict(sorted(definitions.items()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "stoker.toml", **file, "$defs": named}


def _serve(serve: Serve) -> dict[str, Any]:
    """Without the keys that have no effect for this serve."""
    is_held = serve.status in (Status.REJECTED, Status.BLOCKED)
    replicas = {"min": serve.min_replicas, "max": serve.replicas} if serve.min_replicas else serve.replicas
    shown = table(
        serve,
        aliases=[*serve.aliases, *serve.alias_patterns],
        slot=None if serve.slots else serve.slot,
        replicas=replicas,
        served_name=serve.served_name or serve.name,
        status=f"{serve.status.value}-{serve.reason}".removesuffix("-") if is_held else serve.status.value,
        fallback_on=None if serve.fallback is None else serve.fallback_on,
        dialects=None if serve.asks_dialects else serve.dialects,  # the engine is asked once it is ready
        env={name: HIDDEN if is_secret_variable(name) else value for name, value in serve.env.items()},
        cmd=None if serve.cmd is None else _hide(serve.cmd),
        stop=None if serve.stop is None else _hide(serve.stop),
        up=None if serve.up is None else _hide(serve.up),
        extra_args=_hide(serve.extra_args),
    )
    hidden: tuple[str, ...] = ()
    if serve.places_are_boxes:
        hidden = unused_in_boxes()
    elif serve.driver is Driver.EXTERNAL:
        hidden = unused_keys("base_url")
    elif serve.driver is Driver.COMPOSE:
        hidden = unused_keys("container")
    elif serve.cmd is not None:
        hidden = tuple({*unused_keys("cmd")} - {"extra_args"})
    return {key: value for key, value in shown.items() if key not in hidden}


def _hide(words: Sequence[str]) -> list[str]:
    secret = secret_words(words)
    return [
        word if index not in secret else f"{secret[index]}={HIDDEN}" if word.startswith(f"{secret[index]}=") else HIDDEN
        for index, word in enumerate(words)
    ]


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _given(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
