"""`--dry-run`: what would run, step by step. Who would be stopped, the running scheduler says; nothing is changed."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from stoker.cli.console import figures, terminal
from stoker.cli.console.container_note import container_driver
from stoker.cli.console.errors import FAILED, NotRunning, RequestRefused, unknown_serve
from stoker.cli.console.installation import Installation
from stoker.domain.figures import counted
from stoker.domain.serve import IDENTITY_NOT_PROVED, ServeIdentity

if TYPE_CHECKING:
    from stoker.cli.console.answers import ServeStatus, StatusAnswer, SwitchPreview
    from stoker.domain.access import Paths
    from stoker.domain.serve import JobPlace, Serve
    from stoker.engines.launch import Rank

HIDDEN = "***"
KEY = "{key}"
"""Stands for the engine's own key, a new one at each start."""


@dataclass(frozen=True, slots=True)
class DryRunPlan:
    """What one command would do to one serve. `request` is what the running Stoker would be asked."""

    serve: str
    steps: list[str]
    request: str
    command: str | None = None
    """The engine's command line, ready for a shell; None where nothing would start."""
    fails: bool = False
    """The command would refuse, or fail, as it is given now."""
    victims: tuple[str, ...] = ()
    """Who would be stopped for it."""


def switch_plan(
    installation: Installation, names: list[str] | None, force: bool, drain_timeout: float | None
) -> list[DryRunPlan]:
    """What bringing `names` up would do (None: what `serves up` loads). Raises UsageError for an unknown name."""
    status = _status(installation)
    if names is None:
        names = _loadable(installation, is_running=status is not None)
    return [_switch(installation, status, name, force, drain_timeout) for name in names]


def down_plan(installation: Installation, name: str | None, drain_timeout: float | None) -> list[DryRunPlan]:
    """What stopping `name` (None: everything loaded) would do."""
    status = _status(installation)
    if status is None:
        raise NotRunning(f"Stoker does not run, so nothing would be stopped; start it: {installation.start}")
    if name is None:
        chosen = [serve for serve in status.serves if not serve.is_gone]
    else:
        chosen = status.replicas(name) or [_known(status, name)]
    plans = []
    for serve in chosen:
        body = {"serve": serve.name, "drain_timeout": drain_timeout}
        steps = [] if serve.is_gone else [_leave(status, serve, drain_timeout), *_stay(status, serve)]
        plans.append(DryRunPlan(serve.name, steps or ["nothing: it is already stopped"], _request("unload", body)))
    return plans


def show_plan(plans: list[DryRunPlan], as_json: bool, nothing: str) -> None:
    """Print plans for people or programs, or `nothing` if there are none. Raises typer.Exit(1) if one would fail."""
    if as_json:
        terminal.emit([_document(plan) for plan in plans])
    else:
        _print_plans(plans, nothing)
    if any(plan.fails for plan in plans):
        raise typer.Exit(FAILED)


def _document(plan: DryRunPlan) -> dict[str, object]:
    return {
        "serve": plan.serve, "steps": plan.steps, "victims": list(plan.victims), "command": plan.command,
        "request": plan.request,
    }  # fmt: skip


def _print_plans(plans: list[DryRunPlan], nothing: str) -> None:
    if not plans:
        terminal.say(nothing)
    for plan in plans:
        terminal.say(f"{plan.serve}: would ask {plan.request}, which would")
        for number, step in enumerate(plan.steps, start=1):
            terminal.say(f"  {number}. {step}")


def command_line(serve: Serve, rank: Rank | None = None) -> str:
    """The command that the fleet would start, as a shell line with its environment in front; secrets are `***`.

    A serve without a fixed port gets a free one at each start: the one shown is an example. Raises RequestRefused,
    as the start would, if something that the serve needs is missing.
    """
    from stoker.cli.machine.ports import free_port
    from stoker.config.secret_words import is_secret_variable, secret_words
    from stoker.engines.launch import LaunchPlace as Start
    from stoker.engines.plan import plan
    from stoker.fleet.supervision.start_problems import lasting

    missing = [] if serve.job_place is not None else lasting(serve)  # its node has what it needs, or has not
    if missing:
        raise RequestRefused("; ".join(missing), code="not_startable")
    launch = plan(serve, Start(serve.port or free_port(), KEY, rank=rank))
    environment = {**serve.env, **launch.environment}
    words = [
        f"{name}={HIDDEN if is_secret_variable(name) else shlex.quote(value)}" for name, value in environment.items()
    ]
    secret = secret_words(launch.argv)
    for index, word in enumerate(launch.argv):
        if index not in secret:
            words.append(word if word == KEY else shlex.quote(word))
        else:
            joined = f"{secret[index]}="
            words.append(joined + HIDDEN if word.startswith(joined) else HIDDEN)
    return " ".join(words)


def container_lines(serve: Serve, paths: Paths) -> list[str]:
    """The commands that would start its container now, each as a shell line. Raises RequestRefused."""
    import asyncio

    from stoker.config.secret_words import secret_words
    from stoker.domain.errors import StartFailed
    from stoker.domain.serve import Secret

    driver = container_driver(paths)
    if serve.key is not None and not serve.key.is_readable:
        serve = replace(serve, key=Secret(HIDDEN, serve.key.source))
    try:
        commands = asyncio.run(driver.plan(serve))
    except StartFailed as failure:
        raise RequestRefused(failure.message, code="not_startable") from failure
    own_key = serve.key.reveal() if serve.key is not None else None
    hidden = [(words, secret_words(words)) for words in commands]
    return [
        shlex.join(HIDDEN if index in secret or word == own_key else word for index, word in enumerate(words))
        for words, secret in hidden
    ]


def _switch(
    installation: Installation, status: StatusAnswer | None, name: str, force: bool, drain_timeout: float | None
) -> DryRunPlan:
    """1. nothing to do, or a refusal  2. checks and stops  3. the start  4. the proof, and the way back"""
    running = _known(status, name) if status is not None else None
    configured = _configured(installation, name, is_known=running is not None)
    own = running.name if running else configured.name if configured else name
    request = _request("switch", {"serve": own, "force": force, "drain_timeout": drain_timeout})
    preview = _preview(installation, own, force) if running is not None else None
    if (end := _end_at_once(installation, preview, configured, force)) is not None:  # 1
        return DryRunPlan(own, [end], request, fails=end.startswith("refuse: "))
    steps = [] if status is not None else [f"fail: Stoker does not run here; start it first: {installation.start}"]
    if preview is not None and preview.waits:
        steps.append("wait until what starts or stops in its slot now is done; who has to stop then shows")
    found = [] if preview is None or status is None else [status.serve(name) for name in preview.victims]
    victims = [one for one in found if one is not None]
    if configured is not None and configured.base_url is None:  # 2
        steps.append(_check(installation, configured, victims))
    steps += [_leave(status, victim, drain_timeout, _may_sleep(installation, victim)) for victim in victims]
    steps += _stop_conflicts(configured)
    try:
        is_asleep = running is not None and running.temperature == "asleep"
        start, command = _wakes() if is_asleep else _start(installation, configured)  # 3
    except RequestRefused as error:
        return DryRunPlan(own, [f"refuse: {error.message}"], request, fails=True)
    steps += start
    if configured is not None:  # 4
        steps.append(_wait_ready(configured))
    if status is not None and running is not None:
        steps += _stay(status, running)
    if victims:
        baseline = _baseline(installation, own, victims)
        steps.append(f"if it does not become ready: start {' and '.join(v.name for v in victims)} again{baseline}")
    return DryRunPlan(own, steps, request, command, status is None, tuple(victim.name for victim in victims))


def _configured(installation: Installation, name: str, is_known: bool) -> Serve | None:
    """As the fleet gets it, with its slot's devices. None: only the running Stoker knows it. Raises UsageError if it is
    not known at all.
    """
    from stoker.app.configuration import placed_serves

    if installation.settings is None:
        return None
    found = next((s for s in placed_serves(installation.settings) if name in s.names()), None)
    return installation.serve(name) if found is None and not is_known else found


def _end_at_once(
    installation: Installation, preview: SwitchPreview | None, configured: Serve | None, force: bool
) -> str | None:
    """What the running Stoker says goes first: it may know another configuration."""
    if preview is not None and preview.ready:
        return "do nothing: it is already ready"
    if preview is not None and preview.refusal is not None:
        return f"refuse: {preview.refusal.message}"
    if configured is not None and configured.needs_force and not force:
        return f"refuse: its status is {configured.status}; --force overrides that"
    if configured is not None and installation.settings is not None and installation.settings.paths.placement:
        from stoker.engines.placement import placement_problems

        if misplaced := placement_problems(configured, installation.settings.paths.vault):
            return f"refuse: {'; '.join(misplaced)}"
    return None


def _stop_conflicts(serve: Serve | None) -> list[str]:
    entries = serve.conflicts if serve is not None else ()
    return [
        f"stop {entry.replace(':', ' ')} and disable it, if it exists"
        for entry in entries
        if entry.startswith(("unit:", "container:"))
    ]


def _start(installation: Installation, serve: Serve | None) -> tuple[list[str], str | None]:
    """The steps of the start, and its command line if there is one. Raises RequestRefused."""
    if serve is None:
        return ["start it (give --config to see the command)"], None
    if serve.base_url is not None:
        return [f"ask {serve.base_url} whether it is ready (it is external)"], None
    if serve.container is not None and installation.settings is not None:
        lines = container_lines(serve, installation.settings.paths)
        as_it_is = [f"leave container {serve.container} as it is: it runs"]
        return [f"run: {line}" for line in lines] or as_it_is, " && ".join(lines) or None
    if serve.unit is not None:
        command = f"systemctl start {serve.unit}"
        return [f"run: {command}"], command
    if (place := serve.job_place) is not None:
        return _submits(serve, place)
    if (there := serve.box_place) is not None:
        return [f"ask box '{there.box}' to load serve '{there.serve}' in its slot '{there.slot}', by its rules"], None
    command = command_line(_as_started(installation, serve))
    return [f"start: {command}"], command


def _wakes() -> tuple[list[str], str | None]:
    return ["wake it: it sleeps, and its process goes on"], None


def _may_sleep(installation: Installation, serve: ServeStatus) -> bool:
    """Whether it keeps its process when it makes room for another one."""
    configured = _configured(installation, serve.replica_of or serve.name, is_known=True)
    return configured is not None and configured.sleep_level is not None


def _submits(serve: Serve, place: JobPlace) -> tuple[list[str], str]:
    """One step per rank, and the command of rank 0."""
    from stoker.cli.machine.ports import free_port
    from stoker.engines.launch import Rank

    if not place.others:
        command = command_line(replace(serve, host="NODE"))
        return [f"submit to cluster '{place.cluster}', as a job with {_gpus(place)}: {command}"], command
    meets_at, ports = free_port(), serve.port or free_port()
    steps, commands = [], []
    for number, one in enumerate(place.ranks()):
        on_node = replace(serve, host=f"NODE{number}", port=ports)
        commands.append(command_line(on_node, Rank(number, len(place.ranks()), "NODE0", meets_at)))
        steps.append(f"submit to cluster '{place.cluster}', as rank {number} with {_gpus(one)}: {commands[-1]}")
    return steps, commands[0]


def _gpus(place: JobPlace) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(place.labels.items()))
    return f"{counted(place.gpus, 'GPU')} of {f'a node with {labels}' if labels else 'any node'}"


def _wait_ready(serve: Serve) -> str:
    canary = " and a one-token completion" if serve.canary else ""
    limit = figures.seconds(serve.ready_timeout)
    paths = [f"GET {path}" for path in (serve.health, serve.probe) if path is not None]
    if serve.identity is ServeIdentity.MODELS:
        what = ", ".join([*paths, f"'{serve.served_name or serve.name}' in /v1/models"])
        return f"wait for {what}{canary}, at most {limit}"
    what = ", ".join(paths) or "a connection to its port"
    return f"wait for {what}{canary}, at most {limit}; {IDENTITY_NOT_PROVED}"


def _check(installation: Installation, serve: Serve, victims: list[ServeStatus]) -> str:
    """The checks before a swap, with what is already known."""
    before = f", before {' and '.join(v.name for v in victims)} is stopped" if victims else ""
    if (place := serve.job_place) is not None:
        gpus = " and ".join(_gpus(one) for one in place.ranks())
        return f"check whether it can start{before}: cluster '{place.cluster}' and its token, {gpus}"
    if (there := serve.box_place) is not None:
        return f"ask box '{there.box}' for serve '{there.serve}' in its slot '{there.slot}'; wake it if it sleeps"
    looked = ["its command", "its weights"] if serve.model else ["its command"]
    looked += ["their sha256"] if serve.sha256 else []
    looked += ["what it `requires`"] if serve.requires != type(serve.requires)() else []
    return f"check whether it can start{before}: {', '.join([*looked, _memory(installation, serve)])}"


def _as_started(installation: Installation, serve: Serve) -> Serve:
    """With what would be chosen at its start."""
    if not serve.has_open_choices:
        return serve
    from stoker.domain.errors import UnreadableModel
    from stoker.fleet.memory.devices import machine
    from stoker.fleet.memory.fit import check
    from stoker.fleet.memory.host import host_memory

    slot = installation.settings.slot(serve.slot) if installation.settings is not None else None
    try:
        return check.with_choices(serve, slot, machine().devices(), host_memory())
    except UnreadableModel:
        return serve  # the command says the rest


def _memory(installation: Installation, serve: Serve) -> str:
    from stoker.domain.errors import UnreadableModel
    from stoker.fleet.memory.devices import machine
    from stoker.fleet.memory.fit import check
    from stoker.fleet.memory.host import host_memory

    slot = installation.settings.slot(serve.slot) if installation.settings is not None else None
    try:
        report = check.check_fit(serve, check.devices_for(serve, slot, machine().devices()), host_memory())
    except (UnreadableModel, OSError):
        return "memory (what it needs is unknown)"
    chosen = f', with context "auto" = {serve.context} tokens' if serve.auto_context and serve.context else ""
    return f"memory (about {figures.size(report.needed)}{chosen})"


def _baseline(installation: Installation, target: str, victims: list[ServeStatus]) -> str:
    slot = installation.settings.slot(victims[0].slot) if installation.settings is not None else None
    known_good = slot.baseline if slot is not None else None
    if known_good is None or known_good in (target, *(v.name for v in victims)):
        return ""
    return f", and if that fails too: {known_good}, the baseline"


def _stay(status: StatusAnswer, serve: ServeStatus) -> list[str]:
    """An operator's switch or stop cancels the return of a slot to its `idle_serve`."""
    return [
        f"stay: {slot.name} does not return to {slot.idle_serve}, its idle_serve, before a request loads another serve"
        for slot in status.slots_of(serve)
        if slot.idle_serve not in (None, serve.name)
    ]


def _leave(
    status: StatusAnswer | None, serve: ServeStatus, drain_timeout: float | None, may_sleep: bool = False
) -> str:
    grace = "its slot's drain_timeout" if drain_timeout is None else figures.seconds(drain_timeout)
    end = "put it to sleep, or stop it if the warm pool has no room" if may_sleep else "stop it"
    pid = f" (pid {serve.pid})" if serve.pid else ""
    slots = status.slots_of(serve) if status is not None else []
    cost = next((slot.evict_costs[serve.name] for slot in slots if serve.name in slot.evict_costs), None)
    costs = "" if cost is None else f"; evict cost {cost:g}"
    return f"drain {serve.name} ({serve.in_flight} in flight, at most {grace}), then {end}{pid}{costs}"


def _preview(installation: Installation, name: str, force: bool) -> SwitchPreview:
    with installation.control() as control:
        return control.preview(name, force)


def _loadable(installation: Installation, is_running: bool) -> list[str]:
    """What `serves up` loads: the running scheduler knows, else one that has the configuration and nothing loaded."""
    if is_running:
        with installation.control() as control:
            return control.loadable()
    if installation.settings is None:
        raise NotRunning(f"Stoker does not run, and no configuration was given; start it: {installation.start}")
    from stoker.app.configuration import placed_serves, placed_slots
    from stoker.fleet.supervision import start_problems
    from stoker.request.lease.preview import loadable, unchecked_loadable
    from stoker.request.lease.scheduler import Scheduler

    serves = {serve.name: serve for serve in placed_serves(installation.settings)}
    scheduler = Scheduler(placed_slots(installation.settings), serves.values())
    for new in unchecked_loadable(scheduler):
        for name in new:
            if problems := start_problems.lasting(serves[name]):
                scheduler.on_cannot_load(name, 0.0, "; ".join(problems))
    return loadable(scheduler)


def _status(installation: Installation) -> StatusAnswer | None:
    try:
        with installation.control() as control:
            return control.status()
    except NotRunning:
        return None  # a plan without a running Stoker says so in its first step


def _known(status: StatusAnswer, name: str) -> ServeStatus:
    found = status.serve(name)
    if found is None:
        raise unknown_serve(name, status.known_names(), "the running Stoker")
    return found


def _request(action: str, body: object) -> str:
    return f"POST /admin/{action} {json.dumps(body)}"
