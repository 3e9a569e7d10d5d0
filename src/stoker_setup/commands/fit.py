"""`stoker fit`: will it fit, before anything is started; and what would."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, NotRunning, UsageError
from stoker.domain.errors import ConfigError, StokerError

if TYPE_CHECKING:
    from stoker.cli.console.answers import StatusAnswer
    from stoker.cli.console.installation import Installation
    from stoker.domain.serve import Serve, Slot
    from stoker.fleet.memory.devices import Device, DeviceProbe
    from stoker.fleet.memory.fit.check import FitReport
    from stoker.fleet.memory.host import HostMemory

_COLUMNS = ("SERVE", "PLACE", "WEIGHTS", "KV CACHE", "ENGINE", "NEEDED", "ROOM", "FREE NOW", "VERDICT")
_MAX_AT_ONCE = 1024

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[SERVE|MODEL.gguf|DIR|hf:ORG/REPO]",
        help="Name of a serve, path of a model (with a / in it, or ending in .gguf), or a repository of the model hub, "
        "whose models are listed: hf:ORG/REPO[/FILE]. Default: every serve.",
        autocompletion=options.serves_and_repositories,
        show_default=False,
    ),
]


def fit(
    target: Target = None,
    context: Annotated[int | None, typer.Option(min=1, metavar="N", help="Tokens that one request may use.")] = None,
    parallel: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of requests at once.")] = None,
    cache_type: Annotated[
        str | None, typer.Option("--cache-type", metavar="TYPE", help="Type of the KV cache: f16, q8_0, q4_0, fp8...")
    ] = None,
    device_memory: Annotated[
        str | None,
        typer.Option(
            "--device-memory", metavar="SIZE", help='Act as if there were one device with this much memory: "24GiB".'
        ),
    ] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Check whether a model fits, and find the largest context. Reads file headers only; exit 1 if one does not fit."""
    if target is not None and target.startswith("hf:"):
        from stoker_setup.commands import fit_repository

        _check_cache_type(cache_type)
        given, place = _given(device_memory), options.same_place(config, None)
        memory = f" --device-memory {shlex.quote(device_memory)}" if device_memory else ""
        asked = fit_repository.HubQuestion(target, context, parallel or 1, cache_type, given, memory, place)
        fit_repository.show(asked, machine(), held_by_models(running_status(config, state)), json)
        return
    from stoker.domain.errors import UnreadableModel
    from stoker.fleet.memory.fit import check
    from stoker.fleet.memory.fit.check import with_context
    from stoker.fleet.memory.host import host_memory

    is_path = target is not None and (os.sep in target or target.endswith(".gguf"))
    subjects = _of_path(str(target)) if is_path else _installed(target, config, state)
    subjects = [(_changed(serve, context, parallel, cache_type), slot) for serve, slot in subjects]
    probe = machine()
    given = _given(device_memory)
    held = held_by_models(running_status(config, state))
    main = host_memory(credit=held)
    judged: list[FitReport | str] = []
    unused: list[str] = []
    for serve, slot in subjects:
        present = probe.devices()
        devices = check.devices_for(serve, slot, present) if given is None else given
        unused.append(check.why_unused(serve, slot, present) if given is None else "")
        try:
            if serve.auto_context and context is None:
                serve = with_context(serve, slot if given is None else None, given or present, main)
            judged.append(_judge(serve, devices, main, is_path, options.same_place(config, state)))
        except UnreadableModel as error:
            if target is not None:
                raise
            judged.append(error.message)
    if json:
        rows = zip(subjects, judged, unused, strict=True)
        terminal.emit([_document(serve, result) | {"not_counted": why or None} for (serve, _), result, why in rows])
    else:
        _show(
            [serve.name for serve, _ in subjects],
            judged,
            unused,
            partial(_start, path=str(target) if is_path else None, config=config, state=state),
        )
        for note in probe.notes() if given is None else ():
            terminal.note(f"stoker: {note}")
        if held:
            terminal.note(f"counted as free: {figures.size(held)} that loaded models hold; they make room for others")
    if any(isinstance(result, str) or result.problems for result in judged):
        raise typer.Exit(FAILED)


def held_by_models(running: StatusAnswer | None) -> int:
    """Bytes of main memory that loaded models hold, and give back when others come."""
    from stoker.fleet.drivers import process_group
    from stoker.fleet.memory.host import process_memory

    leaders = [one.pid for one in running.serves if one.pid is not None] if running is not None else []
    theirs = process_memory(pid for leader in leaders for pid in process_group.members(leader))
    return theirs.anonymous if theirs is not None else 0


def running_status(config: str | None, state: str | None) -> StatusAnswer | None:
    """Of the Stoker that runs; None: none does."""
    from stoker.cli.console.installation import find_running

    try:
        with find_running(config, state).control() as control:
            return control.status()
    except StokerError:
        return None


def machine() -> DeviceProbe:
    """This machine's accelerators."""
    from stoker.fleet.memory import devices

    return devices.machine()


def _of_path(target: str) -> list[tuple[Serve, Slot | None]]:
    from stoker.domain.serve import Serve
    from stoker.engines.record import Weights
    from stoker.engines.registry import those

    path = os.path.abspath(os.path.expanduser(target))
    kind = Weights.FOLDER if os.path.isdir(path) else Weights.GGUF
    engine = those(lambda one: one.weights is kind)[0]
    return [(Serve(os.path.basename(path), engine=engine, model=path, parallel=1), None)]


def _installed(target: str | None, config: str | None, state: str | None) -> list[tuple[Serve, Slot | None]]:
    """One serve or all that are started here: of the configuration, else of the Stoker that runs."""
    from stoker.cli.console.installation import find_installation
    from stoker.domain.cluster import runs_here
    from stoker.domain.serve import Driver

    try:
        installation = find_installation(config, state)
    except ConfigError as error:
        raise ConfigError([*error.problems, "or name a model: stoker fit PATH/TO/MODEL.gguf"]) from error
    settings = installation.settings
    if settings is None:
        return _running(installation, target)
    if target is not None:
        serves = [installation.serve(target)]
    else:
        serves = [s for s in settings.serves if s.driver is not Driver.EXTERNAL and runs_here(s, settings.slots)]
    return [(serve, settings.slot(serve.slot)) for serve in serves]


def _running(installation: Installation, target: str | None) -> list[tuple[Serve, Slot | None]]:
    """As /status shows them. It has neither `parallel`, for which `max_active` is taken, nor the type of the cache."""
    from stoker.cli.console.errors import unknown_serve
    from stoker.domain.serve import Driver, Serve, Slot, joined_slot

    try:
        with installation.control() as control:
            status = control.status()
    except NotRunning as error:
        raise NotRunning(f"{error.message}; or name a model: stoker fit PATH/TO/MODEL.gguf") from error
    if target is None:
        found = [one for one in status.serves if one.driver != Driver.EXTERNAL.value]
    elif (named := status.serve(target)) is not None:
        found = [named]
    else:
        raise unknown_serve(target, status.known_names(), "the running Stoker")
    slots = {one.name: Slot(one.name, tuple(one.devices), memory=one.memory) for one in status.slots if not one.cluster}
    places = [None if one.slot is None else joined_slot(one.slot, slots) for one in found]
    return [
        (Serve(one.name, engine=one.engine, model=one.model, slot=one.slot, context=one.context,
               parallel=one.max_active or 1), place)
        for one, place in zip(found, places, strict=True)
        if target is not None or one.slot is None or place is not None  # the others run in a cluster
    ]  # fmt: skip


def _changed(serve: Serve, context: int | None, parallel: int | None, cache_type: str | None) -> Serve:
    from dataclasses import replace

    _check_cache_type(cache_type)
    tuning = replace(serve.tuning, kv_cache_type=cache_type or serve.tuning.kv_cache_type)
    return replace(serve, context=context or serve.context, parallel=parallel or serve.parallel, tuning=tuning)


def _check_cache_type(cache_type: str | None) -> None:
    from stoker.fleet.memory.fit.estimate import CACHE_BYTES

    if cache_type is not None and cache_type not in CACHE_BYTES:
        raise UsageError(f"--cache-type {cache_type}: not known; one of {', '.join(CACHE_BYTES)}")


def _given(size: str | None) -> list[Device] | None:
    if size is None:
        return None
    from stoker.domain.units import parse_size
    from stoker.fleet.memory.devices import Device

    try:
        total = parse_size(size)
    except ValueError as error:
        raise UsageError(f"--device-memory {size}: {error}") from error
    return [Device(0, "given", f"a device of {figures.size(total)}", "", total, total)]


def _judge(serve: Serve, devices: list[Device], main: HostMemory, is_path: bool, place: str) -> FitReport:
    from dataclasses import replace

    from stoker.domain.errors import UnreadableModel
    from stoker.fleet.memory.fit import check

    if not serve.model:
        raise UnreadableModel(
            f"serve '{serve.name}' has no `model` that could be examined; what it takes is measured while it runs: "
            f"stoker serves status{place}"
        )
    shape = check.read(serve.model)
    if is_path and serve.context is None:
        serve = replace(serve, context=shape.context)
    return check.check_fit(serve, devices, main, shape)


def _start(serve: str, path: str | None, config: str | None, state: str | None) -> str:
    """The command that starts what fits."""
    if path:
        return f"stoker serves experiment --model {shlex.quote(path)} --port 8100"
    return f"stoker serves up {serve}{options.same_place(config, state)}"


def _show(names: list[str], judged: list[FitReport | str], unused: list[str], start: Callable[[str], str]) -> None:
    """`unused`: devices that do not count, and why. `start`: the command that starts a serve."""
    reports = [report for report in judged if not isinstance(report, str)]
    rows = [
        (
            report.serve, row.place, figures.size(row.need.weights), figures.size(row.need.cache),
            figures.size(row.need.overhead), figures.size(row.need.total), figures.size(row.fit.room),
            figures.size(row.free), str(row.fit.answer),
        )
        for report in reports
        for row in report.rows
    ]  # fmt: skip
    if rows:
        terminal.table(_COLUMNS, rows, right=_COLUMNS[2:8])
    for name, result, why in zip(names, judged, unused, strict=True):
        terminal.say()
        for line in [f"{name}: {result}"] if isinstance(result, str) else _sentences(result, why, start):
            terminal.say(line)


def _sentences(report: FitReport, unused: str, start: Callable[[str], str]) -> list[str]:
    from stoker.fleet.memory.fit.estimate import FitAnswer
    from stoker.fleet.memory.fit.rules import RemarkKind

    shape, plan, context = report.shape, report.plan, report.estimate.context
    size = f"{_count(shape.parameters)} parameters, " if shape.parameters else ""
    cache = f", KV cache in {plan.cache_type}" if plan.cache_type != "auto" else ""
    lines = [
        f"{report.serve}: {shape.architecture}, {size}{shape.precision}; {plan.parallel} x {context} tokens{cache}"
    ]
    lines += [f"  beside it: {', '.join(f'{name} {figures.size(size)}' for name, size in report.beside)}"] * bool(
        report.beside
    )
    lines += [f"  experts of {figures.counted(plan.cpu_moe, 'layer')} in main memory"] * bool(plan.cpu_moe)
    lines += [f"  not counted: {unused}"] if unused else []
    lines += [f"  assumed: {note}" for note in shape.notes]
    lines += [f"  {remark.kind}: {remark.says} ({remark.date})" for remark in report.remarks
              if remark.kind is not RemarkKind.UNSUPPORTED]  # fmt: skip
    lines += [f"  warning: {text}" for text in _warnings(report)]
    lines += [f"  refused: {problem}" for problem in report.problems]
    if report.context is not None:
        trained = " (the limit of the model)" if report.context == shape.context else ""
        lines.append(f"  largest context with {plan.parallel} at once: {report.context}{trained}")
    if report.parallel is not None:
        more = " or more" if report.parallel == _MAX_AT_ONCE else ""
        lines.append(f"  most at once with {context} tokens: {report.parallel}{more}")
    lines += [f"  fits with `{proposal.setting}`: {proposal.costs}" for proposal in report.proposals]
    if report.fit.answer is FitAnswer.UNKNOWN:
        lines.append("  next: give the size with --device-memory, or as `memory` of the serve")
    elif report.fit.answer is FitAnswer.TOO_LARGE:
        lines.append(f"  next: {_way_out(report)}")
    elif not report.problems:
        lines.append(f"  next: {start(report.serve)}")
    return lines


def _warnings(report: FitReport) -> list[str]:
    return [text for text in (f"context {report.caution}" if report.caution else "", report.crowding) if text]


def _count(number: int) -> str:
    return f"{number / 1e9:.1f} billion" if number >= 10**9 else f"{number / 1e6:.1f} million"


def _way_out(report: FitReport) -> str:
    if report.proposals:
        return "set " + ", or ".join(f"`{proposal.setting}`" for proposal in report.proposals[:2])
    if report.context is not None:
        return f"set `context = {report.context}`" + (
            f", or `parallel = {report.parallel}`" if report.parallel is not None else ""
        )
    if report.parallel is not None:
        return f"set `parallel = {report.parallel}`"
    return report.smaller or "take a smaller model, a smaller quantisation, or more devices"


def _document(serve: Serve, result: FitReport | str) -> dict[str, Any]:
    if isinstance(result, str):
        return {"serve": serve.name, "model": serve.model, "verdict": "unknown", "problems": [result]}
    return {
        "serve": serve.name,
        "model": serve.model,
        "format": result.shape.format,
        "architecture": result.shape.architecture,
        "precision": result.shape.precision,
        "parameters": result.shape.parameters,
        "context": result.estimate.context,
        "parallel": result.plan.parallel,
        "cache_type": result.plan.cache_type,
        "needed": result.needed,
        "places": [
            {
                "place": row.place, "weights": row.need.weights, "kv_cache": row.need.cache,
                "engine": row.need.overhead, "needed": row.need.total, "room": row.fit.room,
                "total": row.fit.total, "free": row.free, "verdict": row.fit.answer,
            }
            for row in result.rows
        ],
        "verdict": result.fit.answer,
        "short": result.fit.short,
        "largest_context": result.context,
        "largest_parallel": result.parallel,
        "smaller": result.smaller,
        "cpu_moe": result.plan.cpu_moe,
        "beside": dict(result.beside),
        "proposals": [{"setting": one.setting, "costs": one.costs} for one in result.proposals],
        "problems": list(result.problems),
        "warnings": _warnings(result),
        "remarks": [
            {"rule": r.rule, "kind": r.kind, "says": r.says, "date": str(r.date), "source": r.source}
            for r in result.remarks
        ],
        "notes": list(result.shape.notes),
    }  # fmt: skip
