"""What a gate has to run so that each of its conditions can be decided; and which conditions nothing can decide. Pure.

1. a figure of a benchmark, under so many clients (`c4.ttft_p95`) or at a rate (`r2.ttft_p95`): that step, with enough
   requests for the figure
2. a figure that takes a benchmark of another form (goodput wants objectives, a knee wants a ladder): run by hand
3. a rate of a class of tasks (`code-write.lower`): the whole suite of that class
4. a figure that no benchmark has, or a bound that the suite is too small for: refused, with the number
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from stoker.domain.gate import Condition, Gate
from stoker.domain.routing import ANY, RouterSettings
from stoker.domain.run import RunKind
from stoker.domain.task import CLASSES
from stoker_lab.load.generator import StepLength
from stoker_lab.load.ladder import TOP
from stoker_lab.load.presets import BenchmarkOptions, BenchmarkPlan, clients_step, rate_step
from stoker_lab.load.prompts import PromptSharing
from stoker_lab.statistics.stats import MIN_SAMPLES, wilson

STEP = re.compile(r"(?P<kind>[cr])(?P<number>\d+(?:\.\d+)?)\.(?=[a-z])")
TIMES = ("ttft_", "ttfo_", "tpot_", "ntpot_", "e2e_", "itl_", "icl_", "stall_", "cold_")
"""Milliseconds in the run, seconds in a condition."""
_QUANTILE = re.compile(r"(?:ttft|ttfo|tpot|ntpot|e2e|itl|icl)_(?P<share>[a-z0-9]+)")
_SHARES = {"p50": 10, "p95": MIN_SAMPLES[0.95], "p99": MIN_SAMPLES[0.99], "max": MIN_SAMPLES[0.95]}
"""Requests for each, so that the highest of them lies above the true quantile with 95 % confidence
(`stats.MIN_SAMPLES`); a median and a rate want ten."""
_GAPS = ("itl_", "icl_")
"""Of each gap between chunks, of which a request has many."""
_OTHERS = frozenset((
    "output_rate", "output_rate_steady", "request_rate", "decode_rate", "requests_ok", "requests_failed",
    "cached_share", "tokens_per_chunk", "stall_max", "cold_ttft",
))  # fmt: skip
_SEPARATE = {
    "goodput": "--slo-ttft TIME", "goodput_share": "--slo-ttft TIME", "knee_clients": "", "knee_output_rate": "",
    "peak_output_rate": "", "drift": "",
}  # fmt: skip
"""Figures of a benchmark that the gate does not run by itself, with the options that it takes."""
PROPOSED = 0.8
"""The bound of a class that is proposed: 55 of 60."""
_USUAL = 10
_SECONDS = 3.0
_MAX_SAMPLES = 100_000


class NeededStep(NamedTuple):
    """A condition on a figure of a benchmark."""

    figure: str
    """The figure's name without its step."""
    clients: int | None
    """The number of clients; None: the step has a request rate instead."""
    rate: float | None
    requests: int

    @property
    def step(self) -> str:
        return f"r{self.rate:g}" if self.rate is not None else f"c{self.clients}"


def figure_of(condition: Condition) -> str:
    """The metric without the step of a benchmark."""
    return STEP.sub("", condition.metric, count=1)


def kind_of(condition: Condition, classes: Collection[str] = CLASSES) -> RunKind:
    """The measurement that answers this condition. `classes`: the names of all classes of tasks."""
    if condition.measurement is not None:
        return condition.measurement
    figure = figure_of(condition)
    if figure != condition.metric or _is_figure(figure) or _QUANTILE.fullmatch(figure):
        return RunKind.BENCHMARK
    if figure == "context":
        return RunKind.CONTEXT
    return RunKind.BOOTSTRAP if class_of(condition, classes) else RunKind.PREFLIGHT


def class_of(condition: Condition, classes: Collection[str] = CLASSES) -> str:
    """The class of tasks that a condition is about; empty: none."""
    name, dot, _ = condition.metric.partition(".")
    return name if dot and name in classes else ""


def needed_step(condition: Condition) -> NeededStep | None:
    """What step of a benchmark decides it, and how many requests that takes; None: no benchmark of the gate's own."""
    figure = figure_of(condition)
    if condition.measurement is not None or figure in _SEPARATE or not _is_figure(figure):
        return None
    found = STEP.match(condition.metric)
    rate = float(found["number"]) if found is not None and found["kind"] == "r" else None
    clients = None if rate is not None else int(float(found["number"])) if found is not None else 1
    quantile = _QUANTILE.fullmatch(figure)
    least = _USUAL
    if quantile is not None and not figure.startswith(_GAPS):
        least = _SHARES[quantile["share"]]
    return NeededStep(figure, clients, rate, max(least, 2 * (1 if clients is None else clients)))


def plan_steps(conditions: Iterable[Condition], wanted: BenchmarkOptions, size: tuple[int, int]) -> BenchmarkPlan:
    """The steps that decide them all, each with enough requests; `c1`, which plain names mean, comes first."""
    least: dict[tuple[float | None, int | None], int] = {(None, 1): _USUAL}
    for condition in conditions:
        if (need := needed_step(condition)) is not None:
            key = need.rate, need.clients
            least[key] = max(least.get(key, 0), need.requests)
    steps = []
    for rate, clients in sorted(least, key=lambda key: (key[0] is not None, key[0] or 0.0, key[1] or 0)):
        made = (
            clients_step(wanted, clients or 1, *size, PromptSharing.WARM)
            if rate is None
            else rate_step(wanted, rate, *size, PromptSharing.WARM)
        )
        steps.append(made._replace(length=StepLength(_SECONDS, least[rate, clients])))
    return BenchmarkPlan(steps, climbs=False, repeats=1, top=1, rates_by_knee=False)


def separate_options(condition: Condition) -> str | None:
    """Options of the benchmark that measures this figure and that a gate does not run; None: no such benchmark."""
    return _SEPARATE.get(figure_of(condition))


def samples_for(condition: Condition) -> int | None:
    """The smallest number of samples with which the interval of a rate can lie on the right side of the bound at all,
    if every one of them comes out well. None: no number is enough, or it is not about a rate."""
    if not condition.rate:
        return None
    is_lower = condition.metric.endswith(".lower")
    if condition.op not in ((">", ">=", "==") if is_lower else ("<", "<=", "==")):
        return 1

    def can_hold(n: int) -> bool:
        return condition.holds(wilson(n, n).low if is_lower else wilson(0, n).high)

    if not can_hold(_MAX_SAMPLES):
        return None
    low, high = 0, _MAX_SAMPLES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if can_hold(middle) else (middle, high)
    return high


def why_undecidable(condition: Condition, fixtures: Mapping[str, int], classes: Collection[str] = CLASSES) -> str:
    """Why nothing that a gate runs can decide it, with the number that it takes; empty: something can.

    `fixtures`: how many each class has.
    """
    figure, text = figure_of(condition), condition.text
    if kind_of(condition, classes) is RunKind.BENCHMARK:
        if _is_figure(figure):
            need = needed_step(condition)
            is_clients = need is None or need.clients is None or 1 <= need.clients <= TOP
            is_load = is_clients and (need is None or need.rate is None or need.rate > 0)
            return "" if is_load else f"`{text}`: a step has 1 to {TOP} clients (`c4.`), or a rate above 0 (`r2.`)"
        known = (
            "p50, p95 (60 requests), p99 (300) and max" if _QUANTILE.fullmatch(figure) else ", ".join(sorted(_OTHERS))
        )
        return f"`{text}`: a benchmark has no figure `{figure[:64]}`; known figures: {known}"
    if not condition.rate:
        return ""
    least = samples_for(condition)
    if least is None:
        return f"`{text}`: no number of samples is enough for this bound; ask for less"
    name = class_of(condition, classes)
    if name in fixtures and fixtures[name] < least:
        have = fixtures[name]
        return (
            f"`{text}` needs {least} samples even if all of them pass, and the suite of {name} has {have}: ask for at "
            f"most {wilson(have, have).low:.2f}, or give more fixtures with `stoker gate SERVE --suites DIR`"
        )
    return ""


def classes_of(router: RouterSettings | None, serves: Collection[str]) -> dict[str, str]:
    """Classes of tasks that the configuration sends to one of these serves by name, and how.

    1. a tier of it that lists the class  2. the class that prefers that tier  3. an alias of `auto:CLASS`
    """
    found: dict[str, str] = {}
    for tier in router.tiers if router is not None else ():
        if router is None or tier.serve not in serves:
            continue
        for name in tier.classes:
            if name != ANY:
                found.setdefault(name, f"tier '{tier.name}' serves {name}")  # 1
        for one in router.classes:
            if one.tier == tier.name and router.permits(tier, one.name):
                found.setdefault(one.name, f"{one.name} prefers tier '{tier.name}'")  # 2
        for alias, meant in router.aliases.items():
            name = meant.partition(":")[2]
            if name and router.permits(tier, name):
                found.setdefault(name, f"alias '{alias}' asks for {name}, which tier '{tier.name}' may serve")  # 3
    return found


def proposals(gate: Gate, used: Mapping[str, str]) -> dict[str, str]:
    """Conditions that a gate could have and has not, and why. `used`: as `classes_of` gives them."""
    required = {class_of(condition, used) for condition in gate.conditions}
    return {f"{name}.lower >= {PROPOSED}": why for name, why in used.items() if name not in required}


def _is_figure(name: str) -> bool:
    quantile = _QUANTILE.fullmatch(name)
    return (quantile is not None and quantile["share"] in _SHARES) or name in _OTHERS or name in _SEPARATE
