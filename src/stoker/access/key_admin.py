"""What operators do with keys: make, show, change, disable, rotate, delete. Every change is on disk when it returns."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from stoker.access.access_store import AccessStore
from stoker.access.keyring import PREFIX, SHOWN_LENGTH, Entry
from stoker.access.limits import LimitState
from stoker.access.settings_input import read_settings, show_settings
from stoker.domain.errors import ClientError
from stoker.domain.key import KeySettings
from stoker.domain.nearest import did_you_mean
from stoker.domain.runtime_key import RuntimeKey, SettingsOverride
from stoker.request.decide.alias_patterns import PATTERN_HINT, is_matched, is_nameable

GRACE = 86_400.0
"""Seconds for which the old key stays valid after a rotation, unless another time is given."""
MAX_KEYS = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class KeyAdmin:
    """`wall`: Unix seconds. `models`: every name and pattern that clients may ask for now. Raises ClientError for what
    cannot be done, and StokerError if it cannot be saved.
    """

    def __init__(self, store: AccessStore, wall: Callable[[], float], models: Callable[[], Collection[str]]) -> None:
        self._store = store
        self._keyring = store.keyring
        self._wall = wall
        self._models = models

    def list(self) -> dict[str, Any]:
        """All keys and applications."""
        keys = [self._shown(entry) for entry in self._keyring.entries().values()]
        return {"keys": keys, "apps": [self.app(app.name) for app in self._keyring.apps]}

    def show(self, name: str) -> dict[str, Any]:
        """One key, with what is left of its limits."""
        return self._shown(self._keyring.entry(name))

    def app(self, name: str) -> dict[str, Any]:
        """One application, with its overrides."""
        app, override = self._keyring.app(name), self._keyring.override("app", name)
        keys = [entry.caller.key.name for entry in self._keyring.entries().values() if entry.caller.key.app == name]
        return {"name": name, "settings": show_settings(app.settings), "keys": keys, **_shown_override(override)}

    async def create(
        self, name: str, app: str = "", settings: Mapping[str, Any] | None = None, expires_in: float | None = None
    ) -> dict[str, Any]:
        """Make a key. Its value is in this answer and nowhere else."""
        if not _NAME.match(name):
            text = "is not a valid name: use letters, digits, '.', '_' and '-', at most 64 characters"
            raise ClientError(f"'{name[:64]}' {text}", code="bad_field", param="name")
        if name in self._keyring.entries():
            text = f"there is a key '{name}' already: choose another name, or `stoker keys rotate {name}`"
            raise ClientError(text, code="key_exists", status=409, param="name")
        if len(self._keyring.entries()) >= MAX_KEYS:
            raise ClientError(f"there are {MAX_KEYS} keys: delete some", code="too_many_keys", status=409)
        if app:
            self._keyring.app(app)
        now = self._wall()
        value = _new_value()
        key = RuntimeKey(
            name=name,
            digest=self._keyring.digest(value.encode()).hex(),
            begins=value[:SHOWN_LENGTH],
            created_at=now,
            app=app,
            settings=self._read(settings or {}),
            expires_at=None if expires_in is None else now + _positive(expires_in, "expires_in"),
        )
        await self._store.save_key(key)
        return {**self._shown(self._keyring.entry(name)), "key": value}

    async def rotate(self, name: str, grace: float | None = None) -> dict[str, Any]:
        """Replace the value of a key. The old one stays valid for `grace` seconds."""
        key, now, value = self._made(name), self._wall(), _new_value()
        seconds = GRACE if grace is None else grace
        if seconds < 0:
            raise ClientError("'grace' must not be below 0", code="bad_field", param="grace")
        rotated = replace(
            key,
            digest=self._keyring.digest(value.encode()).hex(),
            begins=value[:SHOWN_LENGTH],
            previous_digest=key.digest,
            previous_until=now + seconds,
        )
        await self._store.save_key(rotated)
        return {**self._shown(self._keyring.entry(name)), "key": value}

    async def delete(self, name: str) -> dict[str, Any]:
        """Remove a key that was made at run time. Its usage stays."""
        self._made(name)
        await self._store.delete_key(name)
        return {"name": name, "deleted": True}

    async def disable(self, name: str, is_disabled: bool, reason: str) -> dict[str, Any]:
        """Refuse a key from the next request on, or accept it again."""
        self._keyring.entry(name)
        override = self._keyring.override("key", name) or SettingsOverride("key", name)
        await self._store.save_override(
            replace(override, is_disabled=is_disabled, reason=reason[:500], at=self._wall())
        )
        return self._shown(self._keyring.entry(name))

    async def change(self, kind: str, name: str, settings: Mapping[str, Any], reason: str) -> dict[str, Any]:
        """Override settings of a key or an application, from the next request on."""
        self._known(kind, name)
        if not settings:
            raise ClientError("no setting is given", code="bad_field", param="settings")
        override = self._keyring.override(kind, name) or SettingsOverride(kind, name)
        merged = self._read(settings).over(override.settings)
        await self._store.save_override(
            replace(override, settings=merged, reason=reason[:500] or override.reason, at=self._wall())
        )
        return self.app(name) if kind == "app" else self.show(name)

    async def reset(self, kind: str, name: str) -> dict[str, Any]:
        """Undo all overrides of a key or an application."""
        self._known(kind, name)
        await self._store.delete_override(kind, name)
        return self.app(name) if kind == "app" else self.show(name)

    def _read(self, given: Mapping[str, Any]) -> KeySettings:
        """Raises ClientError 400 that names the setting and what it takes, or a model that does not exist."""
        settings = read_settings(given)
        named = [("models", name) for name in settings.models or ()]
        named += [("default_model", settings.default_model)] if settings.default_model else []
        for setting, name in named:
            models = self._models()
            if not is_nameable(name, models, setting == "default_model"):
                near = PATTERN_HINT if is_matched(name, models) else did_you_mean(name, models)
                hint = near or "; add its serve to the configuration first, then `stoker reload`"
                raise ClientError(f"no model has the name '{name[:64]}'{hint}", code="bad_field", param=setting)
        return settings

    def _known(self, kind: str, name: str) -> None:
        if kind == "app":
            self._keyring.app(name)
        else:
            self._keyring.entry(name)

    def _made(self, name: str) -> RuntimeKey:
        key = self._keyring.entry(name).runtime_key
        if key is None:
            text = (
                f"key '{name}' is in the configuration file: change it there, then `stoker reload`; "
                f"`stoker keys disable {name}` takes it away now"
            )
            raise ClientError(text, code="configured_key", status=409)
        return key

    def _shown(self, entry: Entry) -> dict[str, Any]:
        key, made = entry.caller.key, entry.runtime_key
        now = self._wall()
        document: dict[str, Any] = {
            "name": key.name,
            "app": key.app or None,
            "source": "configuration" if made is None else "run time",
            "state": _state(entry, now),
            "scope": key.scope.name.lower(),
            "settings": show_settings(key.own),
            "active": entry.caller.active,
            "limits": [_shown_limit(state) for state in entry.caller.limits()],
            **_shown_override(entry.override),
        }
        if made is not None:
            document |= {
                "begins": made.begins,
                "created_at": made.created_at,
                "expires_at": made.expires_at,
                "previous_until": made.previous_until if made.previous_until > now else None,
            }
        return document


def _state(entry: Entry, now: float) -> str:
    if entry.is_disabled:
        return "disabled"
    made = entry.runtime_key
    return "expired" if made is not None and made.expires_at is not None and made.expires_at <= now else "valid"


def _shown_override(override: SettingsOverride | None) -> dict[str, Any]:
    if override is None:
        return {"override": None}
    overridden = show_settings(override.settings)
    return {"override": {"settings": overridden, "reason": override.reason, "at": override.at}}


def _shown_limit(state: LimitState) -> dict[str, Any]:
    reset = datetime.fromtimestamp(state.reset_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "limit": state.rule.setting,
        "owner": state.owner,
        "of": state.limit,
        "used": state.used,
        "remaining": state.remaining,
        "resets_at": reset,
    }


def _new_value() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _positive(seconds: float, field: str) -> float:
    if not seconds > 0:
        raise ClientError(f"'{field}' must be above 0", code="bad_field", param=field)
    return seconds
