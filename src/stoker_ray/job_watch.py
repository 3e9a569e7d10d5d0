"""What an observation of a job means: does it go on, has it ended, is it gone? Pure.

A head that does not answer proves nothing: the engine is used as long as it answers itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stoker_ray.jobs_api import Job, JobStatus

PENDING_LIMIT = 15.0
"""Seconds. A node starts the first worker for a job in about three; after that, it waits for a GPU."""
APPEARS_WITHIN = 10.0
"""Seconds after a submit without an answer, in which the job may still appear."""
MAX_REFUSALS = 2
"""Refused connections in a row, until the engine counts as ended."""
SILENT_LIMIT = 10.0
"""Seconds without any answer from an engine's address, until its node counts as lost."""


class Reach(Enum):
    """What the engine's port did when it was last observed."""

    ACCEPTS = "accepts"
    REFUSES = "refuses"
    SILENT = "silent"
    """Neither, within a second: the node, or the way to it, is gone."""
    NONE = "none"
    """It has no port: only rank 0 of an engine on several machines listens."""


@dataclass(frozen=True, slots=True)
class JobObservation:
    """One observation of a job. `is_known`: the head answered; `job` None: it knows no such job."""

    is_known: bool
    job: Job | None
    reach: Reach


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How it ended. `how`: the rest of a sentence; empty: `code` says it."""

    code: int | None
    how: str = ""


class JobWatch:
    """One job from its submit until it has ended. `doubt`: why the submit may have failed; empty: it was accepted."""

    def __init__(self, id: str, node: str, submitted_at: float, doubt: str = "", was_running: bool = False) -> None:
        """`was_running`: an earlier run of Stoker saw it run. Times are those of one monotonic clock."""
        self._id = id
        self._node = node
        self._doubt = doubt
        self._submitted_at = submitted_at
        self._was_seen = was_running
        self._has_listened = was_running
        self._pending_since: float | None = None
        self._refused = 0
        self._silent_since: float | None = None

    def on_ready(self) -> None:
        """It was proved ready, which no observation may have shown yet."""
        self._has_listened = True

    def on_observed(self, observation: JobObservation, now: float) -> JobEnd | None:
        """The end that follows from an observation; None: it goes on.

        1. Ray says that it is over            -> ended
        2. it waits for its GPUs for too long  -> ended: another program took them
        3. Ray does not know it                -> ended, unless its submit is recent, or its engine still answers
        4. the head never answered about it    -> ended: whether it started is unknown
        5. its engine refuses connections, or its node is silent, after it had answered -> ended, before Ray knows
        """
        reached = self._on_reach(observation.reach, now)
        if observation.job is not None:
            self._was_seen = True
            if observation.job.status.is_over:
                return end_of(observation.job)  # 1
            self._count_pending(observation.job, now)
            if self._pending_since is not None and now - self._pending_since >= PENDING_LIMIT:
                waited = f"waited {now - self._pending_since:.0f} s for its GPUs on node {self._node}"
                return JobEnd(None, f"{waited}: another program of the cluster got them first")  # 2
            return reached
        since = now - self._submitted_at
        if (
            observation.is_known
            and observation.reach is not Reach.ACCEPTS
            and (self._was_seen or since >= APPEARS_WITHIN)
        ):
            if self._was_seen:
                return JobEnd(None, f"is not known to Ray any more (job {self._id}): its head was started anew")  # 3
            return JobEnd(None, f"was not accepted by Ray: {self._doubt or 'it does not know the job'}")  # 3
        if not observation.is_known and not self._was_seen and since >= PENDING_LIMIT:
            return JobEnd(None, f"may not have been started: {self._doubt or 'the head of its cluster is silent'}")  # 4
        return reached  # 5

    def _count_pending(self, job: Job, now: float) -> None:
        if job.status is not JobStatus.PENDING:
            self._pending_since = None
        elif self._pending_since is None:
            self._pending_since = now

    def _on_reach(self, reach: Reach, now: float) -> JobEnd | None:
        self._refused = self._refused + 1 if reach is Reach.REFUSES else 0
        if reach is not Reach.SILENT:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        if reach is Reach.ACCEPTS:
            self._has_listened = True
        if not self._has_listened or reach is Reach.NONE:
            return None
        if self._refused >= MAX_REFUSALS:
            return JobEnd(None, f"does not listen on node {self._node} any more")
        if self._silent_since is not None and now - self._silent_since >= SILENT_LIMIT:
            return JobEnd(None, f"cannot be reached: node {self._node} is silent for {now - self._silent_since:.0f} s")
        return None


def end_of(job: Job) -> JobEnd:
    """How a job that is over has ended: by its exit code, by a stop, or as Ray says."""
    if job.exit_code is not None:
        return JobEnd(job.exit_code)
    if job.status is JobStatus.SUCCEEDED:
        return JobEnd(0)
    if job.status is JobStatus.STOPPED:
        return JobEnd(None, "was stopped in Ray")
    return JobEnd(None, f"was ended by Ray: {_first_words(job.message)}")


def _first_words(message: str) -> str:
    line = next((line.strip() for line in message.splitlines() if line.strip()), "it gives no reason")
    return "".join(char if char.isprintable() else " " for char in line)[:300]


def is_gone(observation: JobObservation, is_node_dead: bool, since_submit: float, was_seen: bool) -> bool:
    """Whether nothing of a job that was told to end is left.

    1. Ray says that its node is dead
    2. Ray says that it is over; without an exit code, its engine must not answer any more either: Ray's own process
       beside it may have died first. Silence proves that only if Ray has stopped it
    3. Ray does not know it, its engine does not answer, and it cannot appear any more
    """
    if observation.job is not None:
        doubts = (Reach.ACCEPTS,) if observation.job.status is JobStatus.STOPPED else (Reach.ACCEPTS, Reach.SILENT)
        has_ended = observation.job.exit_code is not None or observation.reach not in doubts
        return is_node_dead or (observation.job.status.is_over and has_ended)
    may_appear = not was_seen and since_submit < APPEARS_WITHIN
    return observation.is_known and observation.reach is not Reach.ACCEPTS and not may_appear
