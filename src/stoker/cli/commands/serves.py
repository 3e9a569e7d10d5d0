"""`stoker serves`: each serve of the configuration, as it is and as it should be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import NotRunning, RequestRefused, unknown_serve
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.serve import IDENTITY_NOT_PROVED, ServeIdentity

if TYPE_CHECKING:
    from stoker.cli.console.answers import ServeStatus

app = typer.Typer(cls=CommandsWithHints, help="Serves: the model servers of the configuration.", no_args_is_help=True)
options.accept_config(app)


@app.command()
def status(
    name: options.MaybeServe = None,
    config: options.Config = None,
    state: options.State = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Show state, health and load of all serves, or everything about one."""
    installation = find_installation(config, state)
    if dry_run:
        terminal.say(f"would ask GET /status on {installation.socket}; it changes nothing")
        return
    if name is not None:
        name = installation.running_name(name)
    with installation.control() as control:
        document, now = control.read_status()
    if json:
        terminal.emit([s for s in document.get("serves", []) if name in (None, s["name"], s.get("replica_of"))])
        return
    if now.draining:
        terminal.note(f"draining: no new requests are admitted; `stoker serves undrain{installation.place}` ends this")
    if now.capture:
        terminal.note("capture is on: what requests and answers say is kept in memory, for administrators")
    serves = [s for s in now.serves if name in (None, s.name, s.replica_of)]
    if not serves:
        terminal.say(
            f"no serves are configured; add one to the configuration, then `stoker reload{installation.place}`"
        )
        return
    columns = ("SERVE", "STATE", "SLOT", "STATUS", "ENGINE", "ACTIVE", "QUEUED", "UP", "MEMORY", "LOADS IN", "PORT")
    terminal.table(columns, [_row(s) for s in serves], right=("ACTIVE", "QUEUED", "UP", "MEMORY", "LOADS IN", "PORT"))
    for serve in serves:
        if serve.cannot_load:
            terminal.say(f"\n{serve.name} cannot load: {serve.cannot_load}")
            terminal.say(f"after fixing it: stoker serves up {serve.replica_of or serve.name}{installation.place}")
        elif serve.last_error:
            again = f" (next attempt in {figures.seconds(serve.backoff)})" if serve.backoff else ""
            terminal.say(f"\n{serve.name}, last failure{again}: {serve.last_error}")
        if serve.step:
            terminal.say(f"\n{serve.name} {serve.step}")
        if serve.watchdog and serve.watchdog.health == "sick":
            terminal.say(f"\n{serve.name} is sick: {serve.watchdog.details(False)}")
    for reason in dict.fromkeys(serve.paused for serve in serves if serve.paused):
        names = ", ".join(serve.name for serve in serves if serve.paused == reason)
        terminal.say(f"\nnot loaded while the slot is paused: {names}: {reason}")
    for edge in now.edges:
        if edge.problem:
            stays = f"stays at {edge.address}" if edge.address else "was not found"
            terminal.say(f"\nedge {edge.name} {stays}: {edge.problem}")
    if unproved := [serve.name for serve in serves if serve.identity == ServeIdentity.NONE]:
        terminal.say(f"\n{', '.join(unproved)}: {IDENTITY_NOT_PROVED}")
    for serve in serves if name is not None else ():
        if serve.how_to_try:
            up = f"stoker serves up {serve.name}{installation.place}"
            terminal.say(f"\n{serve.name} was not tried yet: {serve.how_to_try}, or `{up}`")
    if name is not None:
        _details(serves[0], installation.place)


def _row(serve: ServeStatus) -> tuple[str, ...]:
    about = "about " if serve.swap_seconds_assumed and serve.load_seconds is not None else ""
    return (
        serve.name,
        serve.shown_state,
        serve.slot or "-",
        serve.status,
        serve.engine,
        f"{serve.in_flight}/{serve.max_active}",
        str(serve.queued),
        figures.seconds(serve.uptime),
        figures.size(serve.memory if serve.measured is None else serve.measured),
        about + figures.seconds(serve.load_seconds),
        figures.number(serve.port),
    )


def _details(serve: ServeStatus, place: str) -> None:
    facts = {"model": serve.model, "served name": serve.served_name, "speaks": ", ".join(serve.dialects)}
    facts |= {"context": _context(serve, place), "pid": figures.number(serve.pid)}
    facts |= {key: str(value) for key, value in serve.facts.items()}
    terminal.say()
    for fact, value in facts.items():
        terminal.say(f"{fact:<14} {value or figures.UNKNOWN}")


def _context(serve: ServeStatus, place: str) -> str:
    if serve.context_problem:
        return f"none fits (auto): stoker fit {serve.name}{place}"
    seen = serve.facts.get("n_ctx") if serve.auto_context else None
    if serve.context is None and isinstance(seen, int):
        return f"{seen} tokens (auto)"  # chosen after the configuration was read, when the weights had arrived
    if serve.context is None:
        return "chosen when it starts (auto)" if serve.auto_context else ""
    return f"{serve.context} tokens{' (auto)' if serve.auto_context else ''}"


@app.command()
def up(
    name: options.MaybeServe = None,
    config: options.Config = None,
    state: options.State = None,
    force: options.Force = False,
    drain_timeout: options.DrainTimeout = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Load NAME and wait until it is ready. Without NAME: load every serve that fits without stopping another."""
    from stoker.cli.commands import serve_actions

    serve_actions.load(find_installation(config, state), name, force, drain_timeout, dry_run, json)


@app.command()
def down(
    name: options.MaybeServe = None,
    config: options.Config = None,
    state: options.State = None,
    drain_timeout: options.DrainTimeout = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Drain and stop NAME, or all serves. The next request for one starts it again."""
    from stoker.cli.commands import serve_actions

    serve_actions.unload(find_installation(config, state), name, drain_timeout, dry_run, json)


@app.command()
def drain(
    name: options.MaybeServe = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Stop admitting requests to NAME, or to all serves. Running requests end normally."""
    installation = find_installation(config, state)
    serve = installation.running_name(name) if name is not None else None
    with installation.control() as control:
        answer = control.drain(serve)
    if json:
        terminal.emit(answer)
    else:
        place = installation.place
        undo = f"stoker serves undrain {serve}{place}" if serve else f"stoker serves undrain{place}"
        terminal.say(f"{serve or 'everything'} drains: no new requests are admitted; undo it: {undo}")


@app.command()
def undrain(
    name: options.MaybeServe = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Admit requests to NAME, or to all serves, again."""
    installation = find_installation(config, state)
    serve = installation.running_name(name) if name is not None else None
    with installation.control() as control:
        answer = control.undrain(serve)
    if json:
        terminal.emit(answer)
    else:
        terminal.say(f"{serve or 'everything'} admits requests again")


@app.command()
def logs(
    name: options.ServeName,
    config: options.Config = None,
    state: options.State = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print further lines as they are written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines to print.")] = 50,
    json: options.Json = False,
) -> None:
    """Print the log of the engine. Also works if Stoker does not run."""
    from stoker.cli.commands import log_tail

    installation = find_installation(config, state)
    path = _log_of(installation, name)
    try:
        last, end = log_tail.last_lines(path, lines)
    except FileNotFoundError as error:
        if installation.settings is not None and installation.serve(name).base_url is not None:
            raise RequestRefused(f"{name} is external: look for its log where it runs", code="no_log") from error
        unit = installation.serve(name).unit if installation.settings is not None else None
        if unit is not None:
            raise RequestRefused(
                f"{name} runs as a unit: type `journalctl -u {unit} -n {lines}`", code="no_log"
            ) from error
        if reason := _cannot_load(installation, path.stem):
            raise RequestRefused(f"{name} has no log: it cannot load: {reason}", code="no_log") from error
        raise RequestRefused(
            f"{name} has not written a log yet ({path}); it starts with its first request or `stoker serves up "
            f"{name}{installation.place}`",
            code="no_log",
        ) from error
    if json:
        terminal.emit({"serve": path.stem, "path": str(path), "lines": last})
        return
    for line in last:
        terminal.say_log(line)
    if follow:
        try:
            for text in log_tail.follow(path, end):
                terminal.say_log(text, end="")
        except KeyboardInterrupt:
            return  # how one ends a log that is followed


def _cannot_load(installation: Installation, name: str) -> str | None:
    """Why the Stoker that runs here does not start the serve; None: it would, or none runs."""
    try:
        with installation.control() as control:
            return next((one.cannot_load for one in control.status().serves if one.name == name), None)
    except NotRunning:
        return None


def _log_of_serve(installation: Installation, name: str) -> Path:
    """That of the replica that is named; of a serve with several the one that was written to last."""
    from stoker.domain.serve import replica_names

    names = replica_names(installation.serve(name))
    logs = [installation.logs / f"{one}.log" for one in ((name,) if name in names else names)]
    written = [path for path in logs if path.exists()]
    return max(written, key=lambda path: path.stat().st_mtime, default=logs[0])


def _log_of(installation: Installation, name: str) -> Path:
    if installation.settings is not None:
        return _log_of_serve(installation, name)
    known = [p.name.removesuffix(".log") for p in installation.logs.glob("*.log")]
    if name not in known:
        raise unknown_serve(name, known, str(installation.logs))
    return installation.logs / f"{name}.log"
