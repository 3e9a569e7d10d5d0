"""Which grades of the judge count, by the configuration and by what `stoker eval validator --class` measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stoker.domain.routing import RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.domain.tier import Tier
from stoker_lab.judge_prompt import WORDING
from stoker_lab.judging import Judging, judged_classes, measure_command, rival_of
from stoker_lab.validator import judge_rates

JudgedByClass = Mapping[str, judge_rates.JudgedCases]
"""By class: what the judge said of right and wrong answers."""


def read_judged(settings: RouterSettings, state: Path) -> JudgedByClass:
    """Reads a file for each class at which the judge may be asked. Never raises."""
    judge = _judge_of(settings)
    if judge is None:
        return {}
    return {
        name: judge_rates.load(judge_rates.path_of(state, judge.serve, name))
        for name in judged_classes(judge, settings)
    }


def judging_of(
    settings: RouterSettings, serves: Mapping[str, Serve], judged_cases: JudgedByClass, known: Mapping[str, Fingerprint]
) -> Judging:
    """`judged_cases`: by `read_judged` of these settings. `known`: what each serve is, as far as it ran."""
    judge = _judge_of(settings)
    if judge is None:
        return Judging()
    passed: dict[str, Fingerprint] = {}
    problems: dict[str, str] = {}
    for name, judged in judged_cases.items():
        problem = _rivalry(judge, name, settings, serves, known)
        if not problem:
            problem = _not_identified(judge, judged, known) or _not_measured(judge, name, judged)
            if judged.header is not None:
                passed[name] = Fingerprint(judged.header.identity, judged.header.execution)
        if problem:
            problems[name] = problem
    return Judging(judge.name, judge.serve, passed, problems)


class UncountedClasses(NamedTuple):
    judge: str
    gains: list[str]
    """Classes at which a tier with its model may answer."""
    unmeasured: list[str]
    """Others, for which it has not passed as it is now."""
    unidentified: str = ""
    """Why it cannot pass: nobody knows which model it is; empty: it can."""


def uncounted_classes(settings: RouterSettings, serves: Mapping[str, Serve], state: Path) -> UncountedClasses:
    """The classes at which no grade of the judge counts, by the configuration and the measurements alone."""
    measured = read_judged(settings, state)
    problems = judging_of(settings, serves, measured, {}).problems
    judge = next(tier for tier in settings.tiers if tier.name == settings.shadow.judge)
    gains = [name for name in problems if rival_of(judge, name, settings, serves, {}) is not None]
    others = [name for name in problems if name not in gains]
    unidentified = (_not_identified(judge, measured[name], {}) for name in others)
    return UncountedClasses(judge.name, gains, others, next(filter(None, unidentified), ""))


def _judge_of(settings: RouterSettings) -> Tier | None:
    return next((tier for tier in settings.tiers if tier.name == settings.shadow.judge), None)


def _rivalry(
    judge: Tier,
    task_class: str,
    settings: RouterSettings,
    serves: Mapping[str, Serve],
    known: Mapping[str, Fingerprint],
) -> str:
    rival = rival_of(judge, task_class, settings, serves, known)
    if rival is None:
        return ""
    who = f"the judge '{judge.name}'"
    if rival.name != judge.name:
        who += f" is the model of tier '{rival.name}', which"
    return (
        f"{who} may itself answer {task_class}, so each `fail` would send it requests: judge by a tier with other "
        "`classes`; one with `classes = []` only judges"
    )


def _not_identified(judge: Tier, judged: judge_rates.JudgedCases, known: Mapping[str, Fingerprint]) -> str:
    """No measurement helps where nobody can tell that the model is the one that was measured. A cloud has a name."""
    now = known.get(judge.serve, Fingerprint())
    was_unknown = judged.header is not None and not judged.header.identity
    if now.identity or judge.cloud or not (now.parts or was_unknown):
        return ""
    return (
        f"which model the judge '{judge.name}' runs is not known (its {now.unknown_parts}), so nobody can tell that it "
        "is the one that was measured: judge by a tier whose files Stoker can read, or by a cloud"
    )


def _not_measured(judge: Tier, task_class: str, judged: judge_rates.JudgedCases) -> str:
    command = measure_command(judge.name, task_class)
    if judged.header is None:
        return f"nobody measured how often the judge '{judge.name}' is wrong about {task_class}: {command}"
    if judged.header.rules != WORDING:
        return f"the judge '{judge.name}' was measured with other rules than it is given now: {command}"
    problem = judge_rates.rates_of(judged).problem
    return f"the judge '{judge.name}' did not pass at {task_class}: {problem}: {command}" if problem else ""
