"""Absolute paths from the file, and defaults from the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path

VAULT = "vault:"
SYSTEM_CONFIG = Path("/etc/stoker/stoker.toml")
"""What the service of a package reads."""


def absolute(text: str, directory: Path) -> Path:
    """`text` with `~` filled in, relative to `directory`, without `..`; links are left as they are."""
    return Path(os.path.normpath(directory / os.path.expanduser(text)))


def default_state() -> Path:
    return _xdg("XDG_STATE_HOME", ".local/state") / "stoker"


def default_vault() -> Path:
    return Path.home() / ".local/share/stoker/vault"


def default_config() -> Path:
    return _xdg("XDG_CONFIG_HOME", ".config") / "stoker" / "stoker.toml"


def config_places() -> tuple[Path, ...]:
    """Where a configuration may lie that no option and no variable names; the first one counts."""
    return (Path("stoker.toml"), default_config(), SYSTEM_CONFIG)


def in_vault(model: str, vault: Path) -> Path:
    """The path of `vault:NAME`. Raises ValueError when it is not under the vault."""
    name = model.removeprefix(VAULT)
    path = Path(os.path.normpath(vault / name))
    if not name or path == vault or not path.is_relative_to(vault):
        raise ValueError("vault:NAME must name a file under the vault")
    return path


def _xdg(variable: str, fallback: str) -> Path:
    """The XDG base directory specification says that a relative value has to be ignored."""
    value = os.environ.get(variable, "")
    return Path(value) if os.path.isabs(value) else Path.home() / fallback
