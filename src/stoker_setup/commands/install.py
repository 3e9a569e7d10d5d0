"""`stoker install`: Stoker as a service of this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import RequestRefused, UsageError, unknown_serve
from stoker.cli.console.hints import CommandsWithHints
from stoker.extensions import missing_because, offered
from stoker.system.identity import is_macos

if TYPE_CHECKING:
    import pwd

    from stoker.domain.access import Settings
    from stoker.fleet.systemd.units import InstallSite
    from stoker_setup.service_install import Changes

app = typer.Typer(cls=CommandsWithHints, help="Install Stoker as a service of this machine.", no_args_is_help=True)
ROOT = Path("/")


@app.command()
def systemd(
    config: options.Config = None,
    resident: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="SERVE",
            help="The serve to load at the next start. Default: the last resident of each slot.",
            autocompletion=options.serve_names,
            show_default=False,
        ),
    ] = None,
    start: Annotated[bool, typer.Option("--start", help="Start it now, and at every boot.")] = False,
    user: Annotated[bool, typer.Option("--user", help="Install into your own systemd, without root.")] = False,
    run_as: Annotated[
        str | None,
        typer.Option(
            "--run-as",
            metavar="NAME",
            help="Account that the services run as. Default: the user who typed `sudo`.",
            show_default=False,
        ),
    ] = None,
    route_sync: Annotated[
        bool,
        typer.Option("--route-sync", help="Only route sync, on a timer every 30 s, as root: its own units."),
    ] = False,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Install into the system under this directory.")
    ] = ROOT,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the units of this configuration.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also overwrite units that were changed by hand.")] = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Write systemd units for the front door, its watchdog and serves with driver systemd: all of them, or none."""
    if remove and (resident is not None or start):
        raise UsageError("--remove removes all units: leave out --profile and --start")
    if user and run_as is not None:
        raise UsageError("units of your own systemd run as you: leave out --run-as or --user")
    if start and root != ROOT:
        raise UsageError(f"units under {root} are not part of this system: leave out --start")
    if route_sync and (resident is not None or remove or run_as is not None):
        raise UsageError("--route-sync installs units of its own: leave out --profile, --run-as and --remove")
    from stoker_setup import service_install as install

    account = _account(user, run_as)
    settings = _settings(config, account)
    site = _site(settings, account, user)
    root = root.absolute()
    if route_sync:
        _require_edges(settings)
        _require_secrets(settings, site)
        changes = install.plan_route_sync(site, root, force, start)
    elif remove:
        changes = install.plan_removal(site, root, force)
    else:
        _require_secrets(settings, site)
        changes = install.plan(site, settings.serves, root, force, start)
    slot = _slot(settings, resident) if resident is not None else None
    if not dry_run:
        with _remembered(install.under(root, Path(site.state)), account, slot, resident):
            install.carry_out(changes, install.command)
    if json:
        terminal.emit(_document(changes, dry_run))
    else:
        _show_changes(changes, dry_run, remove, slot, resident)


@app.command()
def launchd(
    config: options.Config = None,
    resident: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="SERVE",
            help="The serve to load at the next start. Default: the last resident of each slot.",
            autocompletion=options.serve_names,
            show_default=False,
        ),
    ] = None,
    start: Annotated[bool, typer.Option("--start", help="Start it now, and at every login.")] = False,
    system: Annotated[
        bool, typer.Option("--system", help="Start it with the machine, before anybody logs in; needs `sudo`.")
    ] = False,
    run_as: Annotated[
        str | None,
        typer.Option(
            "--run-as",
            metavar="NAME",
            help="With --system: its account. Default: the user who typed `sudo`.",
            show_default=False,
        ),
    ] = None,
    root: Annotated[Path, typer.Option("--root", metavar="DIR", help="Write the files under this directory.")] = ROOT,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the services of this configuration.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also overwrite files that were changed by hand.")] = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Make Stoker a service of macOS: the front door and its watchdog. No Mac has run this yet: look at --dry-run."""
    if remove and (resident is not None or start):
        raise UsageError("--remove removes both services: leave out --profile and --start")
    if run_as is not None and not system:
        raise UsageError("services of your own run as you: add --system, or leave out --run-as")
    if start and root != ROOT:
        raise UsageError(f"files under {root} are not part of this system: leave out --start")
    if root == ROOT and not is_macos() and not dry_run:
        raise RequestRefused("launchd is macOS's: type `stoker install systemd`, or look at --dry-run")
    from stoker_setup import launchd as lists
    from stoker_setup import service_install as install

    account = _account(not system, run_as)
    settings = _settings(config, account)
    site, root = _site(settings, account, not system), root.absolute()
    uid, loaded = account.pw_uid, _is_loaded if root == ROOT and is_macos() else _is_never_loaded
    if remove:
        changes = lists.plan_removal(site, root, uid, loaded, force=force)
    else:
        _refuse_variables(settings)
        changes = lists.plan(site, settings.serves, settings.paths.logs, root, uid, loaded, force=force, start=start)
    slot = _slot(settings, resident) if resident is not None else None
    if not dry_run:
        with _remembered(install.under(root, Path(site.state)), account, slot, resident):
            if not remove and root == ROOT:  # launchd makes no directories
                with _as(account):
                    Path(settings.paths.logs).mkdir(parents=True, exist_ok=True)
            install.carry_out(changes, install.command)
    if json:
        terminal.emit(_document(changes, dry_run))
    else:
        _show_changes(changes, dry_run, remove, slot, resident)


def _is_loaded(service: str) -> bool:
    """Whether launchd has it now."""
    done = subprocess.run(("launchctl", "print", service), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0


def _is_never_loaded(service: str) -> bool:
    return False


def _refuse_variables(settings: Settings) -> None:
    """Raises RequestRefused: launchd has no files of variables, and its lists can be read by everybody."""
    if names := _variables(settings):
        raise RequestRefused(
            f"a service does not see your shell's variables {', '.join(names)}: write each into a file of its own, and "
            'point to it in the configuration: "file:PATH"',
            code="secrets_missing",
        )


def _require_edges(settings: Settings) -> None:
    """Raises UsageError: no edge has an ingress."""
    edges_of = offered("edges")
    if edges_of is None:
        raise UsageError(f"--route-sync needs the extension edge, {missing_because('edge')}")
    if not any(edge.ingress is not None for edge in edges_of(settings)):
        text = f"--route-sync needs an edge with an ingress, and {settings.source} has none: add an [edge.NAME]"
        raise UsageError(text, code="no_edge")


def _account(user: bool, run_as: str | None) -> pwd.struct_passwd:
    """The account that the services run as. Raises UsageError for an unknown name."""
    import pwd

    name = run_as or (None if user else os.environ.get("SUDO_USER"))
    if name is None:
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise UsageError(
            f"there is no user '{name}' on this machine: `useradd --system --create-home {name}`"
        ) from None


def _settings(config: str | None, account: pwd.struct_passwd) -> Settings:
    """The configuration as the service will read it: with that account's home, and with the service's secrets."""
    from stoker.config.find import find
    from stoker.config.load import load
    from stoker.fleet.systemd.syntax import read_environment

    if account.pw_uid != os.geteuid():
        os.environ["HOME"] = account.pw_dir
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            os.environ.pop(name, None)
    path = find(config).absolute()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for name, value in read_environment(path.with_name("stoker.env").read_text("utf-8")).items():
            os.environ.setdefault(name, value)
    return load(path)


def _site(settings: Settings, account: pwd.struct_passwd, user: bool) -> InstallSite:
    from stoker.fleet.systemd.units import InstallSite

    passed = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME") if os.environ.get(name)}
    return InstallSite(
        config=settings.source,
        state=settings.paths.state,
        stoker=(_program(),),
        user=None if user else account.pw_name,
        home=account.pw_dir,
        environment=passed,
        shutdown_grace=settings.front_door.shutdown_grace,
        host=settings.front_door.host,
        port=settings.front_door.port,
    )


def _program() -> str:
    """This very Stoker. Raises RequestRefused."""
    beside = Path(sys.executable).with_name("stoker")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("stoker")
    if found is None:
        raise RequestRefused(f"there is no `stoker` beside {sys.executable} or on PATH: install the package first")
    return found


def _require_secrets(settings: Settings, site: InstallSite) -> None:
    """Raises RequestRefused: a service does not have the environment of the shell that installs it."""
    names = _variables(settings)
    if not names:
        return
    path = Path(site.secrets_file)
    where = shlex.quote(str(path))
    try:
        text, mode = path.read_text("utf-8"), stat.S_IMODE(path.stat().st_mode)
    except OSError:
        text, mode = "", 0o600
    missing = [name for name in names if not re.search(rf"^\s*{name}=.", text, re.MULTILINE)]
    if missing:
        raise RequestRefused(
            f"a service does not see your shell's variables {', '.join(missing)}: write `{missing[0]}=...` into {path} "
            f"(first `install -m 600 /dev/null {where}`), or point to a file (file:PATH) in the configuration",
            code="secrets_missing",
        )
    if mode & 0o077:
        raise RequestRefused(f"{path} holds secrets and is open to other users: type `chmod 600 {where}`")


def _variables(settings: Settings) -> list[str]:
    """Those that hold secrets of the configuration."""
    from stoker.config.sections import extension_secrets

    keys = [key.value for key in settings.front_door.keys] + [s.key for s in settings.serves if s.key is not None]
    keys += [*extension_secrets(settings).values(), *(cluster.token for cluster in settings.clusters)]
    return sorted({key.source.removeprefix("env:") for key in keys if key.source.startswith("env:")})


def _slot(settings: Settings, resident: str) -> str:
    """Where the wanted serve lives. Raises UsageError."""
    serve = next((s for s in settings.serves if s.name == resident), None)
    if serve is None:
        raise unknown_serve(resident, (s.name for s in settings.serves), settings.source)
    if serve.slot is None:
        raise UsageError(f"'{resident}' has no slot: `keep_loaded = true` in the configuration starts it every time")
    if serve.needs_force:
        raise UsageError(f"'{resident}' is {serve.status}: {serve.reason or 'change its status'}; choose another serve")
    return serve.slot


@contextlib.contextmanager
def _remembered(state: Path, account: pwd.struct_passwd, slot: str | None, serve: str | None) -> Iterator[None]:
    """The wanted resident is on disk before the body, which may start the front door, and not any more if that fails.

    Raises StokerError.
    """
    if slot is None:
        yield
        return
    from stoker.store.active_residents import ActiveResidents
    from stoker.store.files.directories import unusable
    from stoker.store.state_dir import StateDir

    active = ActiveResidents(state / "active.json")
    try:
        with _as(account):
            StateDir(state).prepare()
            before = active.read().get(slot)
            active.write(slot, serve)
    except OSError as error:
        text = f"{state / 'active.json'} cannot be written ({error.strerror}): check its directory's owner"
        raise unusable(text) from error
    try:
        yield
    except BaseException:
        with _as(account):
            active.write(slot, before)
        raise


@contextlib.contextmanager
def _as(account: pwd.struct_passwd) -> Iterator[None]:
    """Files created inside belong to this account. Has an effect only for root."""
    before = (os.geteuid(), os.getegid())
    if before[0] != 0 or account.pw_uid == 0:
        yield
        return
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])


def _show_changes(changes: Changes, dry_run: bool, remove: bool, slot: str | None, resident: str | None) -> None:
    would = "would " if dry_run else ""
    if dry_run:
        for argv in changes.before:
            terminal.say(f"would run    {shlex.join(argv)}")
    for path, text in changes.files.items():
        verb = "remove" if text is None else "write"
        terminal.say(f"{would}{verb:<6} {path}" if dry_run else f"{'removed' if text is None else 'wrote':<7} {path}")
        if dry_run and text is not None:
            terminal.say("\n".join(f"    {line}".rstrip() for line in text.splitlines()))
    if not changes.files:
        terminal.say("nothing to remove" if remove else "every unit is up to date")
    if slot is not None:
        terminal.say(f"{resident} {'would run' if dry_run else 'will run'} in slot {slot} after the next start")
    for argv in changes.after:
        terminal.say(f"{'would run' if dry_run else 'ran':<9} {shlex.join(argv)}")
    for text in changes.notes:
        terminal.note(f"note: {text}")
    for argv in changes.next:
        terminal.say(f"next: {shlex.join(argv)}")


def _document(changes: Changes, dry_run: bool) -> dict[str, object]:
    return {
        "done": not dry_run,
        "files": {str(path): text for path, text in changes.files.items()},
        "before": [list(argv) for argv in changes.before],
        "after": [list(argv) for argv in changes.after],
        "notes": list(changes.notes),
        "next": [list(argv) for argv in changes.next],
    }
