"""All keys: those of the configuration file and those made at run time, with the settings in effect.

A key is found by its keyed hash, in one step however many there are. Only the hash of a key made at run time is stored;
the salt is secret, and of this installation alone.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping

from stoker.access.caller import Caller
from stoker.access.limits import Account
from stoker.access.quota import Quota
from stoker.domain.errors import ClientError
from stoker.domain.key import App, Key, KeySettings, UsageLimits, limits_of, make_key
from stoker.domain.runtime_key import RuntimeKey, SettingsOverride
from stoker.domain.serve import Secret

NO_SETTINGS = KeySettings()
PREFIX = "sk-stoker-"
SHOWN_LENGTH = len(PREFIX) + 4
"""Characters of a key that are stored and shown."""

_Counters = Mapping[str, Mapping[str, tuple[float, float]]]


class Entry:
    """One key: where it comes from, and the caller behind it."""

    __slots__ = ("caller", "override", "runtime_key")

    def __init__(self, caller: Caller, runtime_key: RuntimeKey | None, override: SettingsOverride | None) -> None:
        self.caller = caller
        self.runtime_key = runtime_key
        """None: it is in the configuration file."""
        self.override = override

    @property
    def is_disabled(self) -> bool:
        return self.override is not None and self.override.is_disabled


class Keyring:
    """Rebuilt by `configure` and by each change. Counters and requests under way stay with the names of keys."""

    def __init__(
        self,
        salt: bytes | None = None,
        counters: _Counters | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.time,
    ) -> None:
        """`counters`: what limits had counted when Stoker ended, by owner. `wall`: Unix seconds, by which keys expire;
        `steady`: by which limits count.
        """
        self._salt = salt or os.urandom(32)
        self._counters = counters or {}
        self._wall = wall
        self._steady = steady
        self._keys: tuple[Key, ...] = ()
        self._apps: tuple[App, ...] = ()
        self._runtime_keys: dict[str, RuntimeKey] = {}
        self._overrides: dict[tuple[str, str], SettingsOverride] = {}
        self._quotas: dict[str, Quota] = {}
        self._entries: dict[str, Entry] = {}
        self._by_digest: dict[bytes, Entry] = {}
        self.bearers: dict[bytes, Caller] = {}
        """By `Authorization` header, as it is usually written: callers that were found, and that only a change of keys
        can refuse. Hashing a key costs more than the rest of the check.
        """
        self.has_keys = False

    # -- what is known -----------------------------------------------------------------------------------------------

    def configure(self, keys: Iterable[Key], apps: Iterable[App]) -> None:
        """Follow a configuration file. Keys made at run time stay, unless the file has a key of that name now."""
        self._keys, self._apps = tuple(keys), tuple(apps)
        self._rebuild()

    def load(self, keys: Iterable[RuntimeKey], overrides: Iterable[SettingsOverride]) -> None:
        self._runtime_keys = {key.name: key for key in keys}
        self._overrides = {(one.kind, one.name): one for one in overrides}
        self._rebuild()

    def put_key(self, key: RuntimeKey) -> None:
        self._runtime_keys[key.name] = key
        self._rebuild_key(key.name)

    def remove_key(self, name: str) -> None:
        self._runtime_keys.pop(name, None)
        self._overrides.pop(("key", name), None)
        self._rebuild()

    def put_override(self, override: SettingsOverride) -> None:
        self._overrides[override.kind, override.name] = override
        if override.kind == "key":
            self._rebuild_key(override.name)
        else:
            self._rebuild()

    def remove_override(self, kind: str, name: str) -> None:
        self._overrides.pop((kind, name), None)
        self._rebuild()

    def entries(self) -> dict[str, Entry]:
        """All keys, by name."""
        return self._entries

    def entry(self, name: str) -> Entry:
        """Raises ClientError 404."""
        entry = self._entries.get(name)
        if entry is None:
            text = f"there is no key '{name[:64]}'; `stoker keys list` shows all"
            raise ClientError(text, code="unknown_key", status=404)
        return entry

    def app(self, name: str) -> App:
        """An application as configured. Raises ClientError 404."""
        for app in self._apps:
            if app.name == name:
                return app
        known = ", ".join(one.name for one in self._apps) or "none is configured"
        text = f"there is no application '{name[:64]}' ({known}): add [app.{name[:64]}] to the configuration"
        raise ClientError(text, code="unknown_app", status=404)

    @property
    def apps(self) -> tuple[App, ...]:
        return self._apps

    def override(self, kind: str, name: str) -> SettingsOverride | None:
        return self._overrides.get((kind, name))

    def overrides(self) -> list[SettingsOverride]:
        return list(self._overrides.values())

    def quota(self, kind: str, name: str) -> Quota | None:
        """The counters of a key or an application."""
        return self._quotas.get(f"{kind} {name}")

    def quotas(self) -> Mapping[str, Quota]:
        """All counters, by owner: `key NAME` or `app NAME`."""
        return self._quotas

    # -- requests ----------------------------------------------------------------------------------------------------

    def find(self, presented: bytes) -> Caller | None:
        """The caller with this key; None: nobody has it. Raises ClientError 401: it is disabled or has expired."""
        digest = self.digest(presented)
        found = self.find_digest(digest)
        if found is not None and self._may_be_remembered(digest):
            self.bearers[b"Bearer " + presented] = found
        return found

    def _may_be_remembered(self, digest: bytes) -> bool:
        """Whether only a change of keys can refuse it: it does not expire."""
        key = self._by_digest[digest].runtime_key
        return key is None or (key.expires_at is None and digest.hex() != key.previous_digest)

    def find_digest(self, digest: bytes) -> Caller | None:
        """As `find`, for the key with this hash."""
        entry = self._by_digest.get(digest)
        if entry is None:
            return None
        override, key = entry.override, entry.runtime_key
        if override is not None and override.is_disabled:
            raise ClientError("this API key is disabled", code="key_disabled", status=401)
        if key is not None:
            now = self._wall()
            is_previous = key.previous_digest and digest.hex() == key.previous_digest
            if (key.expires_at is not None and now >= key.expires_at) or (is_previous and now >= key.previous_until):
                raise ClientError("this API key has expired", code="key_expired", status=401)
        return entry.caller

    def digest(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, digest_size=32, key=self._salt).digest()

    # -- building ----------------------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        self._entries, self._by_digest, self.bearers = {}, {}, {}
        for app in self._apps:
            settings = self._app_settings(app)
            title = f"application '{app.name}'"
            self._follow("app", app.name, title, limits_of(settings), settings.max_active)
        for key in self._keys:
            self._add(key, None)
        for runtime_key in self._runtime_keys.values():
            if runtime_key.name not in self._entries:
                self._add(self._made(runtime_key), runtime_key)
        self.has_keys = bool(self._entries)

    def _rebuild_key(self, name: str) -> None:
        """As `_rebuild`, for one key: making 10,000 keys costs as much per key as making the first."""
        self.bearers = {}
        configured = next((key for key in self._keys if key.name == name), None)
        old = self._entries.get(name)
        if old is not None:
            self._by_digest = {digest: entry for digest, entry in self._by_digest.items() if entry is not old}
        if configured is not None:
            self._add(configured, None)
        elif (runtime_key := self._runtime_keys.get(name)) is not None:
            self._add(self._made(runtime_key), runtime_key)

    def _made(self, key: RuntimeKey) -> Key:
        return make_key(key.name, Secret("", ""), key.settings, key.app, self._inherited(key.app))

    def _add(self, key: Key, runtime_key: RuntimeKey | None) -> None:
        name, app = key.name, key.app
        override = self._overrides.get(("key", name))
        if override is not None:
            key = make_key(name, key.value, override.settings.over(key.own), app, self._inherited(app))
        elif ("app", app) in self._overrides:
            key = make_key(name, key.value, key.own, app, self._inherited(app))
        quotas = [self._follow("key", name, f"key '{name}'", key.limits, key.max_active)]
        if f"app {app}" in self._quotas:
            quotas.append(self._quotas[f"app {app}"])
        self.has_keys = True
        entry = self._entries[name] = Entry(Caller(key, quotas, self._steady), runtime_key, override)
        if runtime_key is None:
            self._by_digest[self.digest(key.value.reveal().encode())] = entry
            return
        self._by_digest[bytes.fromhex(runtime_key.digest)] = entry
        if runtime_key.previous_digest:
            self._by_digest[bytes.fromhex(runtime_key.previous_digest)] = entry

    def _inherited(self, name: str) -> KeySettings:
        app = next((one for one in self._apps if one.name == name), None)
        return NO_SETTINGS if app is None else self._app_settings(app)

    def _app_settings(self, app: App) -> KeySettings:
        override = self._overrides.get(("app", app.name))
        return app.settings if override is None else override.settings.over(app.settings)

    def _follow(self, kind: str, name: str, title: str, limits: UsageLimits, max_active: int | None) -> Quota:
        """The quota of an owner, with these limits; what it has used stays."""
        owner = f"{kind} {name}"
        quota = self._quotas.get(owner)
        if quota is None:
            quota = self._quotas[owner] = Quota(Account(title, limits, self._counters.get(owner)))
        quota.configure(limits, max_active)
        return quota
