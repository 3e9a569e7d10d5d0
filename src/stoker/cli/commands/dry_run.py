"""`--dry-run`: what would run, step by step. Reads the configuration and /status; changes nothing."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console import figures, terminal
from stoker.cli.console.errors import NotRunning, RequestRefused, unknown_serve
from stoker.cli.console.installation import Installation
from stoker.cli.console.loading import serves_to_load

if TYPE_CHECKING:
    from stoker.cli.console.answers import ServeStatus, StatusAnswer
    from stoker.domain.access import Paths
    from stoker.domain.serve import Serve

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


def switch_plan(
    installation: Installation, names: list[str] | None, force: bool, drain_timeout: float | None
) -> list[DryRunPlan]:
    """What bringing `names` up would do (None: what `serves up` picks). Raises UsageError for an unknown name."""
    status = _status(installation)
    if names is None:
        if status is None:
            raise NotRunning(
                "which serves would be loaded depends on the running Stoker, and none runs; start it: "
                f"{installation.start}"
            )
        names = serves_to_load(installation.settings, status)
    return [_switch(installation, status, name, force, drain_timeout) for name in names]


def down_plan(installation: Installation, name: str | None, drain_timeout: float | None) -> list[DryRunPlan]:
    """What stopping `name` (None: everything loaded) would do."""
    status = _status(installation)
    if status is None:
        raise NotRunning(f"Stoker does not run, so nothing would be stopped; start it: {installation.start}")
    if name is None:
        chosen = [serve for serve in status.serves if not serve.is_gone]
    else:
        chosen = [_known(status, name)]
    plans = []
    for serve in chosen:
        body = {"serve": serve.name, "drain_timeout": drain_timeout}
        steps = [] if serve.is_gone else [_leave(serve, drain_timeout)]
        plans.append(DryRunPlan(serve.name, steps or ["nothing: it is already stopped"], _request("unload", body)))
    return plans


def show_plan(plans: list[DryRunPlan], as_json: bool) -> None:
    """Print plans for people or programs."""
    if as_json:
        terminal.emit([{"serve": p.serve, "steps": p.steps, "command": p.command, "request": p.request} for p in plans])
        return
    if not plans:
        terminal.say("nothing would run")
    for plan in plans:
        terminal.say(f"{plan.serve}: would ask {plan.request}, which would")
        for number, step in enumerate(plan.steps, start=1):
            terminal.say(f"  {number}. {step}")


def command_line(serve: Serve) -> str:
    """The command that the fleet would start, as a shell line with its environment in front; secrets are `***`.

    A serve without a fixed port gets a free one at each start: the one shown is an example. Raises RequestRefused,
    as the start would, if something that the serve needs is missing.
    """
    from stoker.cli.machine.ports import free_port
    from stoker.config.warnings import is_secret_variable, secret_words
    from stoker.fleet.engines.launch import LaunchPlace as Start
    from stoker.fleet.engines.plan import plan, problems

    missing = problems(serve)
    if missing:
        raise RequestRefused("; ".join(missing), code="not_startable")
    launch = plan(serve, Start(serve.port or free_port(), KEY))
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
    import logging

    from stoker.config.warnings import secret_words
    from stoker.domain.errors import StartFailed
    from stoker.fleet.drivers.compose import ContainerDriver
    from stoker.fleet.process.keys import Keys
    from stoker.fleet.process.signing import KeySigner

    key = Path(paths.state) / "signing.key"  # without it nothing was ever made by us, and any key will do
    keys = Keys(KeySigner(lambda: key.read_bytes() if key.exists() else bytes(32)))
    driver = ContainerDriver(paths, keys, logging.getLogger("stoker.fleet"), lambda: ())
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
    running = _known(status, name) if status is not None else None
    configured = None
    if installation.settings is not None:
        configured = next((s for s in installation.settings.serves if name in s.names()), None)
        if configured is None and running is None:
            configured = installation.serve(name)  # raises, naming the nearest
    own = running.name if running else configured.name if configured else name
    request = _request("switch", {"serve": own, "force": force, "drain_timeout": drain_timeout})
    if running is not None and running.state == "ready":
        return DryRunPlan(own, ["do nothing: it is already ready"], request)
    if configured is not None and configured.needs_force and not force:
        return DryRunPlan(own, [f"refuse: its status is {configured.status}; --force overrides that"], request)
    if configured is not None and installation.settings is not None and installation.settings.paths.placement:
        from stoker.fleet.engines.placement import placement_problems

        misplaced = placement_problems(configured, installation.settings.paths.vault)
        if misplaced:
            return DryRunPlan(own, [f"refuse: {'; '.join(misplaced)}"], request)
    steps = [] if status is not None else [f"fail: Stoker does not run here; start it first: {installation.start}"]
    victims = _in_the_way(status, running) if status is not None and running is not None else []
    if configured is not None and configured.base_url is None:
        steps.append(_check(installation, configured, victims))
    steps += [_leave(victim, drain_timeout) for victim in victims]
    command = None
    for entry in configured.conflicts if configured is not None else ():
        if entry.startswith(("unit:", "container:")):
            steps.append(f"stop {entry.replace(':', ' ')} and disable it, if it exists")
    if configured is None:
        steps.append("start it (give --config to see the command)")
    elif configured.base_url is not None:
        steps.append(f"ask {configured.base_url} whether it is ready (it is external)")
    else:
        try:
            if configured.container is not None and installation.settings is not None:
                lines = container_lines(configured, installation.settings.paths)
                steps += [f"run: {line}" for line in lines] or [
                    f"leave container {configured.container} as it is: it runs"
                ]
                command = " && ".join(lines) or None
            elif configured.unit is not None:
                command = f"systemctl start {configured.unit}"
                steps.append(f"run: {command}")
            else:
                command = command_line(configured)
                steps.append(f"start: {command}")
        except RequestRefused as error:
            return DryRunPlan(own, [f"refuse: {error.message}"], request)
    if configured is not None:
        canary = " and a one-token completion" if configured.canary else ""
        wanted = configured.served_name or configured.name
        limit = figures.seconds(configured.ready_timeout)
        steps.append(f"wait for GET {configured.health}, '{wanted}' in /v1/models{canary}, at most {limit}")
    if victims:
        baseline = _baseline(installation, own, victims)
        steps.append(f"if it does not become ready: start {' and '.join(v.name for v in victims)} again{baseline}")
    return DryRunPlan(own, steps, request, command)


def _check(installation: Installation, serve: Serve, victims: list[ServeStatus]) -> str:
    """The checks before a swap, with what is already known."""
    looked = ["its command", "its weights"] if serve.model else ["its command"]
    looked += ["their sha256"] if serve.sha256 else []
    looked += ["what it `requires`"] if serve.requires != type(serve.requires)() else []
    before = f", before {' and '.join(v.name for v in victims)} is stopped" if victims else ""
    return f"check whether it can start{before}: {', '.join([*looked, _memory(installation, serve)])}"


def _memory(installation: Installation, serve: Serve) -> str:
    from stoker.fleet.memory.fit import check
    from stoker.fleet.memory.fit.shape import UnreadableModel
    from stoker.fleet.memory.host import host_memory
    from stoker.fleet.memory.probe import machine

    slots = {slot.name: slot for slot in installation.settings.slots} if installation.settings is not None else {}
    try:
        report = check.examine(
            serve, check.devices_for(serve, slots.get(serve.slot or ""), machine().devices()), host_memory()
        )
    except (UnreadableModel, OSError):
        return "memory (what it needs is unknown)"
    return f"memory (about {figures.size(report.needed)})"


def _baseline(installation: Installation, target: str, victims: list[ServeStatus]) -> str:
    """The baseline that would be loaded last, if there is one."""
    slots = {slot.name: slot for slot in installation.settings.slots} if installation.settings is not None else {}
    known_good = slots[victims[0].slot].baseline if victims[0].slot in slots else None
    if known_good is None or known_good in (target, *(v.name for v in victims)):
        return ""
    return f", and if that fails too: {known_good}, the baseline"


def _in_the_way(status: StatusAnswer, target: ServeStatus) -> list[ServeStatus]:
    """Who would have to go; in a slot with a memory budget, these or as few of them as the budget asks for."""
    slot = status.slot(target.slot)
    if slot is None:
        return []
    residents = [s for s in status.serves if s.name in slot.resident and s.name != target.name]
    if slot.memory is None:
        return residents
    free = slot.memory - sum(s.memory or 0 for s in residents)
    return [] if (target.memory or 0) <= free else residents


def _leave(serve: ServeStatus, drain_timeout: float | None) -> str:
    grace = "its slot's drain_timeout" if drain_timeout is None else figures.seconds(drain_timeout)
    pid = f" (pid {serve.pid})" if serve.pid else ""
    return f"drain {serve.name} ({serve.in_flight} in flight, at most {grace}), then stop it{pid}"


def _status(installation: Installation) -> StatusAnswer | None:
    try:
        with installation.control() as control:
            return control.status()
    except NotRunning:
        return None  # a plan without a running Stoker says so in its first step


def _known(status: StatusAnswer, name: str) -> ServeStatus:
    found = status.serve(name)
    if found is None:
        raise unknown_serve(name, [s.name for s in status.serves], "the running Stoker")
    return found


def _request(action: str, body: object) -> str:
    return f"POST /admin/{action} {json.dumps(body)}"
