"""The optional parts that a dispatcher works with: a grader of answers, a second classifier, and an observer of plans
for prewarming.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stoker.domain.dialect import Endpoint
from stoker.domain.task import Outline, Task
from stoker_auto.decide.policy import RoutePlan
from stoker_auto.routing.answer_recorder import AnswerRecorder


class Grader(Protocol):
    """Draws requests whose answers are graded. Neither method waits or raises."""

    def draw(self, plan: RoutePlan, endpoint: Endpoint, may_use_cloud: bool, size: int) -> AnswerRecorder | None:
        """What records the answer; None: this request is not graded. `size`: bytes of its body."""

    def offer(self, recorder: AnswerRecorder, tier: str, task_class: str, request_id: str) -> None:
        """The request was answered by this tier."""


class SecondOpinion(Protocol):
    """Another classifier, asked if the built-in one is not sure."""

    def wants(self, task: Task) -> bool:
        """Whether it should be asked about this task."""

    async def settle(self, task: Task, outline: Outline, may_use_cloud: bool) -> Task:
        """The task as both decide it, within its time limit. Raises nothing but CancelledError."""


class PlanObserver(Protocol):
    """Predicts from plans which models will be wanted."""

    def on_plan(self, plan: RoutePlan) -> None:
        """A request was planned. Neither waits nor raises."""


@dataclass(frozen=True, slots=True)
class Collaborators:
    """What a dispatcher works with, as configured. None: this configuration has no such part."""

    grader: Grader | None = None
    second_opinion: SecondOpinion | None = None
    observer: PlanObserver | None = None
    chance: Callable[[], float] = random.Random().random
