"""Shadow grades: a share of the answers that clients got is graded by another tier, after they got it.

drawn      by chance, before the first attempt: only then the answer is kept on its way     `draw`
offered    it was answered: into the queue, or dropped with a reason                        `offer`
graded     one at a time, where that takes no place from anybody                            the worker
counted    into STATE/live.json, by which routing goes

What was asked and answered is kept in memory until it is graded, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from stoker.disk import atomic
from stoker.domain.dialect import Endpoint
from stoker.domain.routing import Shadow as Settings
from stoker.domain.run import Fingerprint
from stoker.domain.task import UNKNOWN
from stoker.domain.tier import Tier
from stoker.exchange.recorder import Sample
from stoker.quality import judge_prompt
from stoker.quality.judge import Heard, Judge
from stoker.quality.judge_prompt import MAX_TEXT
from stoker.request.decide.policy import Plan
from stoker.routing.router import Routing
from stoker.store import live_grades as live
from stoker.store.routed import RoutedCounts

log = logging.getLogger("stoker.routing")
REMEMBERED = 1000
"""Graded requests whose grade `stoker explain` can tell."""
MAX_BODY = 8 * MAX_TEXT
"""Bytes of a request from which on it is not even read: its conversation would be too long."""
DROPS = (
    "not_permitted", "cost_cap", "too_long", "unread", "cut_short", "not_text", "tier_unknown", "queue_full",
    "own_answer",
)  # fmt: skip
"""Why what was drawn was not graded, beside those of the judge."""


class Job(NamedTuple):
    """One answer that waits for its grade."""

    request_id: str
    tier: str
    task: str
    mark: Fingerprint
    conversation: str
    answer: str

    @property
    def size(self) -> int:
        return len(self.conversation) + len(self.answer)


class Shadow:
    """Owns the worker, the queue and STATE/live.json. All methods belong to the event loop's thread."""

    def __init__(
        self, state: Path, judge: Judge, counts: RoutedCounts, wall: Callable[[], float],
        chance: Callable[[], float] | None = None,
    ) -> None:  # fmt: skip
        self._path = live.path_of(state)
        self._judge = judge
        self._counts = counts
        self._wall = wall
        self._chance = chance or random.Random().random
        self.rows, self.spent = live.recover(self._path)
        self._written = live.encode(self.rows, self.spent)
        self._routing: Routing | None = None
        self._queue: asyncio.Queue[Job] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._ended: asyncio.Task[None] | None = None
        """The worker before, which may have a last word to say."""
        self._saving: asyncio.Task[None] | None = None
        self._known: OrderedDict[str, str] = OrderedDict()
        self._has_complained = False

    # -- life --------------------------------------------------------------------------------------------------------

    def begin(self, routing: Routing | None) -> bool:
        """Another configuration, or another profile. Whether anything is graded by it."""
        self._routing = routing
        if routing is not None:
            for key in [key for key, row in self.rows.items() if key in routing.rows and routing.rows[key].at > row.at]:
                del self.rows[key]  # a suite measured it since
            routing.graded = self.rows
            self._save()
        is_on = routing is not None and routing.router.shadow.rate > 0
        if is_on and self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name="shadow")
        elif not is_on:
            self.stop()
        return is_on

    def stop(self) -> None:
        """Nothing more is graded: what waits is dropped, the judge's place is free again. May be called twice."""
        if self._worker is not None:
            self._worker.cancel()
            self._ended, self._worker = self._worker, None
        self._queue = asyncio.Queue()

    async def close(self) -> None:
        """Ends the worker; what is known is written."""
        self.stop()
        await asyncio.gather(*filter(None, (self._ended, self._saving)), return_exceptions=True)

    # -- what the requests tell ------------------------------------------------------------------------------------

    def draw(self, plan: Plan, endpoint: Endpoint, may_use_cloud: bool, size: int) -> Sample | None:
        """1. chance  2. an answer of the judge, or none  3. what may not go there  4. money  5. size"""
        routing = self._routing
        if routing is None or self._chance() >= routing.router.shadow.rate:
            return None  # 1
        judge = routing.tier(routing.router.shadow.judge)
        if judge is None or not endpoint.generates or not plan.steps or plan.steps[0].tier.name == judge.name:
            return None  # 2
        if plan.task.name == UNKNOWN:
            return None  # 2: a grade is of a class
        if judge.cloud and routing.cloud_bar(plan.task.name, may_use_cloud):
            self._drop("not_permitted")  # 3
        elif self._is_spent(routing, judge, 0):
            self._drop("cost_cap")  # 4
        elif size > MAX_BODY:
            self._drop("too_long")  # 5
        else:
            return Sample(MAX_TEXT)
        return None

    def offer(self, sample: Sample, tier: str, task_class: str, request_id: str) -> None:
        """Into the queue, where it can be graded."""
        routing = self._routing
        if routing is None or self._worker is None:
            return
        if tier == routing.router.shadow.judge:
            self._drop("own_answer")
            return
        job = self._job(routing, sample, tier, task_class, request_id)
        if isinstance(job, str):
            self._drop(job)
        elif self._queue.qsize() >= routing.router.shadow.queue:
            self._drop("queue_full")
        else:
            self._queue.put_nowait(job)

    def _job(self, routing: Routing, sample: Sample, tier: str, task_class: str, request_id: str) -> Job | str:
        """Or why it cannot be graded."""
        if sample.problem or sample.prompt is None:
            return sample.problem or "unread"
        known = routing.tier(tier)
        mark = None if known is None else routing.mark(known)
        if mark is None:
            return "tier_unknown"
        conversation = judge_prompt.conversation_text(sample.prompt)
        if conversation is None:
            return "not_text"
        if len(conversation) > MAX_TEXT:
            return "too_long"
        answer = "\n".join(judge_prompt.call_text(name, said) if name else said for name, said in sample.answer)
        return Job(request_id, tier, task_class, mark, conversation, answer)

    def _drop(self, reason: str) -> None:
        self._counts.ungraded[reason] += 1

    # -- grading -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            job = await self._queue.get()
            try:
                await self._grade(job)
            except Exception as error:  # its text might hold what nobody may read
                log.error("grading an answer of tier %s broke inside Stoker: %s", job.tier, type(error).__name__)
            del job

    async def _grade(self, job: Job) -> None:
        """What held when it was drawn may not hold any more: a reload may have come between."""
        routing = self._routing
        if routing is None:
            return
        shadow = routing.router.shadow
        judge, tier = routing.tier(shadow.judge), routing.tier(job.tier)
        if judge is None or tier is None or (routing.mark(tier) or job.mark) != job.mark:
            self._drop("tier_unknown")
        elif judge.cloud and routing.cloud_bar(job.task, True):
            self._drop("not_permitted")
        elif self._is_spent(routing, judge, job.size):
            self._drop("cost_cap")
        else:
            heard = await self._judge.ask(routing, judge, job.task, job.conversation, job.answer, shadow.timeout)
            self._hear(job, judge, heard)
            self._save()

    def _hear(self, job: Job, judge: Tier, heard: Heard) -> None:
        at = self._wall()
        if heard.cost:
            self._counts.judging += heard.cost
            self.spent = self.spent.plus(heard.cost, at)
        if heard.passed is not None:
            self._count(job, judge, heard.passed, at)
        else:
            self._drop(heard.dropped)
        if heard.detail and not self._has_complained:
            log.warning("tier %s does not grade: %s", judge.name, heard.detail)
        self._has_complained = bool(heard.detail)

    def _count(self, job: Job, judge: Tier, passed: bool, at: float) -> None:
        key = job.tier, job.task
        self.rows[key] = judge_prompt.merge_grade(self.rows.get(key), job.tier, job.task, job.mark, passed, at)
        word = "pass" if passed else "fail"
        self._counts.graded_one(job.task, job.tier, word)
        self._known[job.request_id] = f"{word} by judge {judge.name}"
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _is_spent(self, routing: Routing, judge: Tier, size: int) -> bool:
        """Whether a question about so much might cost more than the day has left."""
        cost = self._judge.estimate(judge, size)
        return cost > 0 and self.spent.on(self._wall()) + cost > routing.router.shadow.cost_cap

    # -- what is kept ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Written on a thread; what changes meanwhile is written after it, in one."""
        if (self._saving is None or self._saving.done()) and live.encode(self.rows, self.spent) != self._written:
            self._saving = asyncio.get_running_loop().create_task(self._write(), name="live-grades")

    async def _write(self) -> None:
        while (body := live.encode(self.rows, self.spent)) != self._written:
            try:
                await asyncio.to_thread(atomic.write, self._path, body)
            except OSError as error:
                log.warning("%s cannot be written: %s", self._path, error.strerror)
            self._written = body

    # -- looking ---------------------------------------------------------------------------------------------------

    def told(self, request_id: str) -> str:
        """The grade of a request, for people; empty: it has none, or it is too long ago."""
        return self._known.get(request_id, "")

    def status(self) -> dict[str, Any] | None:
        """For /status; None: nothing is graded. Counts are since the start."""
        if self._routing is None or self._routing.router.shadow.rate == 0:
            return None
        spent = self.spent.on(self._wall())
        return status(self._routing.router.shadow, self._counts, self._queue.qsize(), spent)


def status(settings: Settings, counts: RoutedCounts, queued: int, spent: float) -> dict[str, Any]:
    return {
        "rate": settings.rate,
        "judge": settings.judge,
        "graded": sum(counts.graded.values()),
        "passed": sum(count for (_, _, word), count in counts.graded.items() if word == "pass"),
        "queued": queued,
        "dropped": dict(counts.ungraded),
        "spent_today": spent,
        "cap": settings.cost_cap,
    }
