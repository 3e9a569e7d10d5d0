"""Where the configuration file is, and where the Stoker that it configures keeps its state.

Imports little: a command that only asks a running Stoker needs no more of the configuration.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from pathlib import Path

from stoker.config.paths import absolute, config_places, default_state
from stoker.domain.errors import ConfigError

_NEXT = "`stoker init` writes one"


def find(explicit: str | None = None) -> Path:
    """The configuration file: `explicit`, $STOKER_CONFIG, ./stoker.toml, the user's own one, then the machine's.

    The first two are taken at their word. Raises ConfigError, with the next command, when there is no file.
    """
    named = explicit or os.environ.get("STOKER_CONFIG")
    if named:
        path = Path(os.path.expanduser(named))
        if not path.is_file():
            origin = "" if explicit else " (from $STOKER_CONFIG)"
            raise ConfigError([f"{path}{origin}: {_absence(path)}"])
        return path
    here, *others = places = config_places()
    for path in places:
        if path.is_file():
            return path
    raise ConfigError([f"no configuration file: none of ./{here}, {', '.join(map(str, others))} exists; {_NEXT}"])


def _absence(path: Path) -> str:
    """Why there is no file at this path, and what to type."""
    if not path.is_dir():
        return f"there is no such file; `stoker init --path {shlex.quote(str(path))}` writes one"
    inside = path / "stoker.toml"
    if inside.is_file():
        return f"is a directory: name the file in it, {shlex.quote(str(inside))}"
    return f"is a directory without a stoker.toml; `stoker init --path {shlex.quote(str(inside))}` writes one"


def state_directory(path: Path) -> Path | None:
    """The state directory of this file, without a check of anything else. None: the file is no TOML, or `paths.state`
    is no text; `load` says what is wrong. Raises ConfigError if the file cannot be read.
    """
    try:
        raw = tomllib.loads(read_text(path))
    except (ValueError, RecursionError):
        return None
    paths = raw.get("paths", {})
    state = paths.get("state") if isinstance(paths, dict) else None
    if state is None:
        return default_state() if isinstance(paths, dict) else None
    return absolute(state, Path(os.path.abspath(path)).parent) if isinstance(state, str) and state else None


def read_text(path: Path) -> str:
    """The file's text. Raises ConfigError."""
    return decode(path, read_content(path))


def read_content(path: Path) -> bytes:
    """The file's bytes. Raises ConfigError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError([f"{path}: {_absence(path)}"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}; check its owner and mode"]) from None


def decode(path: Path, content: bytes) -> str:
    """The text of the file at `path`, which has this content. Raises ConfigError."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError([f"{path}:{line}: not TOML: a byte that is not UTF-8; save the file as UTF-8"]) from None
