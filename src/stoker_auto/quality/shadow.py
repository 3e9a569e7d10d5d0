"""Shadow grades: a share of the answers is graded by another tier, after the clients got them.

drawn      by chance, before the first attempt: the answer is then recorded on its way      `draw`
offered    the client has its answer: into the queue, or dropped with a reason              `offer`
graded     one at a time, and only while the judge has a free place                         the worker
kept       in the tier quality and STATE/live.json; routing goes by those that count (`request.decide.judging`)

Prompt and answer are kept in memory until they are graded, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from stoker.domain.dialect import Endpoint
from stoker.domain.routing import ShadowSettings
from stoker.domain.run import Fingerprint
from stoker.domain.task import UNKNOWN
from stoker.domain.tier import Tier
from stoker.store.files import atomic
from stoker_auto.counts import RoutedCounts
from stoker_auto.decide.policy import RoutePlan
from stoker_auto.quality import live_grades_file as live
from stoker_auto.quality.judge import Judge, JudgeReply
from stoker_auto.routing.answer_recorder import AnswerRecorder
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab import judge_prompt
from stoker_lab.judge_prompt import MAX_TEXT
from stoker_lab.judge_trust import JudgedByClass, judging_of, read_judged

log = logging.getLogger("stoker.routing")
REMEMBERED = 1000
"""Number of graded requests whose grade `stoker explain` can show."""
MAX_BODY = 8 * MAX_TEXT
"""Bytes of the longest request that is recorded: a longer conversation could not be graded."""
DROPS = (
    "not_permitted", "cost_cap", "too_long", "unread", "cut_short", "not_text", "tier_unknown", "queue_full",
    "own_answer", "judge_unknown",
)  # fmt: skip
"""Why an answer that was drawn was not graded, beside the reasons of the judge."""


class GradingJob(NamedTuple):
    request_id: str
    tier: str
    task: str
    fingerprint: Fingerprint
    """The tier's fingerprint when it answered."""
    conversation: str
    answer: str

    @property
    def size(self) -> int:
        return len(self.conversation) + len(self.answer)


class ShadowGrader:
    """Owns the worker, the queue and STATE/live.json. All methods belong to the event loop's thread."""

    def __init__(
        self,
        tier_quality: TierQuality,
        state: Path,
        judge: Judge,
        counts: RoutedCounts,
        wall: Callable[[], float],
        chance: Callable[[], float] | None = None,
        note: Callable[[str, str, str], None] = lambda kind, serve, text: None,
    ) -> None:
        """`note(kind, serve, text)` tells people."""
        self._tier_quality = tier_quality
        self._state = state
        self._path = live.path_of(state)
        self._note = note
        self._judge = judge
        self._counts = counts
        self._wall = wall
        self._chance = chance or random.Random().random
        grades, self.spent = live.recover(self._path)
        self._written = live.encode(grades, self.spent)
        tier_quality.on_restored(grades=grades)
        self._router: TierRouter | None = None
        self._queue: asyncio.Queue[GradingJob] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._ended: asyncio.Task[None] | None = None
        """The worker before, which may still have something to write."""
        self._saving: asyncio.Task[None] | None = None
        self._grade_by_request: OrderedDict[str, str] = OrderedDict()
        self._has_complained = False
        self._measured: JudgedByClass = {}
        """The judge, when the configuration was read."""
        self._contradicted: set[tuple[str, str]] = set()
        """Tier and class of which people were told."""

    # -- life --------------------------------------------------------------------------------------------------------

    def use_router(self, router: TierRouter | None) -> bool:
        """Use the router of another configuration or profile. Whether it grades anything."""
        self._router = router
        if router is not None:
            self._measured = read_judged(router.settings, self._state)
            self.update_judging()
            self._save()  # a new profile may have replaced grades
        is_on = router is not None and router.settings.shadow.rate > 0
        if is_on and self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name="shadow")
        elif not is_on:
            self.stop()
        return is_on

    def update_judging(self) -> None:
        """Find out which grades count: the configuration is new, or a serve was identified."""
        router = self._router
        if router is not None:
            known = self._tier_quality.fingerprints
            self._tier_quality.on_judging(judging_of(router.settings, router.serves, self._measured, known))
            self._report_contradictions(router)

    def _report_contradictions(self, router: TierRouter) -> None:
        found = {(tier, task): why for tier, task, why in router.contradictions()}
        for (name, task), why in found.items():
            tier = router.tier(name)
            if (name, task) not in self._contradicted and tier is not None:
                text = f"tier {name} at {task}: {why}: `stoker eval calibrate {name}` measures it again"
                log.warning("%s", text)
                self._note("judge", tier.serve, text)
        self._contradicted = set(found)

    def stop(self) -> None:
        """Stop grading: answers that wait are dropped, the judge's place is freed. May be called twice."""
        if self._worker is not None:
            self._worker.cancel()
            self._ended, self._worker = self._worker, None
        self._queue = asyncio.Queue()

    async def close(self) -> None:
        """End the worker; all grades are on disk when this returns."""
        self.stop()
        await asyncio.gather(*filter(None, (self._ended, self._saving)), return_exceptions=True)

    # -- events of requests -----------------------------------------------------------------------------------------

    def draw(self, plan: RoutePlan, endpoint: Endpoint, may_use_cloud: bool, size: int) -> AnswerRecorder | None:
        """None: 1. chance  2. the judge answers, no tier does, or no class  3. no permission  4. cost  5. size"""
        router = self._router
        if router is None or self._chance() >= router.settings.shadow.rate:
            return None  # 1
        judge = router.tier(router.settings.shadow.judge)
        if judge is None or not endpoint.generates or not plan.steps or plan.steps[0].tier.name == judge.name:
            return None  # 2
        if plan.task.name == UNKNOWN:
            return None  # 2: grades are counted by class
        if judge.cloud and router.cloud_exclusion(plan.task.name, may_use_cloud):
            self._drop("not_permitted")  # 3
        elif self._is_spent(router, judge, 0):
            self._drop("cost_cap")  # 4
        elif size > MAX_BODY:
            self._drop("too_long")  # 5
        else:
            return AnswerRecorder(MAX_TEXT)
        return None

    def offer(self, recorder: AnswerRecorder, tier: str, task_class: str, request_id: str) -> None:
        """Queue the answer for grading, or drop it with a reason."""
        router = self._router
        if router is None or self._worker is None:
            return
        if tier == router.settings.shadow.judge:
            self._drop("own_answer")
            return
        job = self._job(router, recorder, tier, task_class, request_id)
        if isinstance(job, str):
            self._drop(job)
        elif self._queue.qsize() >= router.settings.shadow.queue:
            self._drop("queue_full")
        else:
            self._queue.put_nowait(job)

    def _job(
        self, router: TierRouter, recorder: AnswerRecorder, tier: str, task_class: str, request_id: str
    ) -> GradingJob | str:
        if recorder.problem or recorder.prompt is None:
            return recorder.problem or "unread"
        known = router.tier(tier)
        fingerprint = None if known is None else router.current_fingerprint(known.serve, known.cloud)
        if fingerprint is None:
            return "tier_unknown"
        conversation = judge_prompt.conversation_text(recorder.prompt)
        if conversation is None:
            return "not_text"
        if len(conversation) > MAX_TEXT:
            return "too_long"
        answer = "\n".join(judge_prompt.call_text(name, text) if name else text for name, text in recorder.answer)
        return GradingJob(request_id, tier, task_class, fingerprint, conversation, answer)

    def _drop(self, reason: str) -> None:
        self._counts.ungraded[reason] += 1

    # -- grading -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            job = await self._queue.get()
            try:
                await self._grade(job)
            except Exception as error:  # its text might hold parts of the prompt
                log.error("grading an answer of tier %s failed inside Stoker: %s", job.tier, type(error).__name__)
            del job

    async def _grade(self, job: GradingJob) -> None:
        """Ask the judge. A reload since the draw may have changed what is permitted, so everything is checked again."""
        router = self._router
        if router is None:
            return
        shadow = router.settings.shadow
        judge, tier = router.tier(shadow.judge), router.tier(job.tier)
        now = None if tier is None else router.current_fingerprint(tier.serve, tier.cloud)
        if judge is None or tier is None or (now or job.fingerprint) != job.fingerprint:
            self._drop("tier_unknown")
        elif judge.cloud and router.cloud_exclusion(job.task, True):
            self._drop("not_permitted")
        elif self._is_spent(router, judge, job.size):
            self._drop("cost_cap")
        elif (model := _model_of(router, judge)) is None and router.is_loaded(judge):
            self._drop("judge_unknown")
        else:
            reply = await self._judge.ask(router, judge, job.task, job.conversation, job.answer, shadow.timeout)
            self._on_reply(job, judge, model, reply)
            self._save()

    def _on_reply(self, job: GradingJob, judge: Tier, model: Fingerprint | None, reply: JudgeReply) -> None:
        at = self._wall()
        if reply.cost:
            self._counts.observe_judging(reply.cost)
            self.spent = self.spent.add(reply.cost, at)
        if reply.passed is None:
            self._drop(reply.dropped)
        elif model is None:
            self._drop("judge_unknown")
        else:
            self._count(job, judge, model, reply.passed, at)
        if reply.detail and not self._has_complained:
            log.warning("tier %s cannot grade: %s", judge.name, reply.detail)
        self._has_complained = bool(reply.detail)

    def _count(self, job: GradingJob, judge: Tier, model: Fingerprint, passed: bool, at: float) -> None:
        key = job.tier, job.task
        before, router = self._tier_quality.grades.get(key), self._router
        merged = judge_prompt.merge_grade(before, job.tier, job.task, job.fingerprint, passed, at, judge.serve, model)
        self._tier_quality.on_graded(merged)
        if router is not None:
            self._report_contradictions(router)
        word = "pass" if passed else "fail"
        self._counts.observe_grade(job.task, job.tier, word)
        problem = self._tier_quality.grade_problem(key)
        self._grade_by_request[job.request_id] = f"{word} by judge {judge.name}" + (
            f"; it does not count: {problem}" if problem else ""
        )
        if len(self._grade_by_request) > REMEMBERED:
            self._grade_by_request.popitem(last=False)

    def _is_spent(self, router: TierRouter, judge: Tier, size: int) -> bool:
        """Whether a question about so many characters might exceed the cost cap of the day."""
        cost = self._judge.estimate(judge, size)
        return cost > 0 and self.spent.amount_on(self._wall()) + cost > router.settings.shadow.cost_cap

    # -- the file --------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Write on a thread, if anything changed. Changes during a write are written together after it."""
        if (self._saving is None or self._saving.done()) and self._encoded() != self._written:
            self._saving = asyncio.get_running_loop().create_task(self._write(), name="live-grades")

    async def _write(self) -> None:
        while (body := self._encoded()) != self._written:
            try:
                await asyncio.to_thread(atomic.write, self._path, body)
            except OSError as error:
                log.warning("%s cannot be written: %s", self._path, error.strerror)
            self._written = body

    def _encoded(self) -> bytes:
        return live.encode(dict(self._tier_quality.grades), self.spent)

    # -- questions -------------------------------------------------------------------------------------------------

    def grade_of(self, request_id: str) -> str:
        """The grade of a request, for people; empty: it has none, or it is too long ago."""
        return self._grade_by_request.get(request_id, "")

    def status(self) -> dict[str, Any] | None:
        """For /status; None: nothing is graded. Counts are since the start."""
        if self._router is None or self._router.settings.shadow.rate == 0:
            return None
        spent = self.spent.amount_on(self._wall())
        found = status(self._router.settings.shadow, self._counts, self._queue.qsize(), spent)
        problems = ((key, self._tier_quality.grade_problem(key)) for key in sorted(self._tier_quality.grades))
        uncounted = [{"tier": tier, "class": task, "why": why} for (tier, task), why in problems if why]
        return {**found, "uncounted": uncounted}


def _model_of(router: TierRouter, judge: Tier) -> Fingerprint | None:
    """What the judge is now, empty where that cannot be known; None: it was not looked at yet."""
    found = router.current_fingerprint(judge.serve, judge.cloud)
    return Fingerprint() if found is None and router.tier_quality.is_verified(judge.serve) else found


def status(settings: ShadowSettings, counts: RoutedCounts, queued: int, spent: float) -> dict[str, Any]:
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
