"""One job of a cluster: polled each second, and ended on request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from stoker.domain.errors import StokerError
from stoker.domain.lease import Target
from stoker.fleet.drivers.unit import NotGone, finish
from stoker.fleet.process.identity import JobRecord, StartRecord
from stoker.http import client
from stoker.http.client import NoResponse
from stoker_ray import job_output
from stoker_ray.job_watch import JobEnd, JobObservation, JobWatch, Reach, is_gone
from stoker_ray.jobs_api import ClusterRefused, ClusterUnreachable, Job, JobsApi, JobStatus
from stoker_ray.nodes import NONCE

POLL_INTERVAL = 1.0
"""Seconds between two polls of a job that runs."""
FAST_POLL_INTERVAL = 0.2
FAST_POLL_FOR = 20.0
"""Seconds for which FAST_POLL_INTERVAL holds after a submit, and after a stop."""
CONNECT_LIMIT = 1.0
AGAIN = 10.0
"""Seconds until the head is asked again to stop a job, in case it forgot."""
NODES_EVERY = 5.0
UNREACHABLE_LIMIT = 5.0
PENDING_STOP = 2.0
LATE = 15.0
"""Seconds beyond the grace after which `end` does not wait any longer; see `NotGone`."""


class JobUnit:
    """Implements `drivers.unit.Unit` for one job. A head that does not answer is not an end.

    Its end has three steps: `on_exit` when it has ended or does not answer any more, the job's output in the log, and
    `on_gone` when Ray says that nothing of it is left. Between the first and the last its place stays used.
    """

    def __init__(
        self,
        api: JobsApi,
        record: StartRecord,
        job: JobRecord,
        on_exit: Callable[[int | None], None],
        on_gone: Callable[[], None],
        log: logging.Logger,
        doubt: str,
        title: str = "",
    ) -> None:
        """`title`: a line before its output in the log. A record without a port: it does not listen."""
        self.pid: int | None = None
        self.code: int | None = None
        self.ended_how = ""
        self.slot = (job.cluster, job.slot)
        self.is_ending = False
        self._api = api
        self._record = record
        self._job = job
        self._on_exit = on_exit
        self._on_gone = on_gone
        self._log = log
        self._title = title
        self._loop = asyncio.get_running_loop()
        self._began = self._told_at = self._loop.time()
        self._watch = JobWatch(record.handle, job.host, self._began, doubt, was_running=record.ready)
        self._was_seen = record.ready
        self._has_told = False
        self._is_head_silent = False
        self._last: Job | None = None
        self._trouble = ""
        self._ends: asyncio.Task[None] | None = None
        self._follows: asyncio.Task[None] | None = self._loop.create_task(self._follow(), name=f"job-{record.handle}")

    @property
    def why_not_gone(self) -> str:
        """What is known about a job that was told to end."""
        told = f"it was told to end {self._loop.time() - self._told_at:.0f} s ago" if self.is_ending else "it runs"
        state = self._trouble or (f"Ray says {self._last.status.value}" if self._last is not None else "no answer yet")
        return f"{told}, and {state}"

    def on_ready(self) -> None:
        """It listens: if it does not any more, it has ended."""
        self._watch.on_ready()

    # -- observing ---------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            observation = await self._observe()
            if (end := self._watch.on_observed(observation, self._loop.time())) is not None:
                break
            is_new = self._loop.time() - self._began < FAST_POLL_FOR and not self._record.ready
            is_well = observation.reach in (Reach.ACCEPTS, Reach.NONE)
            await asyncio.sleep(FAST_POLL_INTERVAL if is_new or not is_well else POLL_INTERVAL)
        await self._keep_output()
        self._follows = None
        self._tell(end)

    async def _observe(self) -> JobObservation:
        reach, (is_known, job) = await asyncio.gather(self._reach(), self._ask())
        if job is not None and job.metadata.get(NONCE) != self._record.nonce:
            job = None  # an id is used once; whatever has it now is not ours
        self._was_seen = self._was_seen or job is not None
        self._last = job if is_known else self._last
        return JobObservation(is_known, job, reach)

    async def _ask(self) -> tuple[bool, Job | None]:
        try:
            job = await self._api.job(self._record.handle)
        except (ClusterUnreachable, ClusterRefused) as failure:
            if not self._is_head_silent:
                self._log.warning(
                    "serve %s: %s; its engine is used as long as it answers", self._record.name, failure.message
                )
            self._is_head_silent, self._trouble = True, failure.message
            return False, None
        if self._is_head_silent:
            self._log.info("serve %s: the head at %s answers again", self._record.name, self._api.address)
        self._is_head_silent, self._trouble = False, ""
        return True, job

    async def _reach(self) -> Reach:
        if not self._record.port:
            return Reach.NONE
        target = Target(self._job.host, self._record.port)
        try:
            await client.connect(target, CONNECT_LIMIT)
        except NoResponse as failure:
            return Reach.REFUSES if failure.is_refusal else Reach.SILENT
        return Reach.ACCEPTS

    async def _keep_output(self) -> None:
        """The end of its output goes into the log here, before the job is forgotten there."""
        if self._last is None or self._is_head_silent:
            return
        text = ""
        with contextlib.suppress(StokerError):
            text = await self._api.output(self._last)
        text = text or (self._last.message if self._last.status.is_over else "")
        text = job_output.without_rays_lines(text, self._last)
        job_output.add(self._record.log, f"--- stoker: {self._title}\n{text}" if text and self._title else text)

    def _tell(self, end: JobEnd) -> None:
        if not self._has_told:
            self._has_told = True
            self.code, self.ended_how = end.code, end.how
            self._on_exit(end.code)

    # -- ending ------------------------------------------------------------------------------------------------------

    async def end(self, grace: float) -> None:
        """Asks Ray to stop the job, and waits until it is gone. Its grace is the one it was submitted with.

        A second call joins the first. Raises NotGone if that may take long: it waits for its GPUs, the head does not
        answer, or the grace is long over. The end goes on then.
        """
        task = self.begin_end(grace)
        if task is not None:
            await finish(self._loop.create_task(self._wait(task, grace), name=f"wait-{self._record.handle}"))

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, but returns at once; this object owns the task. None: it is gone already."""
        if self._ends is None:
            self.is_ending, self._told_at = True, self._loop.time()
            self._ends = self._loop.create_task(self._end(), name=f"end-{self._record.handle}")
        return None if self._ends.done() else self._ends

    def release(self) -> None:
        """Stop observing it; it runs on, or goes on ending."""
        for task in (self._follows, self._ends):
            if task is not None:
                task.cancel()

    async def _end(self) -> None:
        asked_at, nodes_at = float("-inf"), self._loop.time()
        if self._follows is not None:
            self._follows.cancel()
        while True:
            observation = await self._observe()
            now = self._loop.time()
            is_dead = False
            if observation.reach is not Reach.ACCEPTS and now - nodes_at >= NODES_EVERY:
                nodes_at, is_dead = now, await self._is_node_dead()
            if is_gone(observation, is_dead, now - self._began, self._was_seen):
                break
            if observation.job is not None and now - asked_at >= AGAIN:
                with contextlib.suppress(StokerError):
                    await self._api.stop(self._record.handle)
                    asked_at = now
            await asyncio.sleep(FAST_POLL_INTERVAL if now - self._told_at < FAST_POLL_FOR else POLL_INTERVAL)
        if not self._has_told:
            await self._keep_output()
        with contextlib.suppress(StokerError):
            await self._api.delete(self._record.handle)
        code = observation.job.exit_code if observation.job is not None else None
        self._tell(JobEnd(code))
        self._on_gone()

    async def _is_node_dead(self) -> bool:
        """Whether Ray says so, or does not know the node any more."""
        with contextlib.suppress(StokerError):
            return not any(node.is_alive for node in await self._api.nodes() if node.id == self._job.node)
        return False

    async def _wait(self, task: asyncio.Task[None], grace: float) -> None:
        latest = self._told_at + min(grace, self._record.grace) + LATE
        while not task.done():
            await asyncio.wait([task], timeout=FAST_POLL_INTERVAL)
            now = self._loop.time()
            is_pending = self._last is not None and self._last.status is JobStatus.PENDING
            is_stuck = is_pending and now - self._told_at >= PENDING_STOP
            is_silent = self._is_head_silent and now - self._told_at >= UNREACHABLE_LIMIT
            if not task.done() and (is_stuck or is_silent or now >= latest):
                raise NotGone(
                    f"slot '{self._job.slot}' stays used: job {self._record.handle} of serve '{self._record.name}' is "
                    f"not known to be gone: {self.why_not_gone}; `stoker cluster status` shows it"
                )
        task.result()
