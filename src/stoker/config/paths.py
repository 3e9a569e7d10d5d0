"""Where things lie: absolute paths from what the file says, and the defaults that the desktop rules give."""

from __future__ import annotations

import os
from pathlib import Path

VAULT = "vault:"


def absolute(text: str, directory: Path) -> Path:
    """`text` with `~` filled in, relative to `directory`, without `..`; links are left as they are."""
    return Path(os.path.normpath(directory / os.path.expanduser(text)))


def default_state() -> Path:
    return _xdg("XDG_STATE_HOME", ".local/state") / "stoker"


def default_vault() -> Path:
    return Path.home() / ".local/share/stoker/vault"


def default_config() -> Path:
    return _xdg("XDG_CONFIG_HOME", ".config") / "stoker" / "stoker.toml"


def in_vault(model: str, vault: Path) -> Path:
    """The path of `vault:NAME`. Raises ValueError when it is not under the vault."""
    name = model.removeprefix(VAULT)
    path = Path(os.path.normpath(vault / name))
    if not name or path == vault or not path.is_relative_to(vault):
        raise ValueError("vault:NAME must name a file under the vault")
    return path


def _xdg(variable: str, fallback: str) -> Path:
    """A relative value is to be ignored, says the XDG base directory specification."""
    value = os.environ.get(variable, "")
    return Path(value) if os.path.isabs(value) else Path.home() / fallback
