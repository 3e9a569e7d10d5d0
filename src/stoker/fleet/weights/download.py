"""Downloads one file or folder into the vault: check room, bring it into a draft, hash, rename.

The draft lies beside the target under its own name, so that half a model is never taken for a whole one, and the last
step is a rename. Two downloads of one target are one: the second waits for the first. Programs (rsync, aws, hf) run in
a session of their own, which is ended with all that they started.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker.domain.errors import StartFailed
from stoker.engines.last_output import redact
from stoker.fleet.process.environment import is_secret
from stoker.fleet.weights import copying, drafts
from stoker.fleet.weights.copying import DraftUnwritable, FileHasher, SourceUnreadable, in_thread
from stoker.fleet.weights.sources import TOOLS, SourceKind, WeightSource, download_command, parse_size, size_command

POLL_INTERVAL = 0.25
"""Seconds between two checks of a fetch's progress."""
GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL."""
_KEPT = 2**16


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """How it ended, and the last of its two outputs together."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def last(self) -> str:
        """Its last line of any use, shortened."""
        return next((line.strip()[:300] for line in reversed(self.lines) if line.strip()), "it printed nothing")


async def run_tool(
    argv: Sequence[str], environment: Mapping[str, str], on_poll: Callable[[], None] = lambda: None
) -> ToolOutput:
    """Run it to its end, calling `on_poll` now and then. Raises OSError if it cannot be started.

    On cancel everything that it started is gone before CancelledError leaves this call.
    """
    # A file, not a pipe: ssh may leave a process behind that keeps a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                polling = tasks.create_task(_poll(on_poll))
                code = await process.wait()
                polling.cancel()
        except BaseException:
            await _end(process)
            raise
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _KEPT))
        return ToolOutput(code, output.read().decode("utf-8", "replace"))


async def _poll(on_poll: Callable[[], None]) -> None:
    while True:
        on_poll()
        await asyncio.sleep(POLL_INTERVAL)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Not to be interrupted, and over within GRACE and a moment."""
    ending = asyncio.get_running_loop().create_task(_kill(process), name="end-fetch")
    while not ending.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([ending])
    ending.result()


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # members of the group that ignored SIGTERM
    await process.wait()


CONCURRENT_DOWNLOADS = 2
"""Fetches under way at the same time."""
REPORT_EVERY = 0.2
"""Seconds between two progress reports."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SAYS_FULL = ("No space left on device", "Errno 28", "(28)", "Disk quota exceeded")


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a file is. Bytes and seconds; None: not known."""

    file: str
    done: int
    total: int | None
    seconds_left: float | None


OnDownloadProgress = Callable[[DownloadProgress], None]


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """A target that is not there, and where it comes from. `size` in bytes; None: not known."""

    target: Path
    source: WeightSource
    sha256: Mapping[str, str]
    """File name to digest: of the target itself, or of files in a target that is a folder."""
    size: int | None = None


@dataclass(eq=False, slots=True)
class _SharedDownload:
    task: asyncio.Task[None]
    listeners: list[OnDownloadProgress] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is at a source. `size` in bytes, None: nothing tells; `mark` tells one state of it from another."""

    size: int | None
    mark: str = ""


class Downloader:
    """All methods belong to the loop's thread. `free` says how many bytes a directory has room for.

    `keeps`: a fetch that is cancelled leaves what it has, for the next one to go on with. `headers` are sent to web
    sources: `authorization` is not sent on to another host.
    """

    def __init__(
        self,
        hashes: FileHasher,
        environment: Mapping[str, str],
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
        keeps: bool = False,
        headers: Mapping[str, str] = {},
    ) -> None:
        self._hashes = hashes
        # A program that asks for a password would wait forever.
        quiet = {"RSYNC_RSH": "ssh -o BatchMode=yes", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        self._environment = quiet | dict(environment)
        self._free = free
        self._keeps = keeps
        self._headers = headers
        self._shared_downloads: dict[Path, _SharedDownload] = {}
        self._turn = asyncio.Semaphore(CONCURRENT_DOWNLOADS)

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
            from stoker.fleet.weights import http_download

            try:
                remote = await in_thread(partial(http_download.remote_file, source, headers=self._headers))
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
        return sum(len(shared.listeners) for shared in self._shared_downloads.values())

    async def download(self, wanted: DownloadRequest, on_progress: OnDownloadProgress) -> None:
        """Bring `wanted.target` there, whole and verified; a second caller for the same target waits for the first.

        Raises StartFailed: `source_unreachable`, `hash_mismatch`, `disk_full`, `vault_unusable`, `tool_missing`. When
        all callers are cancelled, the fetch stops, and its remains are gone when CancelledError leaves (unless it
        `keeps` them).
        """
        while (shared := self._shared_downloads.get(wanted.target)) is not None and not shared.listeners:
            await asyncio.wait([shared.task])  # it was given up and is ending
        if shared is None:
            listeners: list[OnDownloadProgress] = []
            fetching = self._download_once(wanted, listeners)
            task = asyncio.get_running_loop().create_task(fetching, name=f"fetch-{wanted.target.name}")
            shared = self._shared_downloads[wanted.target] = _SharedDownload(task, listeners)
            task.add_done_callback(lambda _: self._shared_downloads.pop(wanted.target, None))
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

    async def _download_once(self, wanted: DownloadRequest, listeners: list[OnDownloadProgress]) -> None:
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

    def _put_in_place(self, wanted: DownloadRequest, draft: Path, digest: str) -> None:
        """Blocks."""
        draft.rename(wanted.target)  # an empty folder that is in the way is replaced
        copying.note_of(draft).unlink(missing_ok=True)
        if not wanted.target.is_dir():
            self._hashes.remember(wanted.target, digest)

    async def _bring(self, wanted: DownloadRequest, draft: Path, listeners: list[OnDownloadProgress]) -> str:
        """The digest of the draft, which is whole then; empty for a folder."""
        report = self._reporter(wanted, listeners)
        if wanted.source.kind is SourceKind.PATH:
            return await in_thread(partial(drafts.copy, Path(wanted.source.path), draft, report))
        if wanted.source.kind is SourceKind.HTTP:
            from stoker.fleet.weights import http_download

            is_proved = bool(wanted.sha256)
            return await in_thread(
                lambda stop: http_download.fetch(wanted.source, draft, is_proved, stop, report, self._headers),
            )
        return await self._run_tool(wanted, draft, report)

    async def _run_tool(self, wanted: DownloadRequest, draft: Path, report: Callable[[int], None]) -> str:
        """The digest; empty for a folder."""
        source = wanted.source
        box = draft.with_name(f"{draft.name}.d")
        is_boxed = source.kind is SourceKind.HF and not source.is_folder
        argv = download_command(source, self._tool(source), str(box if is_boxed else draft))
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

    async def _run(self, argv: tuple[str, ...], on_poll: Callable[[], None]) -> ToolOutput:
        try:
            return await run_tool(argv, self._environment, on_poll)
        except OSError as error:
            text = f"{argv[0]} cannot be run ({error.strerror}): install it again"
            raise StartFailed(text, code="tool_missing") from error

    def _failure(self, argv: tuple[str, ...], output: ToolOutput) -> str:
        secrets = [value for name, value in self._environment.items() if is_secret(name) and len(value) >= 6]
        return f"{os.path.basename(argv[0])} ended with code {output.code}: {redact(output.last, secrets)}"

    def _reporter(self, wanted: DownloadRequest, listeners: list[OnDownloadProgress]) -> Callable[[int], None]:
        """Reports progress to the listeners, now and then. May be called from any thread."""
        loop = asyncio.get_running_loop()
        pace = _Pace()

        def call_listeners(done: int) -> None:
            left = pace.seconds_left(done, wanted.size)
            for each in list(listeners):
                each(DownloadProgress(wanted.target.name, done, wanted.size, left))

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


def _verify(wanted: DownloadRequest, draft: Path, digest: str, stop: threading.Event) -> None:
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


def _unwritten(wanted: DownloadRequest, error: OSError) -> StartFailed:
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
