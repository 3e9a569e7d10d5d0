"""Which settings differ between two configurations, by their names in the file. No value is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from stoker.config.effective import show
from stoker.config.sections import extension_secrets, extension_sections
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError
from stoker.domain.serve import Serve

_NEEDS_START = "stop Stoker and start it again"
_NEEDS_REPLACEMENT = "type `stoker up --replace`, or `systemctl restart stoker` where it is a service"
NEEDS_RESTART = {
    "front_door.host": _NEEDS_START,
    "front_door.port": _NEEDS_START,
    "paths": _NEEDS_START,
    "front_door.prefixes": _NEEDS_REPLACEMENT,
    "front_door.shutdown_grace": _NEEDS_REPLACEMENT,
    "front_door.tls": _NEEDS_REPLACEMENT,
}
"""What a running Stoker cannot change, and what to do instead. The rest of `paths` comes with it."""
_SECTIONS = {"serves": "serve", "apps": "app", "gates": "gate", "aliases": "alias", "alias_choices": "alias"}
"""The names in the file of those fields of `Settings` that have another one there."""


def changed_settings(old: Settings, new: Settings) -> list[str]:
    """The paths of the settings that differ, in the order of the file: `front_door.allowed_hosts`, `serve[fast].port`.

    A list of tables is compared by their names. A table that is new or gone is named as a whole. A change of what is
    never shown (a secret, the content of a file) is named too.
    """
    before, after = _without_common_serves(old, new)
    found = list(dict.fromkeys([*_differences("", show(before), show(after)), *_secrets(old, new)]))
    for section in fields(Settings):
        name = _SECTIONS.get(section.name, section.name)
        if section.name in ("router", "source", "extensions", "unread"):
            continue
        differs = section.compare and getattr(old, section.name) != getattr(new, section.name)
        if differs and not any(_is_in(path, name) for path in found):
            found.append(name)
    before_tables, after_tables = ({**one.unread, **one.extensions} for one in (old, new))
    for name in dict.fromkeys([*before_tables, *after_tables]):
        if before_tables.get(name) != after_tables.get(name) and not any(_is_in(path, name) for path in found):
            found.append(name)
    return found


def _without_common_serves(old: Settings, new: Settings) -> tuple[Settings, Settings]:
    """Without the serves that both have: to show hundreds of them takes long. Those of tiers stay, for their tiers."""
    of_tiers = {tier.serve for one in (old, new) if one.router is not None for tier in one.router.tiers}
    had = {serve.name: serve for serve in old.serves}
    common = {serve.name for serve in new.serves if had.get(serve.name) == serve} - of_tiers
    before, after = (
        replace(one, serves=tuple(serve for serve in one.serves if serve.name not in common)) for one in (old, new)
    )
    return before, after


def changes_in_effect(old: Settings, new: Settings) -> list[str]:
    """As `changed_settings`. Raises ConfigError if some of them take effect only with a restart."""
    changed = changed_settings(old, new)
    if problems := restart_problems(changed):
        raise ConfigError(problems)
    return changed


def restart_problems(changed: Sequence[str]) -> list[str]:
    """Of these paths, those that take effect only with a restart: a sentence each, with what to type."""
    brought = {name: _NEEDS_REPLACEMENT for name, found in extension_sections().items() if found.needs_replacement}
    return [
        f"{path} takes effect only with a restart: {command}"
        for path in changed
        for setting, command in (NEEDS_RESTART | brought).items()
        if _is_in(path, setting)
    ]


def _is_in(path: str, setting: str) -> bool:
    return path == setting or path.startswith((f"{setting}.", f"{setting}["))


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
    elif _are_named(old) and _are_named(new):
        before, after = ({one["name"]: one for one in rows or ()} for rows in (old, new))
        for name in dict.fromkeys([*before, *after]):
            yield from _differences(f"{path}[{name}]", before.get(name), after.get(name))
    else:
        yield path


def _are_named(value: Any) -> bool:
    """A list of tables with names, or none."""
    return value is None or (
        isinstance(value, list) and all(isinstance(one, Mapping) and "name" in one for one in value)
    )


def _secrets(old: Settings, new: Settings) -> Iterator[str]:
    """What `show` hides."""
    before_keys = {key.name: key.value for key in old.front_door.keys}
    for key in new.front_door.keys:
        if before_keys.get(key.name, key.value) != key.value:
            yield f"front_door.keys[{key.name}].value"
    serves = {serve.name: serve for serve in old.serves}
    for serve in new.serves:
        if (before := serves.get(serve.name)) is not None:
            yield from _serve_secrets(before, serve)
    brought = extension_secrets(old)
    for path, secret in extension_secrets(new).items():
        if brought.get(path, secret) != secret:
            yield ".".join(str(part) for part in path)
    tokens = {cluster.name: cluster.token for cluster in old.clusters}
    for cluster in new.clusters:
        if tokens.get(cluster.name, cluster.token) != cluster.token:
            yield f"clusters.{cluster.name}.token"


def _serve_secrets(old: Serve, new: Serve) -> Iterator[str]:
    path = f"{'tier' if new.from_tier else 'serve'}[{new.name}]"
    if old.key != new.key:
        yield f"{path}.key"
    for name in dict.fromkeys([*old.env, *new.env]):
        if old.env.get(name) != new.env.get(name):
            yield f"{path}.env.{name}"
