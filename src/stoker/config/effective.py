"""What the program will run by: show(), to_toml(), warnings(), schema().

Effective values in the file's own form; a secret is shown as where it comes from, never as what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from stoker.config.tables.file import File
from stoker.config.tables.router import show_router, show_tier
from stoker.config.tables.translation import show_translation
from stoker.config.toml_writer import render
from stoker.config.units import show_duration, show_size
from stoker.config.warnings import is_secret_variable, secret_words
from stoker.domain.access import Conversations, FrontDoor, Key, Media, Paths, Settings, WarmPool, Watchdog
from stoker.domain.gate import Alias, Gate
from stoker.domain.serve import Driver, Serve, Slot, Status, SwapPolicy

HIDDEN = "***"


def show(settings: Settings) -> dict[str, object]:
    """Every effective value, JSON-able, in the shape of the file; what is unset is left out.

    Environment values and arguments that look like secrets are shown as `***`.
    """
    slots = {slot.name: _slot(slot) for slot in settings.slots}
    router, serves = settings.router, {serve.name: serve for serve in settings.serves}
    shown = {
        "front_door": _front_door(settings.front_door),
        "paths": _paths(settings.paths),
        "slots": slots,
        "serve": [_serve(serve) for serve in settings.serves if not serve.from_tier],
        "warm": _warm(settings.warm),
        "watchdog": _watchdog(settings.watchdog),
        "conversations": _conversations(settings.conversations),
        "gate": {gate.name: _gate(gate) for gate in settings.gates},
        "alias": {alias.name: _alias(alias) for alias in settings.aliases}
        | {name: {"serve": meant} for name, meant in (router.aliases if router is not None else {}).items()},
        "media": _media(settings.media),
        "router": None if router is None else show_router(router),
        "tier": None if router is None else [show_tier(tier, serves) for tier in router.tiers],
    }
    return _given(shown)


def to_toml(settings: Settings) -> str:
    """show() as a file. Loaded from the same directory it gives the same settings, but for what show() hides."""
    return render(show(settings))


def schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of the file; `docs/reference/stoker.schema.json` is this."""
    found = File.model_json_schema()
    tidy = _tidy(found)
    assert isinstance(tidy, dict)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **tidy, "title": "stoker.toml"}


def _tidy(node: Any) -> Any:
    """Without null, which TOML does not have; without titles and whole tables of defaults, which their keys repeat."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        node = {**options[0], **{key: value for key, value in node.items() if key != "anyOf"}}
    return {
        key: _tidy(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
        and not (key == "default" and (value is None or "$ref" in node))
    }


def _front_door(door: FrontDoor) -> dict[str, Any]:
    return {
        "host": door.host,
        "port": door.port,
        "prefixes": list(door.prefixes),
        "body_limit": show_size(door.body_limit),
        "body_budget": "auto" if door.body_budget is None else show_size(door.body_budget),
        "max_messages": door.max_messages,
        "max_tools": door.max_tools,
        "max_values": door.max_values,
        "commit_after": show_duration(door.commit_after),
        "stall_timeout": show_duration(door.stall_timeout),
        "keep_alive": show_duration(door.keep_alive),
        # Without keys, "keys" would promise what is not there; the file may not say it either.
        "auth": ("keys" if door.keys else None) if door.auth else "none",
        "keys": [_key(key) for key in door.keys],
        "allowed_hosts": list(door.allowed_hosts),
        "allowed_origins": list(door.allowed_origins),
        "legacy": door.legacy,
        "upstream_errors": door.upstream_errors,
        "shutdown_grace": show_duration(door.shutdown_grace),
    }


def _key(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "value": key.value.source,
        "scope": key.scope.name.lower(),
        "max_active": key.max_active,
        "models": list(key.models),
        "legacy": key.legacy,
        "cloud": key.cloud,
    }


def _paths(paths: Paths) -> dict[str, Any]:
    return {
        "state": paths.state,
        "logs": paths.logs,
        "vault": paths.vault,
        "decisions": paths.decisions,
        "log_bytes": show_size(paths.log_bytes),
        "placement": paths.placement,
    }


def _warm(warm: WarmPool) -> dict[str, Any]:
    return {"memory": "auto" if warm.memory is None else show_size(warm.memory), "predict": warm.predict}


def _watchdog(watchdog: Watchdog) -> dict[str, Any]:
    return {
        "interval": show_duration(watchdog.interval),
        "stall": show_duration(watchdog.stall),
        "restarts": watchdog.restarts,
        "window": show_duration(watchdog.window),
    }


def _conversations(kept: Conversations) -> dict[str, Any]:
    return {
        "budget": show_size(kept.budget),
        "age": show_duration(kept.age),
        "save_within": show_duration(kept.save_within),
    }


def _media(media: Media) -> dict[str, Any]:
    return {
        "fetch": media.fetch,
        "hosts": list(media.hosts),
        "max_bytes": show_size(media.max_bytes),
        "timeout": show_duration(media.timeout),
        "most": media.most,
    }


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "conditions": [one.text for one in gate.conditions],
        "max_age": None if gate.max_age is None else show_duration(gate.max_age),
    }


def _alias(alias: Alias) -> dict[str, Any]:
    return {
        "serve": alias.serve,
        "gate": alias.gate,
        "watch": show_duration(alias.watch),
        "check_every": show_duration(alias.check_every),
    }


def _slot(slot: Slot) -> dict[str, Any]:
    return {
        "devices": list(slot.devices),
        "memory": _size(slot.memory),
        "baseline": slot.baseline,
        "swap": _swap(slot.swap),
    }


def _swap(policy: SwapPolicy) -> dict[str, Any]:
    return {
        "patience": policy.patience,
        "min_residency": _duration(policy.min_residency, "auto"),
        "linger": _duration(policy.linger, "auto"),
        "max_wait": _duration(policy.max_wait, "auto"),
        "swap_after": policy.swap_after,
        "drain_timeout": show_duration(policy.drain_timeout),
        "swap_timeout": _duration(policy.swap_timeout, "auto"),
    }


def _serve(serve: Serve) -> dict[str, Any]:
    """Keys in the order in which a reader asks for them; what only a process has is left out for external ones."""
    held = serve.status in (Status.REJECTED, Status.BLOCKED)
    shown: dict[str, Any] = {
        "name": serve.name,
        "engine": serve.engine,
        "driver": serve.driver.value,
        "model": serve.model or None,
        "served_name": serve.served_name or serve.name,
        "aliases": list(serve.aliases),
        "context": serve.context,
        "parallel": serve.parallel,
        "max_active": serve.max_active,
        "queue": serve.queue,
        "queue_timeout": show_duration(serve.queue_timeout),
        "status": serve.status.value if not held else f"{serve.status.value}-{serve.reason}".removesuffix("-"),
        "reason": serve.reason or None,
        "purpose": serve.purpose or None,
        "modalities": list(serve.modalities),
        "dialects": None if serve.asks_dialects else sorted(serve.dialects),  # the engine is asked once it is ready
        "base_url": serve.base_url,
        "key": serve.key.source if serve.key else None,
        "key_header": serve.key_header,
        "translation": show_translation(serve.translation),
        "health": serve.health,
        "canary": serve.canary,
        "ready_timeout": show_duration(serve.ready_timeout),
        "fallback": serve.fallback,
        "min_tokens_per_second": serve.min_tokens_per_second,
    }
    if serve.driver is Driver.EXTERNAL:
        return shown
    return shown | _ours(serve) | (_container(serve) if serve.driver is Driver.COMPOSE else _process(serve))


def _ours(serve: Serve) -> dict[str, Any]:
    """What every serve has that Stoker starts."""
    return {
        "slot": serve.slot,
        "memory": _size(serve.memory),
        "keep_loaded": serve.keep_loaded,
        "idle_unload": _duration(serve.idle_unload, "never"),
        "stop_grace": show_duration(serve.stop_grace),
        "host": serve.host,
        "port": serve.port,
        "warm": serve.warm.value,
        "source": serve.source,
        "sha256": dict(serve.sha256),
        "conflicts": list(serve.conflicts),
        "env": {name: HIDDEN if is_secret_variable(name) else value for name, value in serve.env.items()},
        "requires": {
            "files": list(serve.requires.files),
            "packages": dict(serve.requires.packages),
            "commands": list(serve.requires.commands),
        },
    }


def _container(serve: Serve) -> dict[str, Any]:
    return {"container": serve.container, "up": None if serve.up is None else _hide(serve.up)}


def _process(serve: Serve) -> dict[str, Any]:
    shown = {
        "cmd": None if serve.cmd is None else _hide(serve.cmd),
        "unit": serve.unit,
        "extra_args": _hide(serve.extra_args),
        "threads": serve.threads,
        "gpu_layers": serve.gpu_layers,
        "embedded": serve.embedded,
        "sleep_level": serve.sleep_level,
        "keep_conversations": serve.keep_conversations,
    }
    if serve.cmd is not None:  # its command line is its own: nothing of the tuning goes into it
        return {
            key: value for key, value in shown.items() if key in ("cmd", "unit", "extra_args", "keep_conversations")
        }
    tuning = serve.tuning
    return shown | {
        f.name: list(value) if isinstance(value := getattr(tuning, f.name), tuple) else value for f in fields(tuning)
    }


def _hide(words: Sequence[str]) -> list[str]:
    """A command line without the secrets that stand in it."""
    secret = secret_words(words)
    return [
        word if index not in secret else f"{secret[index]}={HIDDEN}" if word.startswith(f"{secret[index]}=") else HIDDEN
        for index, word in enumerate(words)
    ]


def _size(size: int | None) -> str | None:
    return None if size is None else show_size(size)


def _duration(seconds: float | None, unset: str) -> str:
    return unset if seconds is None else show_duration(seconds)


def _given(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is unset: TOML has no null."""
    return {key: _plain(value) for key, value in table.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _given(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
