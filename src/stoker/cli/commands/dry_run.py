"""`--dry-run`: what would run, step by step. Reads the configuration and /status; changes nothing."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console import figures, terminal
from stoker.cli.console.errors import NotRunning, Refused, unknown_serve
from stoker.cli.console.installation import Place
from stoker.cli.console.loading import should_be_up

if TYPE_CHECKING:
    from stoker.cli.console.answers import ServeStatus, Status
    from stoker.domain.access import Paths
    from stoker.domain.serve import Serve

HIDDEN = "***"
KEY = "{key}"
"""Stands for the engine's own key, a new one at each start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one command would do to one serve. `request` is what the running Stoker would be asked."""

    serve: str
    steps: list[str]
    request: str
    command: str | None = None
    """The engine's command line, ready for a shell; None where nothing would start."""


def switch_plan(place: Place, names: list[str] | None, force: bool, drain_timeout: float | None) -> list[Plan]:
    """What bringing `names` up would do (None: what `serves up` picks). Raises UsageError for an unknown name."""
    status = _status(place)
    if names is None:
        if status is None:
            raise NotRunning(f"which serves would come up depends on what runs, and nothing does: {place.start}")
        names = should_be_up(place.settings, status)
    return [_switch(place, status, name, force, drain_timeout) for name in names]


def down_plan(place: Place, name: str | None, drain_timeout: float | None) -> list[Plan]:
    """What stopping `name` (None: everything loaded) would do."""
    status = _status(place)
    if status is None:
        raise NotRunning(f"nothing runs, so nothing would be stopped; start it: {place.start}")
    if name is None:
        chosen = [serve for serve in status.serves if not serve.is_gone]
    else:
        chosen = [_known(status, name)]
    plans = []
    for serve in chosen:
        body = {"serve": serve.name, "drain_timeout": drain_timeout}
        steps = [] if serve.is_gone else [_leave(serve, drain_timeout)]
        plans.append(Plan(serve.name, steps or ["nothing: it is stopped already"], _request("unload", body)))
    return plans


def show_plan(plans: list[Plan], as_json: bool) -> None:
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
    """What the fleet would start, as a shell would take it, environment in front; what looks secret is `***`.

    Without a port of its own the serve gets a free one at each start: the one shown is an example. Raises Refused,
    as the start would, if something that it needs is not there.
    """
    from stoker.cli.machine.ports import free_port
    from stoker.config.warnings import secret_variable, secret_words
    from stoker.fleet.engines.launch import Place as Start
    from stoker.fleet.engines.plan import plan, problems

    missing = problems(serve)
    if missing:
        raise Refused("; ".join(missing), code="not_startable")
    launch = plan(serve, Start(serve.port or free_port(), KEY))
    environment = {**serve.env, **launch.environment}
    words = [f"{name}={HIDDEN if secret_variable(name) else shlex.quote(value)}" for name, value in environment.items()]
    secret = secret_words(launch.argv)
    for index, word in enumerate(launch.argv):
        if index not in secret:
            words.append(word if word == KEY else shlex.quote(word))
        else:
            joined = f"{secret[index]}="
            words.append(joined + HIDDEN if word.startswith(joined) else HIDDEN)
    return " ".join(words)


def container_lines(serve: Serve, paths: Paths) -> list[str]:
    """The commands that a start of its container would run now, each as a shell would take it. Raises Refused."""
    import asyncio
    import logging

    from stoker.config.warnings import secret_words
    from stoker.domain.errors import StartFailed
    from stoker.fleet.drivers.compose import ContainerDriver
    from stoker.fleet.process.keys import Keys
    from stoker.fleet.process.signing import Signer

    key = Path(paths.state) / "signing.key"  # without it nothing was ever made by us, and any key will do
    keys = Keys(Signer(lambda: key.read_bytes() if key.exists() else bytes(32)))
    driver = ContainerDriver(paths, keys, logging.getLogger("stoker.fleet"), lambda: ())
    try:
        commands = asyncio.run(driver.plan(serve))
    except StartFailed as failure:
        raise Refused(failure.message, code="not_startable") from failure
    own_key = serve.key.reveal() if serve.key is not None else None
    hidden = [(words, secret_words(words)) for words in commands]
    return [
        shlex.join(HIDDEN if index in secret or word == own_key else word for index, word in enumerate(words))
        for words, secret in hidden
    ]


def _switch(place: Place, status: Status | None, name: str, force: bool, drain_timeout: float | None) -> Plan:
    running = _known(status, name) if status is not None else None
    configured = None
    if place.settings is not None:
        configured = next((s for s in place.settings.serves if name in s.names()), None)
        if configured is None and running is None:
            configured = place.serve(name)  # raises, naming the nearest
    own = running.name if running else configured.name if configured else name
    request = _request("switch", {"serve": own, "force": force, "drain_timeout": drain_timeout})
    if running is not None and running.state == "ready":
        return Plan(own, ["do nothing: it is ready already"], request)
    if configured is not None and configured.needs_force and not force:
        return Plan(own, [f"refuse: its status is {configured.status}; --force overrides that"], request)
    if configured is not None and place.settings is not None and place.settings.paths.placement:
        from stoker.fleet.engines.placement import placement_problems

        misplaced = placement_problems(configured, place.settings.paths.vault)
        if misplaced:
            return Plan(own, [f"refuse: {'; '.join(misplaced)}"], request)
    steps = [] if status is not None else [f"fail: nothing runs here; start it first: {place.start}"]
    victims = _in_the_way(status, running) if status is not None and running is not None else []
    if configured is not None and configured.base_url is None:
        steps.append(_check(place, configured, victims))
    steps += [_leave(victim, drain_timeout) for victim in victims]
    command = None
    for entry in configured.conflicts if configured is not None else ():
        if entry.startswith(("unit:", "container:")):
            steps.append(f"stop {entry.replace(':', ' ')} and keep it from coming back, if it is there")
    if configured is None:
        steps.append("start it (give --config to see the command)")
    elif configured.base_url is not None:
        steps.append(f"ask {configured.base_url} whether it is ready (it runs by itself)")
    else:
        try:
            if configured.container is not None and place.settings is not None:
                lines = container_lines(configured, place.settings.paths)
                steps += [f"run: {line}" for line in lines] or [f"leave container {configured.container}: it runs"]
                command = " && ".join(lines) or None
            elif configured.unit is not None:
                command = f"systemctl start {configured.unit}"
                steps.append(f"run: {command}")
            else:
                command = command_line(configured)
                steps.append(f"start: {command}")
        except Refused as error:
            return Plan(own, [f"refuse: {error.message}"], request)
    if configured is not None:
        canary = " and a one-token completion" if configured.canary else ""
        wanted = configured.served_name or configured.name
        limit = figures.seconds(configured.ready_timeout)
        steps.append(f"wait for GET {configured.health}, '{wanted}' in /v1/models{canary}, at most {limit}")
    if victims:
        baseline = _baseline(place, own, victims)
        steps.append(f"if it does not come up: start {' and '.join(v.name for v in victims)} again{baseline}")
    return Plan(own, steps, request, command)


def _check(place: Place, serve: Serve, victims: list[ServeStatus]) -> str:
    """What is looked at before anybody is touched, and what of it is known now."""
    looked = ["its command", "its weights"] if serve.model else ["its command"]
    looked += ["their sha256"] if serve.sha256 else []
    looked += ["what it `requires`"] if serve.requires != type(serve.requires)() else []
    before = f", before {' and '.join(v.name for v in victims)} is touched" if victims else ""
    return f"look whether it can start{before}: {', '.join([*looked, _memory(place, serve)])}"


def _memory(place: Place, serve: Serve) -> str:
    from stoker.fleet.memory.fit import check
    from stoker.fleet.memory.fit.shape import UnreadableModel
    from stoker.fleet.memory.host import host
    from stoker.fleet.memory.probe import machine

    slots = {slot.name: slot for slot in place.settings.slots} if place.settings is not None else {}
    try:
        report = check.examine(
            serve, check.devices_for(serve, slots.get(serve.slot or ""), machine().devices()), host()
        )
    except (UnreadableModel, OSError):
        return "memory (what it needs is unknown)"
    return f"memory (about {figures.size(report.needed)})"


def _baseline(place: Place, target: str, victims: list[ServeStatus]) -> str:
    """The last resort, where there is one."""
    slots = {slot.name: slot for slot in place.settings.slots} if place.settings is not None else {}
    known_good = slots[victims[0].slot].baseline if victims[0].slot in slots else None
    if known_good is None or known_good in (target, *(v.name for v in victims)):
        return ""
    return f", and if that fails too: {known_good}, the baseline"


def _in_the_way(status: Status, target: ServeStatus) -> list[ServeStatus]:
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


def _status(place: Place) -> Status | None:
    try:
        with place.control() as control:
            return control.status()
    except NotRunning:
        return None  # a plan without a running Stoker says so in its first step


def _known(status: Status, name: str) -> ServeStatus:
    found = status.serve(name)
    if found is None:
        raise unknown_serve(name, [s.name for s in status.serves], "the running Stoker")
    return found


def _request(action: str, body: object) -> str:
    return f"POST /admin/{action} {json.dumps(body)}"
