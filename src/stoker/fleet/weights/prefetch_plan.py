"""What to prefetch: which files, from where, under which names; and whether it is to be done. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePosixPath
from urllib.parse import unquote

from stoker.fleet.weights.sources import SourceKind, WeightSource, is_file, of_file, of_folder
from stoker.store.files.split_gguf import GgufPart, model_files, parse_part

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to fetch. `name` is its path beside the model, or below one that is a folder; empty: all of it."""

    name: str
    source: WeightSource


@dataclass(frozen=True, slots=True)
class Order:
    """A model. `name` is what stands behind `vault:`; `sha256` is keyed as a serve's: by a file's name as in `Item`."""

    name: str
    source: WeightSource
    items: tuple[Item, ...]
    is_folder: bool
    sha256: Mapping[str, str] = field(default_factory=dict)

    def path_of(self, root: str, name: str = "") -> str:
        """The path of file `name` (empty: the model itself) if the model is `root`/NAME."""
        if self.is_folder:
            return str(PurePosixPath(root, self.name, name))
        return str(PurePosixPath(root, self.name).with_name(name) if name else PurePosixPath(root, self.name))


def order(source: WeightSource, name: str | None, digests: Sequence[str], listing: Sequence[str] = ()) -> Order:
    """`listing`: the files of a folder that is a local path, relative to it. Raises ValueError with what to type
    instead.

    1. a file, perhaps the first of several parts
    2. a folder that is copied file by file
    3. a folder that a tool fetches as a whole
    """
    own = unquote(source.name) if source.kind is SourceKind.HTTP else source.name
    if not source.is_folder and (is_file(own) or (name is not None and is_file(name))):  # 1
        called = _checked(_file_name(name, own))
        beside = PurePosixPath(called).parent
        files = [str(PurePosixPath(each).relative_to(beside)) for each in model_files(called)]
        first = files[0]
        items = tuple(Item(each, of_file(source, first, each)) for each in files)
        theirs = {unquote(item.source.name): item.name for item in items}
        return Order(called, source, items, False, _digests(digests, {**theirs, **{each: each for each in files}}))
    if source.kind is SourceKind.HTTP:
        raise ValueError(
            f"{source} does not have the suffix of a model file: name the file, or what it is "
            "with --as NAME.gguf; a folder "
            "cannot be listed over HTTP (hf:ORG/REPO, s3://BUCKET/FOLDER/ and rsync:HOST:PATH can)"
        )
    folder = of_folder(source)
    last = (folder.path.rstrip("/") or folder.place).rpartition("/")[2]
    called = _checked(name or last)
    if source.kind is SourceKind.PATH:  # 2
        if not listing:
            raise ValueError(f"{source} has no files in it")
        items = tuple(Item(each, replace(folder, path=folder.path + each)) for each in listing)
        return Order(called, folder, items, True, _digests(digests, {each: each for each in listing}))
    return Order(called, folder, (Item("", folder),), True, _digests(digests, None))  # 3


def _file_name(name: str | None, own: str) -> str:
    """With the ending, and the number of the first part, that it has at its source."""
    split = parse_part(own)
    if split is not None and split.number != 1:
        raise ValueError(f"{own} is part {split.number} of {split.count}: name the first one, {_first(split)}")
    if name is None:
        return own
    ending = PurePosixPath(own).suffix if is_file(own) else PurePosixPath(name).suffix
    if split is not None:
        given = parse_part(name)
        return str(replace(split, stem=given.stem if given else name.removesuffix(".gguf")))
    return name if name.endswith(ending) else name + ending


def _first(split: GgufPart) -> GgufPart:
    return replace(split, number=1)


def _checked(name: str) -> str:
    """Raises ValueError for a name that is hidden, leaves the vault, or would need quoting somewhere."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} is not a valid name for a model: letters, digits and . _ + - (and / for a folder), not "
            "beginning with a dot; choose one with --as NAME"
        )
    return name


def _digests(given: Sequence[str], names: Mapping[str, str] | None) -> dict[str, str]:
    """By name. `names`: allowed name -> its name in the vault; None: the names are not known yet."""
    found: dict[str, str] = {}
    targets = set(names.values()) if names is not None else set()
    for text in given:
        name, _, digest = text.rpartition("=")
        if _DIGEST.fullmatch(digest) is None:
            raise ValueError(f"--sha256 {text}: write 64 hex digits, or FILE= and 64 hex digits")
        if not name and len(targets) != 1:
            raise ValueError("--sha256 does not name its file: write FILE=HEX for each file")
        if name and names is not None and name not in names:
            raise ValueError(
                f"--sha256 names {name}, which is not among the files to fetch: {', '.join(sorted(targets))}"
            )
        target = next(iter(targets)) if not name else names[name] if names is not None else name
        if found.setdefault(target, digest.lower()) != digest.lower():
            raise ValueError(f"--sha256 is given twice for {target}, with different values")
    return found


class PrefetchAnswer(StrEnum):
    NOTHING = "nothing"
    REFUSE = "refuse"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class PrefetchSituation:
    """Bytes; None: not known. `is_same` None: nothing proves it, either way."""

    name: str
    is_there: bool
    is_same: bool | None
    size: int | None
    """Of everything to fetch."""
    kept: int
    """What an earlier attempt left of it."""
    used: int
    """In the whole vault, drafts included."""
    quota: int | None
    room: int
    """What may be written before the disk counts as full."""


@dataclass(frozen=True, slots=True)
class PrefetchDecision:
    answer: PrefetchAnswer
    code: str = ""
    why: str = ""


def decide(situation: PrefetchSituation) -> PrefetchDecision:
    """1 it is there, the very same: nothing  2 something is there: refused  3 over the quota: refused
    4 no room: refused  5 fetch
    """
    name = f"vault:{situation.name}"
    if situation.is_there and situation.is_same:  # 1
        return PrefetchDecision(
            PrefetchAnswer.NOTHING, why=f"{name} exists already and is the same: nothing is fetched"
        )
    if situation.is_there:  # 2
        why = "and differs" if situation.is_same is False else "and nothing proves that it is the same (--sha256 would)"
        ways = f"stage this one --as another name, or `stoker stage --remove {situation.name}` first"
        return PrefetchDecision(PrefetchAnswer.REFUSE, "name_taken", f"{name} exists already, {why}: {ways}")
    needed = max(0, (situation.size or 0) - situation.kept)
    over = over_quota(situation.used + needed, situation.quota)
    if over:  # 3
        return PrefetchDecision(PrefetchAnswer.REFUSE, "over_quota", over)
    short = needed - situation.room
    if short > 0:  # 4
        return PrefetchDecision(
            PrefetchAnswer.REFUSE,
            "disk_full",
            f"{needed:,} bytes have to be fetched, but the vault's disk may take only "
            f"{max(0, situation.room):,}: make room for "
            f"{short:,} more (`stoker stage --list` says what is there), or move the vault",
        )
    return PrefetchDecision(PrefetchAnswer.FETCH)  # 5


def over_quota(used: int, quota: int | None) -> str:
    """A sentence if the vault would be too large; else empty."""
    if quota is None or used <= quota:
        return ""
    return (
        f"the vault would hold {used:,} bytes, {used - quota:,} more than --quota allows: take something out "
        "(`stoker stage --list`, `stoker stage --remove NAME`), or allow more"
    )
