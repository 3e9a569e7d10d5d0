"""The effective values, in the form of the file: show(), to_toml(), schema(). Secrets are shown as their source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from stoker.config.definition import Definitions, table_schema
from stoker.config.definition import show as show_table
from stoker.config.rules.clusters import CLUSTER_SLOT_IGNORES
from stoker.config.rules.serves import COMMAND_IGNORES, CONTAINER_IGNORES, EXTERNAL_IGNORES
from stoker.config.tables.also import show_also
from stoker.config.tables.cluster import show_cluster
from stoker.config.tables.compat import CompatTable
from stoker.config.tables.edge import show_edge
from stoker.config.tables.file import (
    ConversationsTable,
    File,
    FrontDoorTable,
    PathsTable,
    RequiresTable,
    ServeTable,
    SlotTable,
    SwapTable,
    WarmTable,
    WatchdogTable,
)
from stoker.config.tables.gates import GateTable, show_alias, show_choice
from stoker.config.tables.keys import show_app, show_key
from stoker.config.tables.media import MediaTable
from stoker.config.tables.orchestrator import show_orchestrator
from stoker.config.tables.replicas import ReplicaCount
from stoker.config.tables.request import show_request, show_variant
from stoker.config.tables.responses import ResponsesTable
from stoker.config.tables.router import show_router, show_tier
from stoker.config.tables.telemetry import show_telemetry
from stoker.config.tables.tls import TlsTable
from stoker.config.tables.translation import show_translation
from stoker.config.toml_writer import render
from stoker.config.warnings import is_secret_variable, secret_words
from stoker.domain.access import FrontDoor, Settings
from stoker.domain.serve import Driver, Serve, Slot, Status

HIDDEN = "***"


def show(settings: Settings) -> dict[str, object]:
    """Every effective value, JSON-able, in the shape of the file; what is unset is left out.

    Environment values and arguments that look like secrets are shown as `***`.
    """
    slots = {slot.name: _slot(slot) for slot in settings.slots}
    router, serves = settings.router, {serve.name: serve for serve in settings.serves}
    shown = {
        "front_door": _front_door(settings.front_door),
        "paths": show_table(PathsTable, settings.paths),
        "slots": slots,
        "serve": [_serve(serve) for serve in settings.serves if not serve.from_tier],
        "warm": show_table(WarmTable, settings.warm),
        "watchdog": show_table(WatchdogTable, settings.watchdog),
        "conversations": show_table(ConversationsTable, settings.conversations),
        "app": {app.name: show_app(app) for app in settings.apps},
        "gate": {
            gate.name: show_table(GateTable, gate, conditions=[one.text for one in gate.conditions])
            for gate in settings.gates
        },
        "alias": {alias.name: show_alias(alias) for alias in settings.aliases}
        | {choice.name: show_choice(choice) for choice in settings.alias_choices}
        | {name: {"serve": meant} for name, meant in (router.aliases if router is not None else {}).items()},
        "orchestrator": {one.name: show_orchestrator(one) for one in settings.orchestrators},
        "edge": {edge.name: show_edge(edge) for edge in settings.edges},
        "clusters": {cluster.name: show_cluster(cluster) for cluster in settings.clusters},
        "compat": show_table(CompatTable, settings.compat),
        "media": show_table(MediaTable, settings.media),
        "responses": show_table(ResponsesTable, settings.responses),
        "telemetry": show_telemetry(settings.telemetry),
        "router": None if router is None else show_router(router),
        "tier": None if router is None else [show_tier(tier, serves) for tier in router.tiers],
    }
    return _given(shown)


def _slot(slot: Slot) -> dict[str, Any]:
    """Without the keys that have no effect for this slot."""
    together = [sorted(group) for group in slot.together]
    shown = show_table(SlotTable, slot, swap=show_table(SwapTable, slot.swap), together=together)
    hidden = ("gpus", "node") if slot.cluster is None else CLUSTER_SLOT_IGNORES
    return {key: value for key, value in shown.items() if key not in hidden}


def to_toml(settings: Settings) -> str:
    """show() as a file. Loaded from the same directory it gives the same settings, but for what show() hides."""
    return render(show(settings))


def schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of the file; `docs/reference/stoker.schema.json` is this."""
    definitions: Definitions = {}
    file = table_schema(File, definitions)
    named = dict(sorted(definitions.items()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "stoker.toml", **file, "$defs": named}


def _front_door(door: FrontDoor) -> dict[str, Any]:
    keys = [show_key(key) for key in door.keys]
    auth = None if door.auth is None else "keys" if door.auth else "none"
    return show_table(
        FrontDoorTable, door, auth=auth, keys=keys, tls=None if door.tls is None else show_table(TlsTable, door.tls)
    )


def _serve(serve: Serve) -> dict[str, Any]:
    """Without the keys that have no effect for this serve."""
    is_held = serve.status in (Status.REJECTED, Status.BLOCKED)
    tuning = {field.name: getattr(serve.tuning, field.name) for field in fields(serve.tuning)}
    shown = show_table(
        ServeTable,
        serve,
        **tuning,
        extends=None,
        abstract=None,
        aliases=[*serve.aliases, *serve.alias_patterns],
        slot=None if serve.slots else serve.slot,
        replicas=ReplicaCount(serve.min_replicas, serve.replicas),
        model=serve.model or None,
        served_name=serve.served_name or serve.name,
        status=f"{serve.status.value}-{serve.reason}".removesuffix("-") if is_held else serve.status.value,
        reason=serve.reason or None,
        purpose=serve.purpose or None,
        cwd=serve.cwd or None,
        title=serve.title or None,
        description=serve.description or None,
        fallback_on=None if serve.fallback is None else list(serve.fallback_on),
        request=show_request(serve.request),
        also=[show_also(one) for one in serve.also],
        variant=[show_variant(variant) for variant in serve.variants],
        dialects=None if serve.asks_dialects else sorted(serve.dialects),  # the engine is asked once it is ready
        key=serve.key.source if serve.key else None,
        translation=show_translation(serve.translation),
        env={name: HIDDEN if is_secret_variable(name) else value for name, value in serve.env.items()},
        requires=show_table(RequiresTable, serve.requires),
        cmd=None if serve.cmd is None else _hide(serve.cmd),
        stop=None if serve.stop is None else _hide(serve.stop),
        up=None if serve.up is None else _hide(serve.up),
        extra_args=_hide(serve.extra_args),
    )
    hidden: tuple[str, ...] = ()
    if serve.driver is Driver.EXTERNAL:
        hidden = EXTERNAL_IGNORES
    elif serve.driver is Driver.COMPOSE:
        hidden = CONTAINER_IGNORES
    elif serve.cmd is not None:
        hidden = tuple({*COMMAND_IGNORES, "sleep_level"} - {"extra_args"})
    return {key: value for key, value in shown.items() if key not in hidden}


def _hide(words: Sequence[str]) -> list[str]:
    secret = secret_words(words)
    return [
        word if index not in secret else f"{secret[index]}={HIDDEN}" if word.startswith(f"{secret[index]}=") else HIDDEN
        for index, word in enumerate(words)
    ]


def _given(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in table.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _given(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
