"""`stoker doctor`: every part, how it is, and what to do about it."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED
from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.domain.errors import ConfigError, StokerError
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.cli.commands.read_again import ReadOptions
    from stoker.cli.console.answers import StatusAnswer
    from stoker.cli.machine.discover import InstalledEngine
    from stoker.domain.access import Settings
    from stoker.engines.masks import MachineCards
    from stoker.fleet.memory.devices import DeviceProbe


_WITHOUT_CONFIG = ("init", "import", "up --demo", "cluster up-example")
"""Commands that read no configuration file, or make one."""


def doctor(
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu",
            help="Instead: start a small model on each GPU, and compare what Stoker says of it with the driver. "
            "It takes a minute.",
        ),
    ] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Check every part of this machine. Each finding has its fix and the next command; exit 1 if one fails."""
    from stoker.cli.commands.read_again import ReadOptions

    if gpu:
        _prove_gpus(json)
        return
    config = _file(config)
    findings = [_at(finding, config) for finding in examine(ReadOptions(config))]
    if json:
        terminal.emit([dataclasses.asdict(finding) for finding in findings])
    else:
        shown = _together(findings)
        terminal.table(("", "PART", "FOUND"), [(f.health, f.part, f.detail) for f in shown])
        _advise(shown, options.same_place(config, None))
    if any(finding.health is DoctorHealth.FAIL for finding in findings):
        raise typer.Exit(FAILED)


def _file(config: str | None) -> str | None:
    """The configuration to look at: where there is none, that of the Stoker that runs, as for other commands."""
    from stoker.cli.console.installation import find_installation
    from stoker.config.find import find

    try:
        find(config)
    except ConfigError:
        with contextlib.suppress(StokerError):
            settings = find_installation(config).settings
            return config if settings is None else settings.source or config
    return config


def _prove_gpus(json: bool) -> None:
    from stoker.fleet.memory.devices import machine
    from stoker_setup.commands import doctor_gpu
    from stoker_setup.gpu_proof import ProofResult

    probe = machine()
    proofs = doctor_gpu.prove(probe, terminal.note)
    wrong = doctor_gpu.report(proofs, probe.devices())
    if json:
        terminal.emit([dataclasses.asdict(proof) for proof in proofs])
    else:
        rows = [(p.result, p.part, p.measured, p.expected, p.why) for p in proofs]
        terminal.table(("", "PART", "MEASURED", "EXPECTED", "WHY"), rows)
        if wrong:
            terminal.say("\nsomething differs from what Stoker expects; please report these lines:")
            for line in wrong:
                terminal.say(f"  {line}")
        elif any(proof.result is ProofResult.OK for proof in proofs):
            terminal.say("\nall as expected")
        else:
            terminal.say("\nnothing was proved; the column WHY says why")
    if wrong:
        raise typer.Exit(FAILED)


def examine(given: ReadOptions, demo: Settings | None = None) -> list[DoctorFinding]:
    """Every finding. Without a usable configuration: of this, and of the machine with the default places.
    `given`: the options that `up` was started with, or would be. `demo`: the settings of the demo that runs; no file is
    read then.
    """
    from stoker.cli.machine import discover
    from stoker.fleet.memory.cards import this_machine
    from stoker.fleet.memory.devices import in_main_memory, machine
    from stoker.fleet.memory.host import host_memory
    from stoker_setup.commands import doctor_checks, doctor_wsl

    settings, about = _configuration(given) if demo is None else _demo(demo)
    engines = discover.engines()
    probe, cards = machine(), this_machine()
    findings = [
        doctor_checks.python(),
        *doctor_checks.platform(),
        doctor_checks.accelerators(probe, host_memory(), in_main_memory()),
        *doctor_checks.cards(cards),
        about,
    ]
    if settings is None:
        from stoker.config.paths import default_state, default_vault

        findings += [doctor_checks.state_directory(default_state(), _pid(_running(default_state())))]
        findings += [doctor_checks.engines((), engines)]
        state, vault = default_state(), default_vault()
    else:
        findings += _configured(settings, engines, probe, cards)
        state, vault = Path(settings.paths.logs), Path(settings.paths.vault)
    findings += doctor_wsl.findings((vault, state), settings.serves if settings is not None else ())
    findings += [doctor_checks.disk("disk for the vault", vault, f"df -h {vault}")]
    findings += [doctor_checks.disk("disk for logs", state, f"df -h {state}")]
    docker = doctor_checks.containers(settings.serves if settings is not None else ())
    findings += [docker]
    if settings is not None and docker.health is DoctorHealth.OK:
        from stoker.app.configuration import placed_serves

        boxed = [serve for serve in placed_serves(settings) if serve.container is not None]
        findings += [found for serve in boxed if (found := doctor_checks.container(serve, settings.paths)) is not None]
    return [*findings, doctor_checks.completion(Path.home())]


def _configured(
    settings: Settings, engines: list[InstalledEngine], probe: DeviceProbe, cards: MachineCards
) -> list[DoctorFinding]:
    from stoker.cli.machine import discover
    from stoker.domain.cluster import runs_here
    from stoker.domain.serve import Driver
    from stoker.fleet.memory.host import host_memory
    from stoker_setup.commands import doctor_checks
    from stoker_setup.commands.fit import held_by_models

    state = Path(settings.paths.state)
    running = _running(state)
    here = [serve for serve in settings.serves if runs_here(serve, settings.slots)]
    started = [serve for serve in here if serve.driver is not Driver.EXTERNAL]
    process, main = _pid(running), host_memory(credit=held_by_models(running))
    return [
        doctor_checks.state_directory(state, process),
        doctor_checks.port(settings.front_door, process),
        doctor_checks.access(settings.front_door, None if running is None else running.frontdoor.auth == "keys"),
        doctor_checks.engines(here, engines),
        *(doctor_checks.weights(serve) for serve in here if doctor_checks.is_started_on_a_file(serve)),
        *(
            finding
            for serve in started
            if (finding := doctor_checks.fit(serve, settings.slot(serve.slot), probe, main)) is not None
        ),
        *(finding for serve in here if (finding := doctor_checks.serve(serve, settings.paths)) is not None),
        *([found] if (found := doctor_checks.images(settings.serves, settings.media)) is not None else []),
        *([found] if (found := doctor_checks.identities(settings.serves)) is not None else []),
        *([found] if (found := doctor_checks.suspended(settings.serves)) is not None else []),
        doctor_checks.stored_responses(settings.responses),
        *([found] if (found := doctor_checks.judge(running)) is not None else []),
        *([found] if (found := doctor_checks.sick(running)) is not None else []),
        *([found] if (found := doctor_checks.paused(running)) is not None else []),
        *([found] if (found := doctor_checks.yielding(settings.slots, probe)) is not None else []),
        doctor_checks.devices(settings, discover.gpus(), cards),
        *_of_extensions(settings),
    ]


def _of_extensions(settings: Settings) -> list[DoctorFinding]:
    """Also one for each extension that cannot be used."""
    from stoker.extensions import FAILURES, installed_extensions, load

    found: list[DoctorFinding] = []
    for installed in installed_extensions():
        problem = installed.problem
        if installed.extension is not None and installed.extension.doctor:
            try:
                found += load(installed.extension.doctor)(settings)
            except FAILURES as error:
                problem = f"{type(error).__name__}: {error}"
        if problem:
            fix = f"install another version of it, or remove it: pip uninstall {installed.package.split()[0]}"
            part = f"extension {installed.name}"
            found.append(
                DoctorFinding(part, DoctorHealth.WARN, f"{installed.package}: {problem}", fix, "stoker doctor")
            )
    return found


def _demo(settings: Settings) -> tuple[Settings, DoctorFinding]:

    return settings, DoctorFinding("configuration", DoctorHealth.OK, "the demo runs without a configuration file")


def _configuration(given: ReadOptions) -> tuple[Settings | None, DoctorFinding]:
    from stoker.cli.commands.read_again import overridden
    from stoker.cli.console.installation import config_warnings, load_beside_running
    from stoker.cli.console.uncounted import uncounted_warnings
    from stoker.cli.console.unmeasured import unmeasured_warnings
    from stoker.config.warnings import missing_weights

    part = "configuration"
    try:
        settings, missing = load_beside_running(given.config)
    except ConfigError as error:
        if given.config is None and "no configuration file" in error.message:
            found = DoctorFinding(part, DoctorHealth.WARN, error.message, "write a first one", "stoker init")
        else:
            found = DoctorFinding(
                part, DoctorHealth.FAIL, error.message, "correct each of these lines", "stoker config check"
            )
        return None, found
    settings = overridden(settings, given)
    of_weights = {f"serve '{name}': {text}" for name, text in missing_weights(settings).items()}
    said = [text for text in missing + config_warnings(settings) if text not in of_weights]  # they have their own part
    said += uncounted_warnings(settings)
    if not said and (unmeasured := unmeasured_warnings(settings)):
        return settings, DoctorFinding(
            part, DoctorHealth.WARN, f"{settings.source}: {unmeasured[0]}", "measure the tiers", "stoker eval bootstrap"
        )
    if said:
        detail = f"{settings.source}: " + "; ".join(said + unmeasured_warnings(settings))
        return settings, DoctorFinding(
            part, DoctorHealth.WARN, detail, "see docs/reference/configuration.md", "stoker config check"
        )
    number = len(settings.serves)
    detail = f"{settings.source}, {counted(number, 'serve')}"
    return settings, DoctorFinding(part, DoctorHealth.OK, detail)


def _running(state: Path) -> StatusAnswer | None:
    """What the Stoker says that answers on this state directory's socket."""
    from stoker.cli.console.control import Control
    from stoker.cli.console.installation import socket_of

    if not state.is_dir():
        return None
    try:
        with Control(socket_of(state)) as control:
            return control.status()
    except StokerError:
        return None  # nothing answers there: that is the finding


def _pid(running: StatusAnswer | None) -> int | None:
    return None if running is None else running.pid


def _at(finding: DoctorFinding, config: str | None) -> DoctorFinding:
    """The next command is about the configuration that was named."""
    program, _, command = finding.next.partition(" ")
    if config is None or program != "stoker" or command.startswith(_WITHOUT_CONFIG):
        return finding
    return dataclasses.replace(finding, next=finding.next + options.same_place(config, None))


def _together(findings: list[DoctorFinding]) -> list[DoctorFinding]:
    """One finding for the serves of which the same is said: they lack one program, for example."""
    alike: dict[tuple[str, ...], list[DoctorFinding]] = {}
    for finding in findings:
        kind, _, name = finding.part.partition(" ")
        is_of_serve = kind == "serve" and bool(name)
        alike.setdefault((kind, finding.health, finding.detail) if is_of_serve else (finding.part,), []).append(finding)
    return [
        same[0]
        if len(same) == 1
        else dataclasses.replace(
            same[0], part=f"serves {', '.join(one.part.removeprefix('serve ') for one in same)}",
            fix=same[0].fix.replace("the serve cannot start", "these serves cannot start"),
        )
        for same in alike.values()
    ]  # fmt: skip


def _advise(findings: list[DoctorFinding], place: str) -> None:

    wrong = [finding for finding in findings if finding.health is not DoctorHealth.OK]
    for finding in wrong:
        terminal.say(f"\n{finding.health}: {finding.part}: {finding.fix}\n  next: {finding.next}")
    if not wrong:
        following = next((finding.next for finding in findings if finding.next), "stoker up" + place)
        terminal.say(f"\nno problems; next: {following}")
