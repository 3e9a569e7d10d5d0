"""Which grades of live answers count? Pure.

1. no judge is configured, or another one graded             -> they do not
2. a tier that may answer the class is the judge, or is
   the same model: each `fail` would send requests to it     -> they do not
3. nobody measured how often this model is wrong as a judge
   of this class, or it is wrong too often                   -> they do not
4. otherwise                                                 -> they count

Those that do not count are kept: they count as soon as the judge has passed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from stoker.domain.routing import RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.domain.tier import GradedRow, Tier

MIN_GRADES = 20
"""So many grades of a tier at a class deny or allow something; with 20 of 20 passed, the rate is above 0.84 (Wilson,
95 %).
"""

_UNKNOWN = Fingerprint()


class Judging(NamedTuple):
    """What is known of the judge."""

    name: str = ""
    """The tier that judges; empty: nobody does."""
    serve: str = ""
    passed: Mapping[str, Fingerprint] = {}
    """By class: the model that was measured as a judge of it, and passed."""
    problems: Mapping[str, str] = {}
    """By class: why no grade counts, and what to do. Of each other class `passed` has a model."""

    def problem(self, grades: GradedRow) -> str:
        """Why they do not count; empty: they do."""
        if not self.serve or grades.judge != self.serve:
            return "they are of a judge that is not configured now"  # 1
        if found := self.problems.get(grades.task_class):
            return found  # 2, 3
        passed = self.passed.get(grades.task_class)
        graded_by = grades.judge_identity, grades.judge_execution
        if passed is not None and not grades.judge_identity:
            return "it was not known which model the judge was when it gave them"  # 3
        if passed is None or (passed.identity, passed.execution) != graded_by:
            command = measure_command(self.name, grades.task_class)
            return f"another model than the judge that was measured gave them: {command}"  # 3
        return ""


def measure_command(judge: str, task_class: str) -> str:
    return f"stoker eval validator {judge} --class {task_class}"


def rival_of(
    judge: Tier,
    task_class: str,
    settings: RouterSettings,
    serves: Mapping[str, Serve],
    known: Mapping[str, Fingerprint],
) -> Tier | None:
    """A tier that may answer the class, and is the judge or the same model. `known`: what each serve is, as far as it
    ran.
    """
    for tier in settings.tiers:
        if settings.permits(tier, task_class) and _is_same(judge, tier, serves, known):
            return tier
    return None


def _is_same(judge: Tier, tier: Tier, serves: Mapping[str, Serve], known: Mapping[str, Fingerprint]) -> bool:
    if judge.serve == tier.serve:
        return True
    one, two = serves.get(judge.serve), serves.get(tier.serve)
    if one is not None and two is not None and is_same_model(one, two):
        return True
    mine, other = known.get(judge.serve, _UNKNOWN), known.get(tier.serve, _UNKNOWN)
    if mine.identity and mine.identity == other.identity:
        return True
    weights = mine.parts.get("model")  # the identity also has the sampling, which makes no other model
    return bool(weights) and weights == other.parts.get("model")


def is_same_model(one: Serve, other: Serve) -> bool:
    """Whether two serves have the same model, by what the configuration says: the same weights, or the same name, at
    whatever vendor (`vendor/Some-Model-1.5` and `some-model-1-5`).
    """
    if one.model and other.model:
        return one.model == other.model
    names = _plain(one.served_name or one.model), _plain(other.served_name or other.model)
    return bool(names[0]) and names[0] == names[1]


def _plain(name: str) -> str:
    return name.rpartition("/")[2].lower().replace(".", "-").replace("_", "-").replace(":", "-")


def judged_classes(judge: Tier, settings: RouterSettings) -> Collection[str]:
    """The classes at which the judge may be asked about somebody: those that another tier may answer."""
    others = [tier for tier in settings.tiers if tier.name != judge.name]
    return [name for name in settings.known if any(settings.permits(tier, name) for tier in others)]
