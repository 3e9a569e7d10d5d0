"""All jobs of this Stoker: of each lane one runs, a few wait, the last ones are kept across a restart.

A job belongs to no connection: it goes on when the page that began it is closed, and each page sees it in /status.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stoker.domain.errors import ClientError, StokerError
from stoker.store.files import atomic
from stoker_setup.jobs.job import LANES, LONGEST_WORD, NOTES, Job, JobError, JobRequest, JobState, command_of, shown
from stoker_setup.jobs.output import Meter, read_line, read_result
from stoker_setup.jobs.process import run_command

if TYPE_CHECKING:
    from stoker.cli.console.control import Control

log = logging.getLogger("stoker.setup.jobs")
KEPT = 20
"""Jobs that are over, and as many looks."""
MOST_WAITING = 8
"""In one lane."""
KEY_FOR = 24 * 3600.0
"""Seconds for which the key of a job counts, if Stoker does not live to delete it."""
STALLED_AFTER = 5.0
"""Seconds without a word after which the last speed counts no longer."""
_ENDED = ("Stoker ended meanwhile; what was fetched is kept", "interrupted")
_UNFIT = {
    "held": ("drained", "is drained by an operator: admit requests again first"),
    "paused": ("paused", "is in a slot that is paused: resume the slot first"),
    "cannot_load": ("cannot_load", "cannot load: its page says why"),
    "parked": ("parked", "failed again and again, and is parked: its page says why"),
}


class NoSuchJob(StokerError):
    status = 404
    code = "no_job"


class Jobs:
    """All methods belong to the loop's thread."""

    def __init__(
        self,
        directory: Path,
        control: Callable[[], Control],
        make_key: Callable[[str], Awaitable[str]],
        delete_key: Callable[[str], Awaitable[None]],
    ) -> None:
        """`directory`: where they are kept. `control()`: a new client of this Stoker; it is asked in a thread.
        `make_key(name)`: the value of a new key for a command; empty: it needs none. `delete_key(name)`: nothing, if
        there is no such key. Both raise StokerError.
        """
        self._file = directory / "jobs.json"
        self._control = control
        self._make_key = make_key
        self._delete_key = delete_key
        self._jobs: dict[str, Job] = {}
        self._words: dict[str, list[str]] = {}
        self._stops: dict[str, asyncio.Event] = {}
        self._heard: dict[str, float] = {}
        """When each running job last told how far it is."""
        self._running: dict[str, asyncio.Task[None]] = {}
        """By lane."""
        self._writing = asyncio.Lock()
        self._is_restored = False
        self._is_ending = False

    def summaries(self) -> list[dict[str, Any]]:
        """The newest first. Of a download that stalls no speed is told."""
        for job_id, heard in self._heard.items():
            progress = self._jobs[job_id].progress
            if progress is not None and progress.done is not None and time.monotonic() - heard > STALLED_AFTER:
                progress.speed = progress.left = None
        return [job.summary() for job in reversed(self._jobs.values()) if job.request.kind != "look" or _is_new(job)]

    def get(self, job_id: str) -> Job:
        """Raises NoSuchJob."""
        job = self._jobs.get(job_id)
        if job is None:
            raise NoSuchJob("there is no such job: only the last ones are kept")
        return job

    async def restore(self) -> None:
        """Those of the last run, once: what was not over was interrupted. Keys that it left are deleted."""
        async with self._writing:
            if self._is_restored:
                return
            found = await asyncio.to_thread(self._read)
            self._jobs = found | self._jobs
            self._is_restored = True
        for job in found.values():
            with contextlib.suppress(StokerError):
                await self._delete_key(_key_of(job))

    def _read(self) -> dict[str, Job]:
        try:
            found = msgspec.json.decode(self._file.read_bytes(), type=list[Job])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("the jobs of the web page are forgotten: %s cannot be read (%s)", self._file, error)
            return {}
        for job in found:
            if not job.state.is_over:
                job.state, job.ended = JobState.INTERRUPTED, time.time()
                job.error = JobError(*_ENDED)
        return {job.id: job for job in found}

    async def start(self, request: JobRequest, place: list[str]) -> Job:
        """Begin it, or let it wait. `place`: see `command_of`.

        Raises ClientError `already_running` (the same is under way), `too_many_jobs`, `ending`, and for a serve that
        cannot be measured now `drained`, `paused`, `not_up`, `unknown_serve`.
        """
        words = command_of(request, place)
        if request.kind in ("preflight", "benchmark"):
            await asyncio.to_thread(self._require_up, request.serve)
        if self._is_ending:
            raise ClientError("Stoker is ending: start it again first", code="ending", status=503)
        subject = shown(request.model or request.serve)
        mine = [one for one in self._jobs.values() if not one.state.is_over and _lane(one) == LANES[request.kind]]
        for one in mine:
            if request.kind != "look" and (one.request.kind, one.subject) == (request.kind, subject):
                text = f"{request.kind} of {one.subject} is under way already, as job {one.id}"
                raise ClientError(text, code="already_running", status=409)
        if len(mine) > MOST_WAITING:
            text = f"{len(mine)} jobs are waiting already: wait until some have ended, or cancel them"
            raise ClientError(text, code="too_many_jobs", status=409)
        job = Job(id=secrets.token_hex(4), request=request, at=time.time())
        self._jobs[job.id] = job
        self._words[job.id] = words
        self._stops[job.id] = asyncio.Event()
        self._forget()
        self._advance()
        return job

    def cancel(self, job_id: str) -> Job:
        """What was fetched is kept. One that is over is left as it is. Raises NoSuchJob."""
        job = self.get(job_id)
        if job.state is JobState.RUNNING:
            self._stops[job.id].set()
        elif job.state is JobState.QUEUED:
            self._close(job, JobState.CANCELLED)
        return job

    def end(self) -> None:
        """Stoker ends: all are interrupted. Returns at once."""
        self._is_ending = True
        for job in self._jobs.values():
            self.cancel(job.id)

    async def ended(self) -> None:
        """After `end`: all are over, by SIGKILL if they do not end by themselves."""
        if self._running:
            await asyncio.wait(self._running.values())
        await self._keep()

    def _require_up(self, name: str) -> None:
        """Raises ClientError with what to do. Blocks."""
        with self._control() as control:
            document, status = control.read_status()
        found = status.serve(name)
        if found is None:
            raise ClientError(f"there is no serve {name[:60]!r}", code="unknown_serve", status=404)
        state = next((one["state"] for one in document["serves"] if one["name"] == found.name), "")
        code, why = _UNFIT.get(state, ("", ""))
        if document.get("draining"):
            code, why = "drained", "takes no requests, because Stoker is draining: end that first"
        elif not code and not found.is_up:
            code, why = "not_up", "is not loaded: load it first"
        if code:
            raise ClientError(f"{name} {why}", code=code, status=409)

    def _advance(self) -> None:
        """Of each lane that is free the first one that waits."""
        for job in list(self._jobs.values()):
            lane = _lane(job)
            if job.state is JobState.QUEUED and lane not in self._running and not self._is_ending:
                job.state, job.began = JobState.RUNNING, time.time()
                task = asyncio.get_running_loop().create_task(self._run(job), name=f"job-{job.id}")
                self._running[lane] = task

    async def _run(self, job: Job) -> None:
        try:
            await self._keep()
            state = await self._carry_out(job, self._words[job.id], self._stops[job.id])
        except asyncio.CancelledError:
            state = JobState.INTERRUPTED
            raise
        except Exception as error:
            log.exception("job %s broke", job.id)
            state, job.error = JobState.FAILED, JobError(f"a bug in Stoker: {type(error).__name__}", "bug")
        finally:
            self._close(job, state)
            del self._running[_lane(job)]
        self._advance()
        await self._keep()

    def _close(self, job: Job, state: JobState) -> None:
        if self._is_ending and state is JobState.CANCELLED:
            state, job.error = JobState.INTERRUPTED, JobError(*_ENDED)
        job.state, job.ended = state, time.time()
        del self._words[job.id], self._stops[job.id]
        self._heard.pop(job.id, None)

    async def _carry_out(self, job: Job, words: list[str], stop: asyncio.Event) -> JobState:
        meter = Meter()

        def on_line(line: str) -> None:
            found = read_line(line)
            if isinstance(found, str):
                job.notes = [*job.notes, found[:LONGEST_WORD]][-NOTES:]
            else:
                self._heard[job.id] = time.monotonic()
                job.progress = meter.take(found, self._heard[job.id])

        value = ""
        try:
            value = await self._make_key(_key_of(job)) if job.request.kind != "look" else ""
            more = {"STOKER_KEY": value} if value else {}
            if stop.is_set():
                return JobState.CANCELLED
            end = await run_command(words, more, stop, on_line)
        except (OSError, StokerError) as error:
            job.error = JobError(str(error), getattr(error, "code", "not_started"))
            return JobState.FAILED
        finally:
            if value and not self._is_ending:  # a successor may have the keys by now: its `restore` deletes this one
                with contextlib.suppress(StokerError):
                    await self._delete_key(_key_of(job))
        job.result, job.error = read_result(end.output, job.request.kind)
        if stop.is_set():
            job.error = None
            return JobState.CANCELLED
        if job.error is not None or job.result is None:
            job.error = job.error or JobError(job.notes[-1] if job.notes else f"it ended with code {end.code}")
            return JobState.FAILED
        return JobState.DONE

    def _forget(self) -> None:
        """Looks push out looks alone: they change nothing, and are many."""
        for is_look in (True, False):
            over = [one for one in self._jobs.values() if one.state.is_over and (one.request.kind == "look") is is_look]
            for job in over[: max(0, len(over) - KEPT)]:
                del self._jobs[job.id]

    async def _keep(self) -> None:
        """What cannot be written is lost at the end of this Stoker."""
        await self.restore()
        kept = [_encoded(job) for job in self._jobs.values() if job.request.kind != "look"]
        content = msgspec.json.encode([one for one in kept if one is not None])
        async with self._writing:
            try:
                await asyncio.to_thread(atomic.write, self._file, content, is_synced=False, make_parents=True)
            except OSError as error:
                log.warning("the jobs of the web page cannot be kept in %s: %s", self._file, error.strerror)


def _lane(job: Job) -> str:
    return LANES[job.request.kind]


def _encoded(job: Job) -> msgspec.Raw | None:
    """For the file; None: what it holds cannot be written there, which is no reason to lose the others."""
    try:
        return msgspec.Raw(msgspec.json.encode(job.to_keep()))
    except (ValueError, OverflowError, RecursionError):
        log.exception("job %s is not kept", job.id)
        return None


def _key_of(job: Job) -> str:
    """The name of its key, which no other key has."""
    return f"page-{_lane(job)}-{job.id}"


def _is_new(job: Job) -> bool:
    return not job.state.is_over
