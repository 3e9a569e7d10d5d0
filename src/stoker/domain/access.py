"""Who may ask for what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from stoker.domain.serve import Secret, Serve, Slot


class Scope(IntEnum):
    """What a key may do; each includes the ones before it."""

    INFERENCE = 1
    OBSERVE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Key:
    """A caller's key. `models` are names or `*`; `max_active` bounds its requests in flight."""

    name: str
    value: Secret
    scope: Scope = Scope.INFERENCE
    max_active: int | None = None
    models: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True)
class FrontDoor:
    """Where Stoker listens and whom it lets in."""

    host: str = "127.0.0.1"
    port: int = 8000
    prefixes: tuple[str, ...] = ()
    body_limit: int = 32 * 2**20
    commit_after: float = 45.0
    """Seconds of silence after which a streamed request gets its 200 and pings; 0 = never."""
    stall_timeout: float = 300.0
    """Seconds without a byte from the serve, after the first one, that end a stream; 0 = never."""
    keep_alive: float = 15.0
    """Seconds between pings once a stream is committed and silent."""
    auth: bool = True
    """False only with an explicit `auth = "none"`."""
    keys: tuple[Key, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    shutdown_grace: float = 30.0
    """Seconds that streams in flight get to end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where files live; all absolute."""

    state: str
    logs: str
    vault: str
    decisions: int = 10_000
    """Decision records kept."""
    log_bytes: int = 10 * 2**20
    """Bytes kept per serve's log before it is rotated (one old file is kept)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the program runs by: what `config` yields and `app` wires together."""

    front_door: FrontDoor
    paths: Paths
    slots: tuple[Slot, ...]
    serves: tuple[Serve, ...]
    source: str = ""
    """The configuration file's absolute path; empty for the demo."""
