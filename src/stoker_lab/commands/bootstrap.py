"""`stoker eval bootstrap`: grades the tiers on suites, class by class, into the quality profile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.figures import counted
from stoker_lab.commands.interruptible import as_typed, say_how_to_go_on

if TYPE_CHECKING:
    from stoker.domain.routing import RouterSettings
    from stoker.domain.tier import ProfileRow, Tier
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.suites.fixture import Fixture
    from stoker_lab.suites.grading import GradedFixture, UngradedFixtures

IDENTIFIED_WITHIN = 60.0
"""Seconds that a running serve may take to be looked at: large weights are hashed."""
_Tiers = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TIER]...",
        help="Which tiers. Default: all that answer, but no clouds, which cost.",
        autocompletion=options.tier_names,
        show_default=False,
    ),
]
_Suites = Annotated[
    Path | None, typer.Option("--suites", metavar="DIR", help="Use your own fixtures, *.jsonl, instead.")
]


def bootstrap(
    tiers: _Tiers = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="CLASS,...",
            help="Only these classes; may be given several times. Default: all.",
            autocompletion=options.class_lists,
            show_default=False,
        ),
    ] = None,
    suites: _Suites = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Build the profile from this instead, offline: a result of `eval bootstrap`, or recorded answers "
            "(*.jsonl). May be repeated.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over; do not continue an interrupted run.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Measure what each tier is good at, until each class is decided, and route by it from now on.

    Interrupted with Ctrl-C, the next call resumes.
    """
    installation = find_installation(config, state)
    router = _router(installation)
    names = class_names(classes or [])
    if unknown := [name for name in names if name not in router.known]:
        raise UsageError(f"--class: there is no class {unknown[0]!r}; known classes: {', '.join(router.known)}")
    if files and fresh:
        raise UsageError("--from and --fresh exclude each other: what was recorded is not measured again")
    if files:
        _from_files(installation, router, files, tiers or [], names, suites, json)
        return
    done: list[ProfileRow] = []
    given = {"--class": ",".join(names) or None, "--suites": suites, "--config": config, "--state": state}
    again = as_typed("eval bootstrap", tiers or [], given)
    for tier in chosen_tiers(router, tiers or []):
        served = classes_served(router, tier, names, installation.place)
        done += _measure(installation, tier, served, suites, _Interruption("bootstrap", again, fresh), quiet=json)
    if json:
        _emit(done)
    if not done:
        terminal.note("stoker: nothing was measured")
        raise typer.Exit(FAILED)


def _from_files(
    installation: Installation,
    router: RouterSettings,
    files: Sequence[Path],
    tiers: Sequence[str],
    classes: Sequence[str],
    suites: Path | None,
    json: bool,
) -> None:
    """The profile from what was recorded. Asks no model; a Stoker that runs routes by it at once."""
    from stoker.cli.console.installation import is_answering
    from stoker_lab.commands import bootstrap_files

    known = {tier.name: tier for tier in router.tiers}
    recordings = [one for one in bootstrap_files.read_recordings(files) if not tiers or one.tier in tiers]
    if unknown := [one.tier for one in recordings if one.tier not in known]:
        raise UsageError(f"--from: there is no tier '{unknown[0]}'; known tiers: {', '.join(known)}")
    done: list[ProfileRow] = []
    for recording in recordings:
        served = classes_served(router, known[recording.tier], classes, installation.place)
        rows, outdated = bootstrap_files.rows_of(recording, suites, served, router.known)
        done += rows
        if not json:
            print_tier(known[recording.tier], rows, ())
        if outdated:
            terminal.note(
                f"stoker: tier {recording.tier}: {counted(outdated, 'question')} of the recording changed since, or "
                "are not here: left out"
            )
    if not done:
        terminal.note("stoker: nothing in these files counts; the profile stays as it is")
        raise typer.Exit(FAILED)
    path = _write_profile(installation, done)
    if is_answering(installation.state):
        with installation.control() as control:
            control.reload()
    if json:
        _emit(done)
    else:
        terminal.say(f"wrote {path}")


def class_names(given: Sequence[str]) -> list[str]:
    """The classes that the options name, each once: an option may be repeated, and names may stand between commas."""
    return list(dict.fromkeys(name.strip() for one in given for name in one.split(",") if name.strip()))


def classes_served(router: RouterSettings, tier: Tier, names: Sequence[str], place: str = "") -> list[str]:
    """Of `names`, or of all there are, those that its `classes` let the tier serve. Raises UsageError of none."""
    from stoker.domain.routing import includes_class

    served = [name for name in names or router.known if includes_class(name, tier.classes)]
    if not tier.classes:
        command = f"stoker eval validator {tier.name} --class CLASS{place}"
        raise UsageError(f"tier '{tier.name}' answers nothing (`classes = []`); measure it as a judge: {command}")
    if not served:
        raise UsageError(f"tier '{tier.name}' serves none of {', '.join(names)}: its `classes` leave them out")
    if left := [name for name in names if name not in served]:
        terminal.note(f"stoker: tier '{tier.name}' does not serve {', '.join(left)}: left out")
    return served


def calibrate(
    tiers: _Tiers = None,
    suites: _Suites = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the interrupted one.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Measure again what is in doubt: tiers that changed, whose answers got worse, or that a judge contradicts."""
    installation = find_installation(config, state)
    given = {"--suites": suites, "--config": config, "--state": state}
    again = f"{as_typed('eval calibrate', tiers or [], given)} --resume"
    done: list[ProfileRow] = []
    for tier in chosen_tiers(_router(installation), tiers or []):
        if stale := _stale(installation, tier):
            how = _Interruption("calibrate", again, fresh=not resume)
            done += _measure(installation, tier, stale, suites, how, quiet=json)
        elif not json:
            terminal.say(f"tier {tier.name}: nothing to measure again")
    if json:
        _emit(done)


def _emit(rows: Sequence[ProfileRow]) -> None:
    import msgspec

    terminal.emit([msgspec.to_builtins(row) for row in rows])


def _stale(installation: Installation, tier: Tier) -> list[str]:
    deadline = time.monotonic() + IDENTIFIED_WITHIN
    with installation.control() as control:
        control.switch(tier.serve)
        while True:
            routing = control.document("/status").get("routing")
            if routing is None:
                reload = f"stoker reload{installation.place}"
                text = f"the Stoker that runs has no tiers: `{reload}`, if the configuration has some"
                raise UsageError(f"{text}; else LOGS/stoker.log says why it does not use the extension auto")
            known = next((one["known"] for one in routing["tiers"] if one["tier"] == tier.name), True)
            if known or tier.cloud or time.monotonic() > deadline:
                return to_measure_again(routing, tier.name)
            time.sleep(0.1)


def to_measure_again(routing: Mapping[str, Any], tier: str) -> list[str]:
    """The classes at which the tier's results no longer count, or a judge contradicts them. `routing`: of /status."""
    found = (*routing["stale"], *routing["contradictions"])
    return list(dict.fromkeys(one["class"] for one in found if one["tier"] == tier))


def _router(installation: Installation) -> RouterSettings:
    router = installation.configured().router
    if router is None:
        raise UsageError(
            "no tiers are configured here: add [[tier]] to the configuration, see docs/guides/route-by-quality.md"
        )
    return router


def chosen_tiers(router: RouterSettings, names: Sequence[str]) -> list[Tier]:
    known = {tier.name: tier for tier in router.tiers}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"there is no tier '{unknown[0]}'; known tiers: {', '.join(known)}")
    chosen = [known[name] for name in names] or router.local_tiers
    if not chosen:
        raise UsageError("no local tier answers requests, and measuring clouds costs money: name the tier to measure")
    return chosen


class _Interruption(NamedTuple):
    """`again`: the command that goes on. `fresh`: this one does not go on."""

    command: str
    again: str
    fresh: bool


def _measure(
    installation: Installation, tier: Tier, classes: Sequence[str], suites: Path | None, how: _Interruption,
    quiet: bool,
) -> list[ProfileRow]:  # fmt: skip
    """One tier, loaded first. Its rows go into the profile, and the running Stoker routes by them."""
    from stoker_lab.commands import kept_grades
    from stoker_lab.commands.fixture_run import grade_with_progress
    from stoker_lab.commands.running_serve import running_at
    from stoker_lab.lock import hold_measurement_lock
    from stoker_lab.suites import grading

    with say_how_to_go_on(f"tier {tier.name} was not asked", how.again):
        with installation.control() as control:
            control.switch(tier.serve)
        known = running_at(installation, tier.serve)
    model = known.model_asked
    kept_if_interrupted = "the answers so far are kept" if model.identity else known.not_kept
    fixtures = _fixtures(known, suites, classes, _router(installation).known)
    with (
        hold_measurement_lock(installation.state, known.lock, f"a {how.command} of {tier.name}"),
        say_how_to_go_on(kept_if_interrupted, how.again),
    ):
        began = time.time()
        with kept_grades.kept_grades(installation.state, how.command, tier.name, model, how.fresh) as kept:
            if kept.done:
                answers = counted(len(kept.done), "answer")
                terminal.note(f"tier {tier.name}: {answers} kept since {figures.moment(kept.began)} count")
            graded = grade_with_progress(known, fixtures, kept.done, tier.name, kept.add)
        rows = grading.profile_rows(graded, fixtures, tier.name, known.subject.fingerprint, time.time())
        _write(installation, rows)
    gaps = grading.ungraded_fixtures(graded)
    _keep_run(known, tier, graded, rows, gaps, began)
    kept_grades.forget(installation.state, tier.name)
    if not quiet:
        print_tier(tier, rows, gaps)
        for gap in gaps:
            terminal.note(f"stoker: {describe_gap(gap, tier, rows, known.serve.context)}")
    return rows


def _fixtures(known: RunningServe, suites: Path | None, classes: Sequence[str], names: Sequence[str]) -> list[Fixture]:
    from stoker_lab.commands.fixture_run import fixtures_for

    chosen = [one for one in fixtures_for(known, suites, names) if not classes or one.task_class in classes]
    if not chosen:
        raise UsageError(f"there are no fixtures of {', '.join(classes)}; give some with --suites DIR")
    return chosen


def _write(installation: Installation, rows: Sequence[ProfileRow]) -> None:
    _write_profile(installation, rows)
    with installation.control() as control:
        control.reload()


def _write_profile(installation: Installation, rows: Sequence[ProfileRow]) -> Path:
    from stoker.store.profile import ProfileFile, load, path_of

    path = path_of(_router(installation), installation.state)
    before = load(path) if path.exists() else {}
    try:
        ProfileFile(path).write({**before, **{(row.tier, row.task_class): row for row in rows}}.values())
    except OSError as error:
        raise UsageError(f"the profile {path} cannot be written: {error.strerror}") from error
    return path


def _keep_run(
    known: RunningServe,
    tier: Tier,
    graded: Sequence[GradedFixture],
    rows: Sequence[ProfileRow],
    gaps: Sequence[UngradedFixtures],
    began: float,
) -> None:
    from stoker.domain.run import Outcome, RunKind
    from stoker_lab.commands.save_run import build_run, save_run

    numbers: dict[str, float | int | None] = {}
    for row in rows:
        numbers |= {f"{row.task_class}.n": row.n, f"{row.task_class}.passed": row.passed}
    settings: dict[str, object] = {"tier": tier.name, "datasets": {row.task_class: row.dataset for row in rows}}
    settings["unmeasured"] = {gap.task_class: gap.reason for gap in gaps if gap.samples == 0}
    outcome = Outcome.PASSED if rows else Outcome.UNDECIDED
    save_run(
        build_run(RunKind.BOOTSTRAP, known.subject, began, outcome, [], numbers, settings, {"graded": list(graded)}),
        known.state,
    )


def print_tier(tier: Tier, rows: Sequence[ProfileRow], gaps: Sequence[UngradedFixtures]) -> None:
    from stoker.domain.task import CLASSES
    from stoker_lab.statistics.stats import wilson

    cells = [
        (row.task_class, row.verdict.value, f"{row.passed} of {row.n}", f"{wilson(row.passed, row.n).low:.2f}",
         "-" if row.latency is None else figures.seconds(row.latency))
        for row in rows
    ]  # fmt: skip
    cells += [(gap.task_class, "not measured", "-", "-", "-") for gap in gaps if gap.samples == 0]
    order = {name: at for at, name in enumerate(CLASSES)}
    cells.sort(key=lambda cell: (order.get(cell[0], len(order)), cell[0]))
    terminal.say(f"tier {tier.name} ({tier.serve})")
    terminal.table(("CLASS", "VERDICT", "PASSED", "RATE AT LEAST", "LATENCY"), cells,
                   right=("PASSED", "RATE AT LEAST", "LATENCY"))  # fmt: skip


def describe_gap(gap: UngradedFixtures, tier: Tier, rows: Sequence[ProfileRow], context: int | None) -> str:
    """Why questions of a class gave no sample, and what to do: 1. decided anyway  2. the context  3. the rest"""
    from stoker.domain.tier import Verdict
    from stoker_lab.suites.grading import TOO_LONG

    verdict = next((row.verdict for row in rows if row.task_class == gap.task_class), None)
    questions = counted(gap.ungraded, "question")
    some = f"{questions} could not be graded, the first {gap.first_fixture}: {gap.reason}"
    if verdict is not None and verdict is not Verdict.VERIFY:
        return f"{gap.task_class}: {some}"  # 1
    what = f"{gap.task_class} is {'not measured' if verdict is None else 'undecided'}"
    again = f"`stoker eval bootstrap {tier.name} --class {gap.task_class}`"
    if gap.reason == TOO_LONG:  # 2
        size = "" if context is None else f" of {context} tokens"
        fit = "and its answer does" if gap.ungraded == 1 else "and their answers do"
        why = f"{questions} {fit} not fit its context{size}"
        return f"{what}: {why}: give serve '{tier.serve}' a larger `context`, then run {again}"
    return f"{what}: {some}: fix that, then run {again}"  # 3
