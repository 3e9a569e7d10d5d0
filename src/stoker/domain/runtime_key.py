"""Keys that are made at run time, and changes of keys and applications that override the configuration file."""

from __future__ import annotations

import msgspec

from stoker.domain.key import KeySettings


class RuntimeKey(msgspec.Struct, frozen=True):
    """A key that is not in the configuration file. Times are Unix seconds. The key itself is not stored."""

    name: str
    digest: str
    """Keyed hash of the key, as hexadecimal digits."""
    begins: str
    """The first characters of the key, by which people tell keys apart."""
    created_at: float
    app: str = ""
    settings: KeySettings = KeySettings()
    expires_at: float | None = None
    previous_digest: str = ""
    """Of the key before the last rotation; empty: there is none."""
    previous_until: float = 0.0
    """How long that one stays valid."""


class SettingsOverride(msgspec.Struct, frozen=True):
    """A change at run time of a key or an application. It holds until it is reset."""

    kind: str
    """`key` or `app`."""
    name: str
    settings: KeySettings = KeySettings()
    is_disabled: bool = False
    reason: str = ""
    at: float = 0.0
    """Unix time of the last change."""
