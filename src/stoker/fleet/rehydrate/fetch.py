"""Fetches one file or folder into the vault: check room, fetch to a draft, hash, rename.

The draft lies beside the target under its own name, so that half a model is never taken for a whole one, and the last
step is a rename. Two fetches of one target are one: the second waits for the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker.domain.errors import StartFailed
from stoker.engines.last_output import redact
from stoker.fleet.process.environment import is_secret
from stoker.fleet.rehydrate import copying, drafts, tools
from stoker.fleet.rehydrate.copying import DraftUnwritable, SourceUnreadable
from stoker.fleet.rehydrate.file_hasher import FileHasher
from stoker.fleet.rehydrate.sources import TOOLS, SourceKind, WeightSource, fetch_command, parse_size, size_command
from stoker.fleet.rehydrate.threads import in_thread

CONCURRENT_FETCHES = 2
"""Fetches under way at the same time."""
REPORT_EVERY = 0.2
"""Seconds between two progress reports."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SAYS_FULL = ("No space left on device", "Errno 28", "(28)", "Disk quota exceeded")


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a file is. Bytes and seconds; None: not known."""

    file: str
    done: int
    total: int | None
    seconds_left: float | None


OnFetchProgress = Callable[[FetchProgress], None]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A target that is not there, and where it comes from. `size` in bytes; None: not known."""

    target: Path
    source: WeightSource
    sha256: Mapping[str, str]
    """File name to digest: of the target itself, or of files in a target that is a folder."""
    size: int | None = None


@dataclass(eq=False, slots=True)
class _SharedFetch:
    task: asyncio.Task[None]
    listeners: list[OnFetchProgress] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is at a source. `size` in bytes, None: nothing tells; `mark` tells one state of it from another."""

    size: int | None
    mark: str = ""


class Fetcher:
    """All methods belong to the loop's thread. `free` says how many bytes a directory has room for.

    `keeps`: a fetch that is cancelled leaves what it has, for the next one to go on with.
    """

    def __init__(
        self,
        hashes: FileHasher,
        environment: Mapping[str, str],
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
        keeps: bool = False,
    ) -> None:
        self._hashes = hashes
        # A program that asks for a password would wait forever.
        quiet = {"RSYNC_RSH": "ssh -o BatchMode=yes", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        self._environment = quiet | dict(environment)
        self._free = free
        self._keeps = keeps
        self._shared_fetches: dict[Path, _SharedFetch] = {}
        self._turn = asyncio.Semaphore(CONCURRENT_FETCHES)

    def find_tool(self, kind: SourceKind) -> str | None:
        """The path of the program that fetches from such a source; None: not installed."""
        path = self._environment.get("PATH", os.defpath)
        return next((found for name in TOOLS[kind].names if (found := shutil.which(name, path=path))), None)

    async def size(self, source: WeightSource) -> int | None:
        """The size of the source in bytes; None: unknown. Raises StartFailed `source_unreachable`, `tool_missing`."""
        return (await self.source_state(source)).size

    async def source_state(self, source: WeightSource) -> SourceState:
        """The state of the source. Raises StartFailed `source_unreachable`, `tool_missing`."""
        if source.kind is SourceKind.PATH:
            return await self._path_state(source)
        if source.kind is SourceKind.HTTP:
            from stoker.fleet.rehydrate import http_download  # urllib.request and http.client come with it

            try:
                remote = await in_thread(partial(http_download.remote_file, source))
            except SourceUnreadable as error:
                raise _unreachable(source, str(error)) from error
            return SourceState(remote.size, remote.validator)
        argv = size_command(source, self._tool(source))
        if argv is None:
            return SourceState(None)
        output = await self._run(argv, lambda: None)
        if output.code != 0:
            raise _unreachable(source, self._failure(argv, output))
        return SourceState(parse_size(source.kind, output.lines))

    async def _path_state(self, source: WeightSource) -> SourceState:
        path = Path(source.path)
        try:
            return await in_thread(lambda stop: SourceState(drafts.bytes_of(path), str(path.stat().st_mtime_ns)))
        except OSError as error:
            raise _unreachable(source, error.strerror or str(error)) from error

    @property
    def listeners(self) -> int:
        """Callers that wait for a fetch under way."""
        return sum(len(shared.listeners) for shared in self._shared_fetches.values())

    async def fetch(self, wanted: FetchRequest, on_progress: OnFetchProgress) -> None:
        """Bring `wanted.target` there, whole and verified; a second caller for the same target waits for the first.

        Raises StartFailed: `source_unreachable`, `hash_mismatch`, `disk_full`, `vault_unusable`, `tool_missing`. When
        all callers are cancelled, the fetch stops, and its remains are gone when CancelledError leaves (unless it
        `keeps` them).
        """
        while (shared := self._shared_fetches.get(wanted.target)) is not None and not shared.listeners:
            await asyncio.wait([shared.task])  # it was given up and is ending
        if shared is None:
            listeners: list[OnFetchProgress] = []
            fetching = self._fetch_once(wanted, listeners)
            task = asyncio.get_running_loop().create_task(fetching, name=f"fetch-{wanted.target.name}")
            shared = self._shared_fetches[wanted.target] = _SharedFetch(task, listeners)
            task.add_done_callback(lambda _: self._shared_fetches.pop(wanted.target, None))
        shared.listeners.append(on_progress)
        try:
            await asyncio.shield(shared.task)
        finally:
            shared.listeners.remove(on_progress)
            if not shared.listeners and not shared.task.done():
                shared.task.cancel()
                while not shared.task.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([shared.task])
            if shared.task.done() and not shared.task.cancelled():
                shared.task.exception()

    def check_room(self, directory: Path, needed: int) -> None:
        """Raises StartFailed `disk_full` that says how much is missing. Blocks."""
        free = self._free(drafts.existing(directory))
        if needed > free:
            raise StartFailed(
                f"{directory} has room for {free:,} bytes, but {needed:,} have to be fetched: "
                f"make room for {needed - free:,} more, or move the vault",
                code="disk_full",
            )

    async def _fetch_once(self, wanted: FetchRequest, listeners: list[OnFetchProgress]) -> None:
        draft = drafts.draft_of(wanted.target)
        async with self._turn:
            try:
                await in_thread(lambda stop: wanted.target.parent.mkdir(parents=True, exist_ok=True))
                found = await self._bring(wanted, draft, listeners)
                await in_thread(partial(_verify, wanted, draft, found))
                await in_thread(lambda stop: self._put_in_place(wanted, draft, found))
            except SourceUnreadable as failure:
                raise _unreachable(
                    wanted.source, str(failure)
                ) from failure  # the draft stays: the next attempt continues with it
            except (DraftUnwritable, OSError) as failure:
                await in_thread(lambda stop: drafts.discard(draft))
                raise _unwritten(
                    wanted, failure.error if isinstance(failure, DraftUnwritable) else failure
                ) from failure
            except BaseException as failure:
                if not self._keeps or not _is_resumable(wanted.source, failure):
                    await in_thread(lambda stop: drafts.discard(draft))
                raise

    def _put_in_place(self, wanted: FetchRequest, draft: Path, digest: str) -> None:
        """Blocks."""
        draft.rename(wanted.target)  # an empty folder that is in the way is replaced
        copying.note_of(draft).unlink(missing_ok=True)
        if not wanted.target.is_dir():
            self._hashes.remember(wanted.target, digest)

    async def _bring(self, wanted: FetchRequest, draft: Path, listeners: list[OnFetchProgress]) -> str:
        """The digest of the draft, which is whole then; empty for a folder."""
        report = self._reporter(wanted, listeners)
        if wanted.source.kind is SourceKind.PATH:
            return await in_thread(partial(drafts.copy, Path(wanted.source.path), draft, report))
        if wanted.source.kind is SourceKind.HTTP:
            from stoker.fleet.rehydrate import http_download

            is_proved = bool(wanted.sha256)
            return await in_thread(
                lambda stop: http_download.fetch(wanted.source, draft, is_proved, stop, report),
            )
        return await self._run_tool(wanted, draft, report)

    async def _run_tool(self, wanted: FetchRequest, draft: Path, report: Callable[[int], None]) -> str:
        """The digest; empty for a folder."""
        source = wanted.source
        box = draft.with_name(f"{draft.name}.d")
        is_boxed = source.kind is SourceKind.HF and not source.is_folder
        argv = fetch_command(source, self._tool(source), str(box if is_boxed else draft))
        output = await self._run(argv, lambda: report(drafts.bytes_so_far(draft)))
        if output.code != 0:
            if any(words in output.text for words in _SAYS_FULL):
                raise DraftUnwritable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            if source.kind is SourceKind.RSYNC:
                raise SourceUnreadable(
                    self._failure(argv, output)
                )  # rsync continues with its own remains, and checks them
            raise _unreachable(source, self._failure(argv, output))
        try:
            return await in_thread(partial(drafts.take, draft, box / source.path if is_boxed else draft))
        except FileNotFoundError:
            raise _unreachable(source, f"{os.path.basename(argv[0])} succeeded but fetched nothing") from None

    def _tool(self, source: WeightSource) -> str:
        tool = self.find_tool(source.kind)
        if tool is None:
            raise StartFailed(tool_missing(source), code="tool_missing")
        return tool

    async def _run(self, argv: tuple[str, ...], on_poll: Callable[[], None]) -> tools.ToolOutput:
        try:
            return await tools.run(argv, self._environment, on_poll)
        except OSError as error:
            text = f"{argv[0]} cannot be run ({error.strerror}): install it again"
            raise StartFailed(text, code="tool_missing") from error

    def _failure(self, argv: tuple[str, ...], output: tools.ToolOutput) -> str:
        secrets = [value for name, value in self._environment.items() if is_secret(name) and len(value) >= 6]
        return f"{os.path.basename(argv[0])} ended with code {output.code}: {redact(output.last, secrets)}"

    def _reporter(self, wanted: FetchRequest, listeners: list[OnFetchProgress]) -> Callable[[int], None]:
        """Reports progress to the listeners, now and then. May be called from any thread."""
        loop = asyncio.get_running_loop()
        pace = _Pace()

        def call_listeners(done: int) -> None:
            left = pace.seconds_left(done, wanted.size)
            for each in list(listeners):
                each(FetchProgress(wanted.target.name, done, wanted.size, left))

        def report(done: int) -> None:
            if pace.is_time(done == wanted.size):
                loop.call_soon_threadsafe(call_listeners, done)

        return report


class _Pace:
    """How fast a fetch goes, and when to report that again."""

    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None
        self._reported_at = 0.0

    def is_time(self, is_last: bool) -> bool:
        now = time.monotonic()
        if now - self._reported_at < REPORT_EVERY and not is_last:
            return False
        self._reported_at = now
        return True

    def seconds_left(self, done: int, total: int | None) -> float | None:
        now = time.monotonic()
        if self._began is None:
            self._began = (now, done)
        since, first = self._began
        if total is None or done <= first or now <= since:
            return None
        return max(0, total - done) * (now - since) / (done - first)


def _verify(wanted: FetchRequest, draft: Path, digest: str, stop: threading.Event) -> None:
    """Raises StartFailed `hash_mismatch`; the caller removes the draft. Blocks."""
    for name, expected in wanted.sha256.items():
        found = digest
        if draft.is_dir():
            if not (draft / name).is_file():
                text = f"{wanted.source} has no {name}, which `sha256` names: correct one of them"
                raise StartFailed(text, code="hash_mismatch")
            found = copying.hash_file(draft / name, stop)
        if found != expected.lower():
            text = f"{mismatch(name, str(wanted.source), found, expected)}; the fetched file is removed"
            raise StartFailed(text, code="hash_mismatch")


def _is_resumable(source: WeightSource, failure: BaseException) -> bool:
    """Whether the next fetch can resume from this draft: not after a hash mismatch, and not from S3 (aws cannot)."""
    is_wrong = isinstance(failure, StartFailed) and failure.code == "hash_mismatch"
    return not is_wrong and source.kind is not SourceKind.S3


# -- sentences ---------------------------------------------------------------------------------------------------------


def tool_missing(source: WeightSource) -> str:
    tool = TOOLS[source.kind]
    return f"{source} is fetched with `{tool.names[0]}`, which is not on PATH: {tool.install}"


def mismatch(name: str, where: str, found: str, wanted: str) -> str:
    return (
        f"{name} from {where} has sha256 {found}, and `sha256` wants {wanted.lower()}: "
        "if the file is right, correct `sha256`; if not, its source"
    )


def _unreachable(source: WeightSource, why: str) -> StartFailed:
    return StartFailed(f"the weights cannot be fetched from {source}: {why}", code="source_unreachable")


def _unwritten(wanted: FetchRequest, error: OSError) -> StartFailed:
    folder = wanted.target.parent
    if error.errno in _FULL:
        return StartFailed(
            f"{folder} became full while {wanted.target.name} was fetched ({error.strerror}): the part that was "
            "fetched is removed; make room, or move the vault",
            code="disk_full",
        )
    return StartFailed(
        f"{wanted.target} cannot be written ({error.strerror}): make {folder} writable for the user of `stoker up`",
        code="vault_unusable",
    )
