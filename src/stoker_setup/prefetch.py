"""Brings a model into the vault while others are served: which files, from where; check, download, verify, move.

It grows in its own staging area under the vault, where no serve reads, and is renamed when all of it is verified and
synced; of a split model the first part, by which it is known, last. A later attempt continues with what an earlier one
left, except after a wrong hash: that leaves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from stoker.domain.errors import StartFailed, StokerError
from stoker.fleet.weights import drafts
from stoker.fleet.weights.copying import FileHasher, in_thread
from stoker.fleet.weights.download import Downloader, DownloadProgress, DownloadRequest, SourceState, mismatch
from stoker.fleet.weights.sources import SourceKind, WeightSource, is_file, of_file, of_folder
from stoker.store.files.split_gguf import GgufPart, model_files, parse_part
from stoker_setup import vault as vaults
from stoker_setup.vault import PrefetchRefused, StagingArea, StagingNote

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
        called = checked_name(_file_name(name, own))
        beside = PurePosixPath(called).parent
        files = [str(PurePosixPath(each).relative_to(beside)) for each in model_files(called)]
        first = files[0]
        items = tuple(Item(each, of_file(source, first, each)) for each in files)
        theirs = {unquote(item.source.name): item.name for item in items}
        return Order(called, source, items, False, _digests(digests, {**theirs, **{each: each for each in files}}))
    if source.kind is SourceKind.HTTP:
        raise ValueError(
            f"{source} does not have the suffix of a model file: name the file, or what it is "
            "with `stoker stage SOURCE --as NAME.gguf`; a folder "
            "cannot be listed over HTTP (hf:ORG/REPO, s3://BUCKET/FOLDER/ and rsync:HOST:PATH can)"
        )
    folder = of_folder(source)
    last = (folder.path.rstrip("/") or folder.place).rpartition("/")[2]
    called = checked_name(name or last)
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


def checked_name(name: str) -> str:
    """Raises ValueError for a name that is hidden, leaves the vault, or would need quoting somewhere."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} is not a valid name for a model: letters, digits and . _ + - (and / for a folder), not "
            "beginning with a dot; choose one with `stoker stage SOURCE --as NAME`"
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
        why = (
            "and differs"
            if situation.is_same is False
            else "and nothing proves that it is the same (`--sha256` of `stoker stage` would)"
        )
        ways = (
            "fetch this one under another name with `stoker stage SOURCE --as NAME`, or type "
            f"`stoker stage --remove {situation.name}` first"
        )
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


def lower_priority() -> None:
    """For this process and all that it starts, for good. What the system does not allow is left as it is."""
    import psutil

    with contextlib.suppress(OSError):
        os.nice(19 - os.nice(0))
    with contextlib.suppress(OSError, AttributeError, psutil.Error):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


_SPARE = 2**30
"""Bytes of the disk that staging leaves free for running serves; of a small disk a hundredth."""


@dataclass(frozen=True, slots=True)
class PrefetchProgress:
    """How far a model is. Bytes; `total` None: not known. `file` empty: all is there and being proved."""

    file: str
    done: int
    total: int | None


OnPrefetchProgress = Callable[[PrefetchProgress], None]


@dataclass(frozen=True, slots=True)
class PrefetchPlan:
    decision: PrefetchDecision
    situation: PrefetchSituation
    source_states: Mapping[str, SourceState]
    """By item."""


@dataclass(frozen=True, slots=True)
class Prefetched:
    """A model that is in the vault. `sha256` by file, as a serve's; `fetched` False: it was there already."""

    name: str
    path: Path
    sha256: Mapping[str, str]
    sizes: Mapping[str, int]
    proved: frozenset[str]
    """The files whose digest was given."""
    fetched: bool
    seconds: float


def room(directory: Path) -> int:
    """Bytes that may be written before the disk counts as full."""
    usage = shutil.disk_usage(drafts.existing(directory))
    return usage.free - min(_SPARE, usage.total // 100)


class Prefetcher:
    """One per command. All methods belong to the loop's thread."""

    def __init__(
        self,
        vault: Path,
        state: Path,
        quota: int | None = None,
        environment: Mapping[str, str] = os.environ,
        room: Callable[[Path], int] = room,
        headers: Mapping[str, str] = {},
    ) -> None:
        """`headers` are sent to web sources."""
        self._vault, self._quota, self._room = vault, quota, room
        self._hashes = FileHasher(state)
        self._downloader = Downloader(self._hashes, environment, keeps=True, headers=headers)

    async def plan(self, order: Order) -> PrefetchPlan:
        """Asks the source for its files; changes nothing. Raises StartFailed `source_unreachable`, `tool_missing`."""
        states = {item.name: await self._downloader.source_state(item.source) for item in order.items}
        sizes = [each.size for each in states.values()]
        box = StagingArea(self._vault, order.name)
        is_there = self._model(order).exists()
        situation = PrefetchSituation(
            order.name,
            is_there,
            await self._is_same(order, box, states) if is_there else None,
            None if None in sizes else sum(size or 0 for size in sizes),
            box.size if _is_of(box.note, order) else 0,
            await in_thread(lambda stop: vaults.used(self._vault)),
            self._quota,
            self._room(self._vault),
        )
        return PrefetchPlan(decide(situation), situation, states)

    async def prefetch(
        self, order: Order, on_progress: OnPrefetchProgress = lambda progress: None, resume: bool = True
    ) -> Prefetched:
        """Bring it into the vault; if exactly this model is there, nothing happens.

        Raises PrefetchRefused `being_staged`, `name_taken`, `over_quota`, `disk_full`, `no_model`, `vault_unusable`,
        and what `Downloader.download` does. On cancel the part that was downloaded is kept, and the next call continues
        with it.
        """
        began = time.monotonic()
        box = StagingArea(self._vault, order.name)
        try:
            with box.claimed():
                if not resume:
                    box.empty()
                plan = await self.plan(order)
                if plan.decision.answer is PrefetchAnswer.REFUSE:
                    raise PrefetchRefused(plan.decision.why, code=plan.decision.code)
                is_new = plan.decision.answer is PrefetchAnswer.FETCH
                if is_new:
                    try:
                        await self._bring(order, box, plan, on_progress)
                    except StokerError as failure:
                        if failure.code in ("hash_mismatch", "no_model") or not box.size:
                            box.discard()
                        raise
                return await self._staged(order, is_new, began)
        except OSError as error:
            raise PrefetchRefused(
                f"{self._vault} cannot be written ({error.strerror}): make it writable for you, or set `vault` in "
                "[paths]",
                code="vault_unusable",
            ) from error

    async def _bring(self, order: Order, box: StagingArea, plan: PrefetchPlan, on_progress: OnPrefetchProgress) -> None:
        marks = {name: (state.size, state.mark) for name, state in plan.source_states.items()}
        old = box.note
        if not _is_of(old, order):
            box.empty()
        box.write(StagingNote(str(order.source), marks))
        content = _Content(order, box)
        done = 0
        for item in order.items:
            target = content.path(item.name)
            if target.exists() and (old is None or old.marks.get(item.name) != marks[item.name]):
                target.unlink()  # whole, but of what is not there any more
            if not target.exists():
                await self._fetch(order, item, target, plan, done, on_progress)
            done += drafts.bytes_of(target)
            if target.suffix == ".gguf":
                _require_gguf(target, item)
        on_progress(PrefetchProgress("", done, plan.situation.size))
        await self._prove(order, content)
        await in_thread(lambda stop: _sync(*content.files().values()))
        self._arrive(order, content)
        box.empty()

    async def _fetch(
        self, order: Order, item: Item, target: Path, plan: PrefetchPlan, before: int, on_progress: OnPrefetchProgress
    ) -> None:
        """Stop if the vault becomes too large or its disk full: a source may not report sizes, and others write."""
        size = plan.source_states[item.name].size
        digest = order.sha256.get(item.name)
        loop = asyncio.get_running_loop()
        refusal: list[PrefetchRefused] = []

        def check_limits(progress: DownloadProgress) -> None:
            done = before + progress.done
            on_progress(PrefetchProgress(progress.file, done, plan.situation.size))
            over = over_quota(plan.situation.used - plan.situation.kept + done, self._quota)
            if over:
                refusal.append(PrefetchRefused(f"{over}; the fetched part is kept", code="over_quota"))
            elif self._room(self._vault) < 0:
                text = f"the disk of {self._vault} is nearly full: the fetched part is kept; make room and try again"
                refusal.append(PrefetchRefused(text, code="disk_full"))
            if refusal:
                limit.reschedule(loop.time())

        try:
            async with asyncio.timeout(None) as limit:
                wanted = DownloadRequest(target, item.source, {target.name: digest} if digest else {}, size)
                await self._downloader.download(wanted, check_limits)
        except TimeoutError:
            raise refusal[0] from None

    async def _prove(self, order: Order, content: _Content) -> None:
        """Hash everything that was not hashed while it came. Raises StartFailed `hash_mismatch`."""
        files = content.files()
        for name, wanted in order.sha256.items():
            if name not in files:
                text = f"{order.source} has no {name}, which --sha256 names: correct it; the fetched file is removed"
                raise StartFailed(text, code="hash_mismatch")
            found = await self._hashes.sha256(files[name])
            if found != wanted:
                text = f"{mismatch(name, str(order.source), found, wanted)}; the fetched file is removed"
                raise StartFailed(text, code="hash_mismatch")
        for path in files.values():
            await self._hashes.sha256(path)

    def _arrive(self, order: Order, content: _Content) -> None:
        """It gets its name. Blocks for a moment: it is on disk already."""
        files = content.files()
        digests = {name: self._hashes.cached(path) for name, path in files.items()}
        model = self._model(order)
        model.parent.mkdir(parents=True, exist_ok=True)
        if order.is_folder:
            content.root.rename(model)
        else:
            for name in reversed([item.name for item in order.items]):
                files[name].rename(order.path_of(str(self._vault), name))
        _sync(model.parent)
        for name, digest in digests.items():
            if digest is not None:
                self._hashes.remember(Path(order.path_of(str(self._vault), name)), digest)

    async def _staged(self, order: Order, is_new: bool, began: float) -> Prefetched:
        path = self._model(order)
        files = (
            {name: path / name for name in vaults.listing(path)}
            if order.is_folder
            else {item.name: path.with_name(item.name) for item in order.items}
        )
        digests = {name: await self._hashes.sha256(file) for name, file in files.items()}
        sizes = {name: file.stat().st_size for name, file in files.items()}
        proved = frozenset(order.sha256)
        return Prefetched(order.name, path, digests, sizes, proved, is_new, time.monotonic() - began)

    def _model(self, order: Order) -> Path:
        return Path(order.path_of(str(self._vault)))

    async def _is_same(self, order: Order, box: StagingArea, found: Mapping[str, SourceState]) -> bool | None:
        """Whether the model in the vault is the one that would be fetched; None: not known.

        1. by the digests that were given
        2. by the state of its source when it was staged
        3. for a local path, by reading it
        """
        there = {item.name: Path(order.path_of(str(self._vault), item.name)) for item in order.items}
        if not all(path.exists() for path in there.values()):
            return False
        if order.sha256:  # 1
            paths = {name: Path(order.path_of(str(self._vault), name)) for name in order.sha256}
            if not all(path.is_file() for path in paths.values()):
                return False
            return all([await self._hashes.sha256(paths[name]) == digest for name, digest in order.sha256.items()])
        note = box.note
        marks = {name: (each.size, each.mark) for name, each in found.items()}
        if note is not None and note.source == str(order.source) and note.marks == marks:  # 2
            return True
        if order.source.kind is not SourceKind.PATH:
            return None
        for item in order.items:  # 3
            mine, theirs = there[item.name], Path(item.source.path)
            if mine.stat().st_size != found[item.name].size:
                return False
            if await self._hashes.sha256(mine) != await self._hashes.sha256(theirs):
                return False
        return True


@dataclass(frozen=True, slots=True)
class _Content:
    order: Order
    box: StagingArea

    @property
    def root(self) -> Path:
        return self.box.path / Path(self.order.name).name if self.order.is_folder else self.box.path

    def path(self, item: str) -> Path:
        return self.root / item if item else self.root

    def files(self) -> dict[str, Path]:
        names = [item.name for item in self.order.items]
        if names != [""]:
            return {name: self.path(name) for name in names}
        return {str(path.relative_to(self.root)): path for path in sorted(self.root.rglob("*")) if path.is_file()}


def _is_of(note: StagingNote | None, order: Order) -> bool:
    return note is not None and note.source == str(order.source)


def _require_gguf(path: Path, item: Item) -> None:
    """Raises PrefetchRefused: pages that say "log in" come with a 200. What the file begins with is not said: the web
    page could be told to fetch it from a server that its user may not read.
    """
    with path.open("rb") as file:
        begin = file.read(16)
    if begin[:4] != b"GGUF":
        page = ", but a web page" if begin.lstrip()[:5].lower() in (b"<html", b"<!doc") else ""
        raise PrefetchRefused(
            f"the file from {item.source} is not a GGUF file{page}; the fetched file is removed: "
            "look at it in a browser, and name the file itself",
            code="no_model",
        )


def _sync(*paths: Path) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
