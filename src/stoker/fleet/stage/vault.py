"""The models in the vault. Everything here blocks: it reads directories, not files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.serve import Serve
from stoker.fleet.rehydrate.sources import is_file
from stoker.fleet.stage.staging_area import FOLDER, StageRefused, StagingArea
from stoker.store.files.split_gguf import model_files, parse_part


@dataclass(frozen=True, slots=True)
class VaultModel:
    """`name` is what stands behind `vault:`. `files` are there, `missing` are parts that are not."""

    name: str
    path: Path
    files: tuple[Path, ...]
    missing: int = 0

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    @property
    def size(self) -> int:
        return sum(_size(file) for file in self.files)

    @property
    def weights(self) -> list[Path]:
        return [file for file in self.files if is_file(file.name)]

    def key(self, file: Path) -> str:
        """The name by which a serve's `sha256` means the file."""
        return str(file.relative_to(self.path)) if self.is_folder else file.name


def models(vault: Path) -> list[VaultModel]:
    """By name. Hidden names, and files that are no weights, are none."""
    return sorted(_below(vault, vault), key=lambda model: model.name)


def find(vault: Path, name: str) -> VaultModel | None:
    """By its name, or any folder of that name."""
    folder = vault / name
    found = next((model for model in models(vault) if model.name == name), None)
    if found is None and ".." not in folder.parts and not name.startswith(".") and folder.is_dir():
        return VaultModel(name, folder, tuple(_files(folder)))
    return found


def listing(directory: Path) -> list[str]:
    """The files of a model that is a folder, relative to it."""
    return [str(file.relative_to(directory)) for file in _files(directory)]


def used(vault: Path) -> int:
    """Bytes of everything in it, drafts and caches included, notes and locks not."""
    return sum(_size(file) for file in _files(vault, hidden=True) if file.parent != vault / FOLDER)


def users(model: VaultModel, serves: Iterable[Serve]) -> list[str]:
    """Names of the serves that read it: as their model, or somewhere in their arguments."""
    places = {str(model.path), *(str(file) for file in model.files)}
    return [
        serve.name
        for serve in serves
        if serve.model in places
        or any(place in word for word in (*serve.extra_args, *(serve.cmd or ())) for place in places)
    ]


def remove(vault: Path, model: VaultModel) -> int:
    """The bytes that are free again. The first part goes first: what is left of a broken removal is no model.

    Raises StageRefused `being_staged`, `vault_unusable`.
    """
    box = StagingArea(vault, model.name)
    freed = model.size + box.size
    try:
        with box.claimed():
            if model.is_folder:
                away = model.path.with_name(f".{model.path.name}.removed")
                model.path.rename(away)
                shutil.rmtree(away)
            else:
                for file in model.files:
                    file.unlink(missing_ok=True)
            box.discard()
    except OSError as error:
        raise StageRefused(
            f"{model.path} cannot be removed ({error.strerror}): make {model.path.parent} writable for you",
            code="vault_unusable",
        ) from error
    return freed


def _below(directory: Path, vault: Path) -> Iterator[VaultModel]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    if directory != vault and any(e.name == "config.json" or e.name.endswith(".safetensors") for e in entries):
        yield VaultModel(str(directory.relative_to(vault)), directory, tuple(_files(directory)))
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _below(path, vault)
        elif is_file(entry.name) and _is_first(path):
            wanted = [Path(each) for each in model_files(str(path))]
            there = tuple(each for each in wanted if each.exists())
            yield VaultModel(str(path.relative_to(vault)), path, there, len(wanted) - len(there))


def _is_first(path: Path) -> bool:
    found = parse_part(str(path))
    return found is None or found.number == 1


def _files(directory: Path, hidden: bool = False) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if hidden or not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if hidden or not name.startswith("."))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
