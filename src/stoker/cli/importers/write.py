"""Writes an imported configuration: the file that `stoker config check` accepts, and its secrets beside it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from stoker.cli.importers.imported import ImportedConfig, SecretFile
from stoker.config.load import load
from stoker.config.toml_writer import render
from stoker.domain.errors import ConfigError
from stoker.store.files import atomic


def config_text(imported: ImportedConfig) -> str:
    """The text of the configuration file. Comments come first, one a line."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in imported.comments)
    return f"{head}\n{render(imported.document)}" if head else render(imported.document)


def problems_of(imported: ImportedConfig, directory: Path) -> list[str]:
    """What `stoker config check` would refuse if the configuration stood in `directory`; empty if it is accepted.

    Writes a temporary file in `directory`, because paths in a configuration are relative to it, and removes it.
    Raises OSError if `directory` cannot be written to.
    """
    handle, name = tempfile.mkstemp(suffix=".toml", prefix=".stoker-import-", dir=directory)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(config_text(imported))
        load(Path(name), needs_secrets=False)
    except ConfigError as error:
        return [problem.replace(name, "stoker.toml") for problem in error.problems]
    finally:
        Path(name).unlink(missing_ok=True)
    return []


def write(imported: ImportedConfig, path: Path) -> list[Path]:
    """Write the secrets, then the configuration, each complete or not at all. Returns the files, configuration last.

    A secret's file is readable by its owner only. Raises FileExistsError if a secret's file exists with other content,
    and OSError as `open` does.
    """
    written = [_write_secret(secret, path.parent) for secret in imported.secrets]
    atomic.write(path, config_text(imported).encode(), mode=0o644)
    return [*written, path]


def _write_secret(secret: SecretFile, directory: Path) -> Path:
    path = directory / secret.path
    if path.exists() and path.read_text(encoding="utf-8").strip() != secret.value:
        raise FileExistsError(f"{path} exists and holds another secret; move it away, and import again")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write(path, f"{secret.value}\n".encode())
    return path
