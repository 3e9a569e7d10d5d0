"""Makes the measurements of one running serve that a gate needs, and names those that it cannot make."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console import terminal
from stoker.cli.console.errors import Interrupted, RequestRefused, UsageError

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.gate import Condition, Gate
    from stoker.domain.run import Run, RunKind
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.commands.targets import MeasurementTarget

_OWN_TIME = {"soak": ("eval soak", " --for 8h"), "context": ("eval context", "")}
"""Measurements that take hours, or the slot: not begun by the way. With the command for each, and its options."""
_NAMES = {"bootstrap": "suites"}
_KEPT = {"bootstrap": "the answers to the suites so far are kept, as all that was measured before"}
_ALL_KEPT = "what was measured before is kept"
"""After Ctrl-C in the measurement of that kind."""
_MAX_RUNS = 20
"""How many results of one kind are searched."""


@dataclass(frozen=True, slots=True)
class GateMeasurement:
    """One serve, one gate, and what the configuration says of both."""

    running: RunningServe
    gate: Gate
    classes: tuple[str, ...]
    suites: Path | None
    unknown_ok: bool
    fixtures: Mapping[str, int]
    """The number of fixtures of each class."""

    @property
    def unknown_identity(self) -> list[str]:
        return self.running.unknown_identity

    def command(self, *options: str) -> str:
        from stoker_lab.commands.running_serve import command_for

        command = command_for("gate", self.running.serve.name, self.running.installation)
        return " ".join((command, "--gate", self.gate.name, *options))

    def command_to_go_on(self, alias: str | None, *options: str) -> str:
        given = ["--for", alias] if alias is not None else []
        given += ["--unknown-ok"] if self.unknown_ok else []
        given += ["--suites", str(self.suites)] if self.suites is not None else []
        return self.command(*map(shlex.quote, given), *options)

    def why_not_kept(self, kind: RunKind, anew: bool) -> str:
        """Why nothing counts later of a measurement that is interrupted; empty: it does."""
        if anew:
            return "--again measures everything once more"
        is_kept = not self.unknown_identity or (self.unknown_ok and kind.value == "preflight")
        return "" if is_kept else self.running.not_kept

    def proposals(self, alias: str | None) -> dict[str, str]:
        """Of classes that there are questions for."""
        from stoker_lab.gate import measurements

        settings = self.running.installation.settings
        if settings is None:
            return {}
        serves = {self.running.serve.name, *(one.serve for one in settings.aliases if one.name == alias)}
        used = measurements.classes_of(settings.router, serves)
        return measurements.proposals(self.gate, {name: why for name, why in used.items() if name in self.fixtures})


def gate_measurement(
    found: RunningServe, alias: str | None, name: str | None, suites: Path | None, unknown_ok: bool
) -> GateMeasurement:
    """Raises UsageError: no such gate, or conditions that nothing can decide, with the number that it takes."""
    from stoker.domain.task import CLASSES
    from stoker_lab.gate import measurements
    from stoker_lab.suites import fixture

    settings = found.installation.settings
    asked = _gate(settings, alias, name)
    router = settings.router if settings is not None else None
    classes = router.known if router is not None else CLASSES
    fixtures = fixture.sizes(
        fixture.read_fixtures(suites, classes) if suites is not None else fixture.shipped_fixtures()
    )
    refused = [text for one in asked.conditions if (text := measurements.why_undecidable(one, fixtures, classes))]
    if refused:
        raise UsageError(f"gate '{asked.name}' cannot be decided: {'; '.join(refused)}", code="undecidable")
    return GateMeasurement(found, asked, classes, suites, unknown_ok, fixtures)


def measure_missing(
    judging: GateMeasurement, runs: list[Run], alias: str | None, json: bool, anew: bool, resume: bool
) -> dict[RunKind, str]:
    """Measure what no run in `runs` answers and put it in front of them. What could not be measured, with why.

    `json`: no tables. `anew`, `resume`: as the options say. Raises Interrupted: a part is no verdict.
    """
    from stoker.domain.run import Outcome
    from stoker_lab.canary.canary import BaselineRefused
    from stoker_lab.commands.interruptible import say_how_to_go_on
    from stoker_lab.gate import judgement
    from stoker_lab.lock import hold_measurement_lock

    found = judging.running
    fixes: dict[RunKind, str] = {}
    known = [run for run in runs if run.kind.value in _OWN_TIME] if judging.unknown_identity else runs
    for kind in judgement.missing_kinds(judging.gate, known, judging.classes):
        if kind.value in _OWN_TIME:
            fixes[kind] = _own_time("measure it first", kind, found)
            continue
        if kind.value == "benchmark" and (why := _by_hand(judging, runs)):
            fixes[kind] = why
        if kind.value == "benchmark" and not _own_steps(judging, known):
            continue
        terminal.note(f"{_NAMES.get(kind.value, kind.value)} of {found.serve.name} is measured now")
        lost = judging.why_not_kept(kind, anew)
        again = judging.command_to_go_on(alias, *(["--again"] if anew else [] if lost else ["--resume"]))
        try:
            with (
                hold_measurement_lock(found.state, found.lock, f"a gate of {found.serve.name}"),
                say_how_to_go_on(lost or _KEPT.get(kind.value, _ALL_KEPT), again),
            ):
                run = _measured(kind, judging, known, json, again, anew, resume)
        except (UsageError, BaselineRefused) as error:
            fixes[kind] = error.message
            continue
        if run.outcome is Outcome.INTERRUPTED:
            gone = next((one.observed for one in run.findings if one.observed.startswith("the server")), "")
            kept = lost or _kept_of(run)
            said = f"interrupted: {kept}{f', {gone}' if gone else ''}; to go on: {again}"
            raise RequestRefused(said, code=Interrupted.code) if gone else Interrupted(said)
        runs.insert(0, run)
    return fixes


def _kept_of(run: Run) -> str:
    from stoker_lab.commands.preflight import count_finished

    if run.kind.value == "preflight":
        return f"{count_finished(run)} of the preflight are kept"
    return f"the {run.kind.value} {run.id} is not whole, so it does not count; what was measured before it is kept"


def _own_steps(judging: GateMeasurement, runs: Sequence[Run]) -> list[Condition]:
    from stoker_lab.gate import judgement, measurements

    open_ = judgement.unanswered_conditions(judging.gate, runs, judging.classes)
    return [one for one in open_ if measurements.needed_step(one) is not None]


def _by_hand(judging: GateMeasurement, runs: Sequence[Run]) -> str:
    """The benchmark that some figures take and that a gate does not run; empty: none does."""
    from stoker_lab.commands.running_serve import command_for
    from stoker_lab.gate import judgement, measurements

    for one in judgement.unanswered_conditions(judging.gate, runs, judging.classes):
        if (more := measurements.separate_options(one)) is not None:
            command = command_for("eval benchmark", judging.running.serve.name, judging.running.installation)
            return f"measure it first, at the intended load: {command}{' ' if more else ''}{more}"
    return ""


def unknown_conditions(judging: GateMeasurement, runs: Sequence[Run]) -> list[str]:
    """Conditions that were measured, or cannot be, and about which this serve does not tell.

    1. a context search of an engine that others start  2. a figure that the benchmark was run for and does not have
    3. a number of a preflight check that it has, but not of this serve  4. a preflight that found nothing to check
    """
    from stoker.domain.run import Outcome
    from stoker_lab.gate import judgement, measurements

    found = []
    for one in judging.gate.conditions:
        kind = measurements.kind_of(one, judging.classes).value
        run = next((run for run in runs if run.kind.value == kind), None)
        if kind == "context":
            is_unknown = run is None and not _is_ours(judging.running)  # 1
        elif run is None:
            is_unknown = False
        elif one.measurement is not None:
            is_unknown = run.outcome is Outcome.NOT_APPLICABLE  # 4
        elif kind == "benchmark":
            is_unknown = measurements.needed_step(one) is not None and not judgement.answers(
                run, one, judging.classes
            )  # 2
        elif kind == "preflight":
            checks = {finding.name for finding in run.findings} | {"tools", "gates"}
            name = f"{one.rate}.n" if one.rate else one.metric
            is_unknown = run.numbers.get(name) is None and one.metric.partition(".")[0] in checks  # 3
        else:
            is_unknown = False
        if is_unknown:
            found.append(one.text)
    return found


def _is_ours(found: RunningServe) -> bool:
    return found.serve.driver.value == "process" and found.serve.base_url is None


def fix_for(
    judging: GateMeasurement, condition: Condition, fixes: Mapping[RunKind, str], unknown: Sequence[str]
) -> str:
    from stoker_lab.gate import measurements

    if condition.text in unknown:
        return f"this serve does not report it; to leave it out of the decision: {judging.command('--unknown-ok')}"
    kind = measurements.kind_of(condition, judging.classes)
    if kind.value == "benchmark" and measurements.separate_options(condition) is None:
        return fixes.get(kind, "") if measurements.needed_step(condition) is None else judging.command("--again")
    return fixes.get(kind) or _own_time("measure it again", kind, judging.running)


def identity_note(judging: GateMeasurement) -> str:
    """What the unknown parts of an identity mean for the gate's outcome."""
    serve, parts = judging.running.serve.name, ", ".join(judging.unknown_identity)
    if judging.unknown_ok:
        return (
            f"the identity of {serve} is not known ({parts}); because of --unknown-ok it counts as unchanged: earlier "
            "canary baselines, soaks and context searches count as measurements of it"
        )
    return (
        f"the identity of {serve} is not known ({parts}): earlier results do not count. --unknown-ok takes it "
        f"for unchanged: {judging.command('--unknown-ok')}"
    )


def _gate(settings: Settings | None, alias: str | None, name: str | None) -> Gate:
    """Raises UsageError that lists the known names."""
    from stoker.domain.gate import PRODUCTION

    configured = [one.name for one in settings.gates] if settings is not None else []
    gates = {PRODUCTION.name: PRODUCTION} | {one.name: one for one in (settings.gates if settings is not None else ())}
    if alias is not None:
        aliases = {one.name: one for one in settings.aliases} if settings is not None else {}
        if alias not in aliases:
            raise UsageError(f"there is no alias '{alias}'; {_there_are(aliases, 'alias')}", code="unknown_alias")
        if name is None and (name := aliases[alias].gate) is None:
            raise UsageError(f"alias '{alias}' has no `gate`: give it one, or use --gate NAME", code="no_gate")
    if name is None:
        if len(configured) != 1:
            raise UsageError(f"which gate? --for ALIAS or --gate NAME; {_there_are(gates, 'gate')}")
        (name,) = configured
    if name not in gates:
        raise UsageError(f"there is no gate '{name}'; {_there_are(gates, 'gate')}", code="unknown_gate")
    return gates[name]


def _there_are(names: Iterable[str], what: str) -> str:
    known = ", ".join(names)
    return f"known: {known}" if known else f"add [{what}.NAME] to the configuration"


def stored_runs(judging: GateMeasurement, now: float) -> list[Run]:
    """Measurements of just this serve as it is now, the newest first: of each kind as many as answer the gate.

    With an unknown identity the model may have changed: then only results that a gate does not measure itself are used.
    """
    from stoker.store.results import Results
    from stoker_lab.gate import judgement
    from stoker_lab.gate.measurements import kind_of

    found, gate = judging.running, judging.gate
    store = Results(found.state)
    for sentence in store.sync():
        terminal.note(f"stoker: {sentence}")
    fingerprint = found.subject.fingerprint
    runs: list[Run] = []
    for kind in dict.fromkeys(kind_of(one, judging.classes) for one in gate.conditions):
        is_by_hand = kind.value in _OWN_TIME or (kind.value == "benchmark" and _by_hand(judging, []) != "")
        if judging.unknown_identity and not is_by_hand:
            continue
        own: list[Run] = []
        for entry in store.select(kind, found.serve.name, limit=1000):
            if entry.is_baseline or not judgement.may_match(
                kind, entry.identity, entry.execution, fingerprint, judging.unknown_ok
            ):
                continue
            own += judgement.usable_runs(
                [store.load(entry.id)], found.serve.name, fingerprint, gate.max_age, now, judging.unknown_ok
            )
            if len(own) == _MAX_RUNS or (own and kind not in judgement.missing_kinds(gate, own, judging.classes)):
                break
        runs += own
    return runs


def _own_time(what: str, kind: RunKind, found: RunningServe) -> str:
    """What to do, with the command; empty: the gate measures it itself."""

    from stoker_lab.commands.running_serve import command_for

    if kind.value not in _OWN_TIME:
        return ""
    command, given = _OWN_TIME[kind.value]
    return f"{what}: {command_for(command, found.serve.name, found.installation)}{given}"


def _measured(
    kind: RunKind, judging: GateMeasurement, runs: Sequence[Run], json: bool, again: str, anew: bool,
    resume: bool,
) -> Run:  # fmt: skip
    """`again`: the command that goes on, which is said if there is something to go on with. `anew`: nothing is.
    Raises UsageError with the command that helps, KeyboardInterrupt.
    """
    from stoker_lab.commands import canary, preflight, targets
    from stoker_lab.commands import save_run as kept

    found = judging.running
    if kind.value == "canary":
        from stoker_lab.canary.questions import questions_for

        chosen = questions_for(found.subject.fingerprint.parts.get("model", ""))
        return canary.compared(found, chosen, None, judging.unknown_ok)
    if kind.value == "bootstrap":
        return _suites(judging, anew)
    ways = targets.target_of(found)
    if kind.value == "preflight":
        from stoker_lab.preflight.run import PreflightOptions

        wanted, earlier = PreflightOptions(), None
        if not judging.why_not_kept(kind, anew):
            earlier = preflight.interrupted_run(ways, wanted, again, resume)
        run = preflight.measure(ways, wanted, earlier)
        if not json:
            preflight.show(run)
    else:
        run = _benchmark(ways, _own_steps(judging, runs), json)
    kept.save_run(run, found.state)
    return run


def _benchmark(ways: MeasurementTarget, conditions: Sequence[Condition], json: bool) -> Run:
    from stoker_lab.commands import benchmark, benchmark_tables
    from stoker_lab.gate import measurements
    from stoker_lab.load import presets

    wanted = presets.BenchmarkOptions(quick=True, repeats=1)
    size = presets.token_sizes(wanted, ways.context)
    plan = measurements.plan_steps(conditions, wanted, size)
    steps = ", ".join(f"{step.name} {step.length.requests}" for step in plan.steps)
    terminal.note(f"requests needed: {steps}")
    (run,) = benchmark.measure(ways, wanted, plan, size)
    if not json:
        benchmark_tables.show_benchmark([run])
    return run


def _suites(judging: GateMeasurement, anew: bool) -> Run:
    from stoker.domain.run import RunKind
    from stoker_lab.commands import whole_suites
    from stoker_lab.gate.measurements import class_of
    from stoker_lab.suites.whole_suites import graded_in

    named = (class_of(one, judging.classes) for one in judging.gate.conditions)
    classes = [name for name in dict.fromkeys(named) if name]
    fixtures = whole_suites.fixtures_for(judging.running, classes, judging.suites, judging.classes)
    earlier = [] if anew else whole_suites.earlier_runs(judging.running, RunKind.BOOTSTRAP)
    return whole_suites.measure_suites(judging.running, fixtures, graded_in(earlier))
