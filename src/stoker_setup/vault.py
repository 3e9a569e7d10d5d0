"""The models in the vault, and the hidden directory in which an unfinished one grows. Blocks, for milliseconds.

VAULT/.staging/KEY/       what was downloaded so far, drafts included; removed when the model is complete
VAULT/.staging/KEY.json   the source, and its state then; stays, to recognise the model later
VAULT/.staging/KEY.lock   locked while a process works there
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.serve import Serve
from stoker.fleet.weights import drafts
from stoker.fleet.weights.sources import is_file
from stoker.store.files.split_gguf import model_files, parse_part

FOLDER = ".staging"


class PrefetchRefused(StokerError):
    """A model is not staged, or not taken out; the message says why and what to type."""

    status = 409
    code = "not_staged"


class StagingNote(msgspec.Struct, frozen=True):
    """Where a model comes from: its source as it prints, and of each item its size and mark then."""

    source: str
    marks: dict[str, tuple[int | None, str]]


class StagingArea:
    """Of one model. Everything here blocks, for milliseconds."""

    def __init__(self, vault: Path, name: str) -> None:
        self.name = name
        self.root = vault / FOLDER
        key = quote(name, safe="")
        self.path = self.root / key
        self._note = self.root / f"{key}.json"
        self.lock = self.root / f"{key}.lock"

    @property
    def size(self) -> int:
        """Bytes in it."""
        return drafts.bytes_of(self.path) if self.path.is_dir() else 0

    @property
    def note(self) -> StagingNote | None:
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=StagingNote)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def write(self, note: StagingNote) -> None:
        """Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        draft = self._note.with_name(f".{self._note.name}")
        draft.write_bytes(msgspec.json.encode(note))
        draft.rename(self._note)

    def discard(self) -> None:
        """Everything of it. What cannot be removed is left."""
        self.empty()
        with contextlib.suppress(OSError):
            self._note.unlink(missing_ok=True)

    def empty(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock it. Never waits: raises PrefetchRefused `being_staged`, naming the other process; OSError.

        The kernel drops the lock with its process, so a crash leaves none.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        handle = self._take()
        try:
            yield
        finally:
            self.lock.unlink(missing_ok=True)
            os.close(handle)

    def _take(self) -> int:
        while True:
            handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = os.read(handle, 20).decode("ascii", "replace").strip()
                os.close(handle)
                raise PrefetchRefused(
                    f"vault:{self.name} is being staged by process {who or '?'}: wait until it has ended, or end it "
                    f"(`kill -INT {who or 'PID'}`; the fetched part is kept)",
                    code="being_staged",
                ) from None
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(handle).st_ino == self.lock.stat().st_ino:
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                    return handle
            os.close(handle)  # its last owner removed it between the two checks


def staging_areas(vault: Path) -> list[StagingArea]:
    """What was begun and has not arrived."""
    try:
        found = sorted(entry.name for entry in os.scandir(vault / FOLDER) if entry.is_dir())
    except OSError:
        return []
    return [StagingArea(vault, unquote(key)) for key in found]


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
    """Names of the serves that may read it: they name it, something in it, or a folder of the vault that contains it,
    as their model, beside it (draft model, projector, adapters), or in a command, an argument or a variable.

    Links count as what they name and as what they lead to.
    """
    vault = model.path.parents[len(Path(model.name).parts) - 1]
    vaults = _spellings(vault)
    places = {spelling for place in (model.path, *model.files) for spelling in _spellings(place)}
    quoted = re.compile("|".join(rf"{re.escape(str(place))}(?![\w.-])" for place in places))
    around = {folder for place in places for folder in place.parents if not vaults.isdisjoint(folder.parents)}

    def is_read_by(serve: Serve) -> bool:
        texts = _texts(serve)
        if any(quoted.search(text) for text in texts):
            return True
        paths = {path for text in texts for path in _paths(text, serve.working_directory)}
        return any(path in around or path in places or not places.isdisjoint(path.parents) for path in paths)

    return [serve.name for serve in serves if is_read_by(serve)]


def _texts(serve: Serve) -> list[str]:
    """Everything in which a serve may name a file that it reads."""
    tuning = serve.tuning
    settings = (serve.model, tuning.speculative, tuning.mmproj, tuning.chat_template, serve.source)
    commands = (*(serve.cmd or ()), *(serve.up or ()), *serve.extra_args, *serve.env.values())
    texts = (*settings, *tuning.adapters, *serve.requires.files, *commands)
    return [text.replace("{dir}", serve.directory) for text in texts if text]


def _paths(text: str, directory: str) -> set[Path]:
    """What of a text may be a path: all of it, the value of an option, and each part between the usual separators."""
    words = {text, text.partition("=")[2], *re.split(r"[=,:;\s\"']+", text)}
    return {
        path for word in words if "/" in word or word.endswith(".gguf") for path in _spellings(Path(directory, word))
    }


def _spellings(path: Path) -> frozenset[Path]:
    """As it is written, and as what its links lead to."""
    return frozenset((Path(os.path.abspath(path)), Path(os.path.realpath(path))))


def remove(vault: Path, model: VaultModel) -> int:
    """The bytes that are free again. The first part goes first: what is left of a broken removal is no model.

    Raises PrefetchRefused `being_staged`, `vault_unusable`.
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
        raise PrefetchRefused(
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


def fetched_now(vault: Path) -> str:
    """What a command brings into the vault now, for people; empty: nothing."""
    for area in staging_areas(vault):
        with contextlib.suppress(OSError), area.lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return f"vault:{area.name} is being fetched"
    return ""
