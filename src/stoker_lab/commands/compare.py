"""`stoker eval compare`: two models by class, speed, memory and cost, and which of them is better at what."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import NotRunning, RequestRefused, UsageError
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.figures import counted
from stoker_lab.commands.interruptible import as_typed, say_how_to_go_on

if TYPE_CHECKING:
    from stoker.domain.run import Run, RunKind
    from stoker.domain.tier import Cost
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.comparison.models import ComparedModel, ModelComparison

_MAX_RUNS = 50
_QUICK = 12
_Model = Annotated[
    str, typer.Argument(help="A serve, a tier or an alias.", autocompletion=options.compared_names, show_default=False)
]


def compare(
    a: _Model,
    b: _Model,
    classes: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="CLASS", help="Only this class; repeatable.", autocompletion=options.class_lists),
    ] = None,
    stored: Annotated[bool, typer.Option("--stored", help="Measure nothing; use stored results only.")] = False,
    suites: Annotated[
        Path | None, typer.Option("--suites", metavar="DIR", help="Use your own fixtures, *.jsonl, instead.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Ask {_QUICK} fixtures of each class: rough figures, wide intervals.")
    ] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page, one file.")] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Two models side by side: by class with intervals, speed, memory and cost, and a summary in words.

    Stored results of these models are used; missing ones are measured, with the models loaded in turn.
    Ctrl-C keeps what was measured.
    """
    from stoker_lab.comparison import models
    from stoker_lab.reports.models_page import models_page

    installation = find_installation(config, state)
    names = [name.strip() for text in classes or [] for name in text.split(",") if name.strip()]
    wanted = _classes(installation, names, suites)
    found = [_resolved(installation, name) for name in (a, b)]
    if found[0][0] == found[1][0]:
        raise UsageError(f"'{a}' and '{b}' are the same serve, '{found[0][0]}': name two different models")
    before = _residents(installation)
    sides: list[ComparedModel] = []
    notes: list[str] = []
    given = {"--for": ",".join(names) or None, "--suites": suites, "--html": html, "--config": config,
             "--state": state}  # fmt: skip
    again = as_typed("eval compare", [a, b], given) + (" --quick" if quick else "")
    kept = "what was measured so far is kept"
    try:
        with say_how_to_go_on(kept, again):
            for place, (name, (serve, cost)) in enumerate(zip((a, b), found, strict=True)):
                known = None if stored else _loaded(installation, serve)
                how = _HowToMeasure(wanted, suites, quick, more_models=len(found) - place - 1)
                lost = "" if known is None or not known.unknown_identity else known.not_kept
                with say_how_to_go_on(lost or kept, again):
                    sides.append(_side(installation, name, serve, cost, known, how, notes))
    finally:
        _restored(installation, before)
    result = models.compare_models(*sides)
    compared = {one.name for one in result.classes} | set(result.unmatched_classes)
    if silent := [name for name in wanted if name not in compared and (names or not stored)]:
        show = ", or ".join(f"stoker results show {side.runs[0]}{installation.place}" for side in sides if side.runs)
        notes.append(f"no answer could be graded at {', '.join(silent)}" + (f"; to see why: {show}" if show else ""))
    if json:
        terminal.emit(_document(result, notes))
    else:
        _show(result, notes)
    if html is not None:
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        try:
            html.write_text(models_page(result, when, notes), encoding="utf-8")
        except OSError as error:
            raise RequestRefused(f"--html {html}: {error.strerror}; the measurements were saved") from error
        terminal.note(f"report: {html}")


def _classes(installation: Installation, names: Sequence[str], suites: Path | None) -> list[str]:
    """The requested classes, else all that have fixtures. Raises UsageError for an unknown class."""
    from stoker.domain.task import CLASSES
    from stoker_lab.suites import fixture

    router = installation.settings.router if installation.settings is not None else None
    every = router.known if router is not None else CLASSES
    if unknown := [name for name in names if name not in every]:
        raise UsageError(f"--for {unknown[0]}: unknown class; known classes: {', '.join(every)}")
    have = fixture.sizes(fixture.read_fixtures(suites, every) if suites is not None else fixture.shipped_fixtures())
    if lacking := [name for name in names if name not in have]:
        raise UsageError(f"--for {lacking[0]}: it has no fixtures; give some with --suites DIR")
    return list(names) or list(have)


def _resolved(installation: Installation, name: str) -> tuple[str, Cost | None]:
    """The serve that a name means, and what it costs: 1. a tier  2. an alias, as it is now  3. a serve."""
    router = installation.settings.router if installation.settings is not None else None
    tiers = router.tiers if router is not None else ()
    tier = next((one for one in tiers if one.name == name), None)
    if tier is not None:
        return tier.serve, tier.cost  # 1
    serve = _meant(installation, name)
    if installation.settings is not None:
        serve = installation.serve(serve).name  # 3
    return serve, next((one.cost for one in tiers if one.serve == serve), None)


def _meant(installation: Installation, name: str) -> str:
    aliases: dict[str, str] = {}
    if installation.settings is not None:
        aliases = {choice.name: choice.serves[0] for choice in installation.settings.alias_choices}
        aliases |= {one.name: one.serve for one in installation.settings.aliases}
    try:
        with installation.control() as control:
            aliases |= {one["alias"]: one["serve"] for one in control.document("/status").get("aliases", [])}
    except NotRunning:
        pass  # as configured
    return aliases.get(name, name)  # 2


def _residents(installation: Installation) -> dict[str, tuple[str, ...]]:
    try:
        with installation.control() as control:
            return {slot.name: tuple(slot.resident) for slot in control.status().slots}
    except NotRunning:
        return {}


def _restored(installation: Installation, before: dict[str, tuple[str, ...]]) -> None:
    """Load again what was in a slot before the comparison."""
    from stoker_lab.commands.slot_takeover import load_again

    after = _residents(installation)
    for slot, residents in before.items():
        for name in residents:
            if name not in after.get(slot, ()):
                load_again(installation, name)


def _loaded(installation: Installation, serve: str) -> RunningServe:
    """Loaded if it is not, which is said. Raises NotRunning."""
    from stoker_lab.commands.running_serve import running_at

    with installation.control() as control:
        now = control.status().serve(serve)
        if now is None or now.state not in ("ready", "held"):
            terminal.note(f"loading {serve}; the model that it replaces is loaded again at the end")
            control.switch(serve)
    return running_at(installation, serve)


class _HowToMeasure(NamedTuple):
    """`is_rough`: a few fixtures of each class. `more_models`: how many are measured afterwards."""

    classes: Sequence[str]
    suites: Path | None
    is_rough: bool
    more_models: int


def _side(
    installation: Installation, name: str, serve: str, cost: Cost | None, known: RunningServe | None,
    how: _HowToMeasure, notes: list[str],
) -> ComparedModel:  # fmt: skip
    from stoker.domain.run import RunKind
    from stoker_lab.comparison.models import SPEED, ComparedModel
    from stoker_lab.suites.whole_suites import graded_in

    asked = _kept(installation, serve, RunKind.BOOTSTRAP, known)
    timed = [run for run in _kept(installation, serve, RunKind.BENCHMARK, known) if _speed(run)]
    if known is not None:
        asked = _asked(known, how, asked)
        timed = timed or [_timed(known)]
    elif not asked and not timed:
        raise UsageError(f"there are no stored results of '{serve}': drop --stored to measure it")
    elif asked or timed:
        notes.append(
            f"{name}: the last results, which may come from an older version; without --stored it is measured again"
        )
    graded = [one for one in graded_in(asked) if one.task_class in how.classes]
    speed = _speed(timed[0]) if timed else {}
    steps = {one.name: one.numbers for one in timed[0].findings if "requests_ok" in one.numbers} if timed else {}
    clients = [int(one.get("clients") or 0) for step, one in steps.items() if step.startswith("c")]
    return ComparedModel(
        name, serve, graded, {key: speed.get(key) for key in SPEED},
        max(clients, default=None), _memory(installation, serve), cost,
        tuple(run.id for run in (*asked[:1], *timed[:1])),
    )  # fmt: skip


def _kept(installation: Installation, serve: str, kind: RunKind, known: RunningServe | None) -> list[Run]:
    """The newest first: of the model as it runs, or, if nothing is to run, of whatever was measured last."""
    from stoker.store.results import Results
    from stoker_lab.commands.whole_suites import earlier_runs

    if known is not None:
        return earlier_runs(known, kind)
    store = Results(installation.state)
    store.sync()
    entries = store.select(kind, serve, limit=_MAX_RUNS)
    runs = [store.load(one.id) for one in entries
            if (one.identity, one.execution) == (entries[0].identity, entries[0].execution)]  # fmt: skip
    return [run for run in runs if run.subject.fingerprint.parts == runs[0].subject.fingerprint.parts]


def _asked(known: RunningServe, how: _HowToMeasure, kept: list[Run]) -> list[Run]:
    from stoker.domain.task import CLASSES
    from stoker_lab.commands import whole_suites
    from stoker_lab.lock import hold_measurement_lock
    from stoker_lab.suites.fixture import spread
    from stoker_lab.suites.whole_suites import complete_classes, graded_in

    router = known.installation.settings.router if known.installation.settings is not None else None
    every = whole_suites.fixtures_for(known, how.classes, how.suites, router.known if router is not None else CLASSES)
    fixtures = spread(every, _QUICK) if how.is_rough else every
    done = graded_in(kept)
    whole = complete_classes(done, fixtures)
    missing = [one for one in fixtures if one.task_class not in whole]
    if not missing:
        return kept
    terminal.note(f"{known.serve.name}: {', '.join(dict.fromkeys(one.task_class for one in missing))} is measured now")
    with hold_measurement_lock(known.state, known.lock, f"a comparison of {known.serve.name}"):
        return [whole_suites.measure_suites(known, missing, done, every, how.more_models), *kept]


def _timed(known: RunningServe) -> Run:
    from stoker_lab.commands import benchmark, targets
    from stoker_lab.commands.save_run import save_run
    from stoker_lab.load import presets
    from stoker_lab.lock import hold_measurement_lock

    ways = targets.target_of(known)
    wanted = presets.BenchmarkOptions(concurrency=(1, 4), quick=True, requests=10)
    plan, size = presets.plan_benchmark(wanted, ways.context), presets.token_sizes(wanted, ways.context)
    terminal.note(f"{known.serve.name}: speed is measured now")
    with hold_measurement_lock(known.state, known.lock, f"a comparison of {known.serve.name}"):
        (run,) = benchmark.measure(ways, wanted, plan, size)
    save_run(run, known.state)
    if run.outcome.value == "interrupted":
        raise KeyboardInterrupt
    return run


def _speed(run: Run) -> dict[str, Any]:
    """With one client; `output_rate` with the most there were. Empty: it was of cached prompts, or had no such step."""
    modes = run.setting("modes")
    if isinstance(modes, list) and modes[:1] not in (["warm"], ["cold"]):
        return {}
    steps = [one.numbers for one in run.findings if "requests_ok" in one.numbers and one.name.startswith("c")]
    single = next((one for one in steps if one.get("clients") == 1 and (one.get("requests_ok") or 0) >= 10), None)
    if single is None:
        return {}
    widest = max(steps, key=lambda one: one.get("clients") or 0)
    return {**{key: single.get(key) for key in ("ttft_p50", "ttft_p95", "decode_rate")},
            "output_rate": widest.get("output_rate")}  # fmt: skip


def _memory(installation: Installation, serve: str) -> int | None:
    try:
        with installation.control() as control:
            now = control.status().serve(serve)
    except NotRunning:
        now = None
    if now is not None and (now.measured or now.memory):
        return now.measured or now.memory
    return installation.serve(serve).memory if installation.settings is not None else None


def _document(found: ModelComparison, notes: Sequence[str]) -> dict[str, Any]:
    classes = [
        {"class": one.name, "a": _rate(one.a), "b": _rate(one.b), "difference": one.difference,
         "interval": list(one.interval), "pairs": one.pairs, "verdict": one.rating.value}
        for one in found.classes
    ]  # fmt: skip
    sides = {
        key: {"name": side.name, "serve": side.serve, "speed": dict(side.speed), "clients": side.clients,
              "memory": side.memory, "runs": list(side.runs),
              "cost": None if side.cost is None else {"input": side.cost.input, "output": side.cost.output}}
        for key, side in (("a", found.a), ("b", found.b))
    }  # fmt: skip
    return {
        **sides,
        "classes": classes,
        "alone": found.unmatched_classes,
        "verdict": found.summary,
        "notes": list(notes),
    }


def _rate(rate: Any) -> dict[str, Any]:
    return {"passed": rate.passed, "n": rate.n, "interval": list(rate.interval)}


def _show(found: ModelComparison, notes: Sequence[str]) -> None:
    from stoker_lab.commands.benchmark_tables import milliseconds, rate
    from stoker_lab.comparison.models import UNITS, points
    from stoker_lab.reports.models_page import cost, size

    a, b = found.a, found.b
    if found.classes:
        rows = [
            (one.name, _of(one.a), _of(one.b), points(one).replace("95 % interval ", ""),
             "paired" if one.pairs else "", one.rating.value)
            for one in found.classes
        ]  # fmt: skip
        terminal.table(("CLASS", a.name, b.name, "DIFFERENCE (95 %)", "", ""), rows)
        terminal.say("")
    shown = []
    for name, unit in UNITS.items():
        text = milliseconds if unit == "ms" else rate
        word = f"{name} ({counted(a.clients, 'client')})" if name == "output_rate" else name
        first, second = a.speed.get(name), b.speed.get(name)
        ratio = f"{second / first:.2f}x" if first and second is not None else "-"
        shown.append((word, "" if unit == "ms" else unit, text(first), text(second), ratio))
    shown.append(("memory", "", size(a.memory), size(b.memory), ""))
    shown.append(("cost per million", "", cost(a), cost(b), ""))
    terminal.table(("", "UNIT", a.name, b.name, "RATIO"), shown, right=(a.name, b.name, "RATIO"))
    for note in (
        *notes,
        *(
            [f"only one of the two was measured at {', '.join(found.unmatched_classes)}"]
            if found.unmatched_classes
            else []
        ),
    ):
        terminal.note(note)
    terminal.say(f"\n{found.summary}")


def _of(one: Any) -> str:
    low, high = one.interval
    return f"{one.passed} of {one.n} ({low:.2f} to {high:.2f})"
