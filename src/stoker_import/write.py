"""Writes an imported configuration: the file that `stoker config check` accepts, and its secrets beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.config.load import load
from stoker.config.toml_writer import render
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError
from stoker.engines import plan
from stoker.store.files import atomic
from stoker_import.imported import ImportedConfig, SecretFile


def config_text(imported: ImportedConfig) -> str:
    """The text of the configuration file. Comments come first, one a line."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in imported.comments)
    return f"{head}\n{render(imported.document)}" if head else render(imported.document)


@dataclass(frozen=True, slots=True)
class ConfigVerdict:
    """What `stoker config check` says of an imported configuration."""

    refusals: tuple[str, ...] = ()
    """Why no file can be written that Stoker would take."""
    unset: tuple[str, ...] = ()
    """Secrets that have to be set before Stoker starts: one sentence each."""
    settings: Settings | None = None
    """None: it is refused."""


def check(imported: ImportedConfig, directory: Path) -> ConfigVerdict:
    """What `stoker config check` would say if the configuration stood in `directory`, its new secrets beside it.

    Writes a temporary file in `directory`, because paths in a configuration are relative to it, and removes it.
    Raises OSError if `directory` cannot be written to.
    """
    handle, name = tempfile.mkstemp(suffix=".toml", prefix=".stoker-import-", dir=directory)
    path = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(config_text(imported))
        try:
            settings = load(path, needs_secrets=False)
        except ConfigError as error:
            return ConfigVerdict(_as_named(error.problems, name))
        unset: list[str] = []
        try:
            load(path)
        except ConfigError as error:
            ours = [str(directory / secret.path) for secret in imported.secrets]
            unset += [problem for problem in error.problems if not any(file in problem for file in ours)]
    finally:
        path.unlink(missing_ok=True)
    unsupported = tuple(problem for serve in settings.serves for problem in plan.unsupported(serve))
    return ConfigVerdict(unsupported, _as_named(unset, name), settings)


def _as_named(problems: Sequence[str], name: str) -> tuple[str, ...]:
    return tuple(problem.replace(name, "stoker.toml") for problem in problems)


def write(imported: ImportedConfig, path: Path) -> tuple[list[Path], Path | None]:
    """Write the secrets, then the configuration, each complete or not at all. Returns the files, configuration last,
    and where what the configuration held before is kept.

    A secret's file is readable by its owner only. Raises FileExistsError if a secret's file exists with other content,
    and OSError as `open` does.
    """
    written = [_write_secret(secret, path.parent) for secret in imported.secrets]
    kept = atomic.replace_text(path, config_text(imported))
    return [*written, path], kept


def _write_secret(secret: SecretFile, directory: Path) -> Path:
    path = directory / secret.path
    if path.exists() and path.read_text(encoding="utf-8").strip() != secret.value:
        raise FileExistsError(f"{path} exists and holds another secret; move it away, and import again")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write(path, f"{secret.value}\n".encode())
    return path
