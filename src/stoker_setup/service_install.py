"""The changes to this machine that make Stoker run as a service, or remove it again; and carrying them out: all files
change, or none.

`plan` and `plan_removal` read and decide; `carry_out` acts. A unit that was edited by hand is not overwritten unless
forced, and an operator's own unit is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.domain.errors import StokerError
from stoker.domain.serve import Driver, Serve
from stoker.engines import plan as engines
from stoker.fleet.systemd import units
from stoker.fleet.systemd.systemctl import failure
from stoker.fleet.systemd.units import (
    FRONT_DOOR,
    ROUTE_SYNC,
    ROUTE_SYNC_TIMER,
    SOCKET,
    TIMER,
    WATCHDOG,
    InstallSite,
    Origin,
)
from stoker.store.files import atomic


@contextlib.contextmanager
def changed_files(changes: Mapping[Path, str | None], mode: int = 0o644) -> Iterator[None]:
    """Write these texts (None: delete the file) and keep them, unless the body raises: then all is as it was before.

    Everything is written beside its place first, then renamed. Raises OSError; nothing has changed then. Directories
    that were made for it stay.
    """
    before = {path: _read(path) for path in changes}
    drafts: dict[Path, Path] = {}
    done: list[Path] = []
    try:
        for path, text in changes.items():
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                drafts[path] = atomic.write_draft(path, text.encode(), mode)
        for path in changes:
            if path in drafts:
                drafts[path].replace(path)
                del drafts[path]
            else:
                path.unlink(missing_ok=True)
            done.append(path)
        yield
    except BaseException:
        for path in drafts.values():
            path.unlink(missing_ok=True)
        for path in reversed(done):
            _restore(path, before[path], mode)
        raise


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _restore(path: Path, content: bytes | None, mode: int) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        atomic.write(path, content, mode)


ROOT = Path("/")
SYSTEM = Path("/etc/systemd/system")
RULES = Path("/etc/polkit-1/rules.d/50-stoker.rules")
UNIT_PATHS = (
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Directories for units of the system and its packages; a unit of Stoker's would hide one there."""
COMMAND_TIMEOUT = 180.0
"""Seconds that one command may take; a restart of the front door waits for its streams."""
Run = Callable[[Sequence[str]], None]


class InstallRefused(StokerError):
    """Nothing was changed; the message says what to do."""

    status = 409
    code = "refused"


@dataclass(frozen=True, slots=True)
class Changes:
    """Carried out in this order: `before`, the files, `after`. If a command fails, the files are restored and `undo`
    runs, whatever its result.
    """

    files: dict[Path, str | None] = field(default_factory=dict)
    """Path to its new text; None: it goes."""
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    undo: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    next: tuple[tuple[str, ...], ...] = ()
    """What is left to type."""


def plan(site: InstallSite, serves: Sequence[Serve], root: Path, force: bool, start: bool) -> Changes:
    """What installing under `root` changes. Raises InstallRefused with everything that stands in the way."""
    own = [serve for serve in serves if serve.driver is Driver.SYSTEMD]
    kept = {serve.unit: where for serve in own if (where := _owners(site, serve.unit or "", root)) is not None}
    written = [serve for serve in own if serve.unit not in kept]
    problems = [problem for serve in written for problem in engines.problems(serve)]
    wanted: dict[Path, str] = {}
    if not problems:
        try:
            wanted = _wanted(site, serves, written, own, root)
        except ValueError as error:
            problems.append(str(error))
    own_names = (ROUTE_SYNC, ROUTE_SYNC_TIMER)
    found = [path for path in _ours(site, root) if path.name not in own_names]
    gone = [path for path in found if path not in wanted] if wanted else []
    if not force:
        problems += [why for path in (*wanted, *gone) if (why := _in_the_way(site, path)) is not None]
    if problems:
        raise InstallRefused("; ".join(problems), code="cannot_install")
    changed: dict[Path, str | None] = {path: text for path, text in wanted.items() if text_of(path) != text}
    changed |= dict.fromkeys(gone)
    notes = [f"{unit} belongs to its owner ({where}): left as it is" for unit, where in sorted(kept.items())]
    return _with_commands(site, root, changed, notes, start)


def plan_route_sync(site: InstallSite, root: Path, force: bool, start: bool) -> Changes:
    """What installing the units of route sync changes; other units stay as they are. Raises InstallRefused."""
    where = directory(site, root)
    try:
        wanted = {where / name: text for name, text in units.render_route_sync(site).items()}
    except ValueError as error:
        raise InstallRefused(str(error), code="cannot_install") from None
    problems = [] if force else [why for path in wanted if (why := _in_the_way(site, path)) is not None]
    if problems:
        raise InstallRefused("; ".join(problems), code="cannot_install")
    changed: dict[Path, str | None] = {path: text for path, text in wanted.items() if text_of(path) != text}
    ours = systemctl(site)
    if root != ROOT:
        offline = ("systemctl", f"--root={root}", *(() if site.user is not None else ("--global",)))
        return Changes(changed, next=((*offline, "enable", ROUTE_SYNC_TIMER),))
    reload, enable = (*ours, "daemon-reload"), (*ours, "enable", "--now", ROUTE_SYNC_TIMER)
    if not start:
        return Changes(changed, (), (reload,) if changed else (), (reload,), next=(enable,))
    undo = (reload,) if (where / ROUTE_SYNC_TIMER).exists() else ((*ours, "disable", "--now", ROUTE_SYNC_TIMER), reload)
    return Changes(changed, (), (reload, enable), undo)


def plan_removal(site: InstallSite, root: Path, force: bool) -> Changes:
    """The changes that remove everything again. Raises InstallRefused for files that somebody edited, unless forced."""
    found = _ours(site, root)
    problems = [why for path in found if (why := _in_the_way(site, path)) is not None]
    if problems and not force:
        raise InstallRefused("; ".join(problems), code="cannot_remove")
    if root != ROOT or not found:
        return Changes(dict.fromkeys(found))
    ours = systemctl(site)
    names = [path.name for path in found if path.suffix != RULES.suffix]
    first = [name for name in (SOCKET, FRONT_DOOR, TIMER, WATCHDOG, ROUTE_SYNC_TIMER, ROUTE_SYNC) if name in names]
    serves = [name for name in names if name not in first]
    before = [(*ours, "disable", name) for name in (SOCKET, FRONT_DOOR, ROUTE_SYNC_TIMER) if name in names]
    before += [(*ours, "stop", *some) for some in (first, serves) if some]
    reload = ((*ours, "daemon-reload"),)
    note = "serves that Stoker started itself keep running: `stoker serves down`, before this, stops them"
    return Changes(dict.fromkeys(found), tuple(before), reload, reload, (note,))


def carry_out(changes: Changes, run: Run) -> None:
    """Do it. Raises StokerError with what failed; every file is then as it was before."""
    try:
        for argv in changes.before:
            run(argv)
        with changed_files(changes.files):
            for argv in changes.after:
                run(argv)
    except OSError as error:
        _undo(changes, run)
        path = error.filename or "a unit"
        text = f"nothing was installed: {path} cannot be written ({error.strerror})"
        raise InstallRefused(f"{text}: run the command with `sudo`, or with `--user`", code="cannot_install") from error
    except StokerError as error:
        _undo(changes, run)
        raise InstallRefused(f"every file was restored: {error.message}", code=error.code) from error


def command(argv: Sequence[str], timeout: float = COMMAND_TIMEOUT) -> None:
    """Run one command to its end. Raises StokerError with its output."""
    what = f"`{shlex.join(argv)}`"
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise StokerError(f"{what}: {error.strerror}", code="systemd_failed") from error
    except subprocess.TimeoutExpired as error:
        text = f"{what} was not done after {timeout:g} s: `systemctl list-jobs` shows what it waits for"
        raise StokerError(text, code="systemd_failed") from error
    if done.returncode != 0:
        raise StokerError(failure(what, done.returncode, done.stderr.decode("utf-8", "replace")), code="systemd_failed")


def systemctl(site: InstallSite) -> tuple[str, ...]:
    """The command that speaks to the systemd of this site."""
    return ("systemctl",) if site.user is not None else ("systemctl", "--user")


def directory(site: InstallSite, root: Path) -> Path:
    """Where the units go."""
    return under(root, SYSTEM if site.user is not None else units.user_directory(site.home))


def under(root: Path, path: Path) -> Path:
    """An absolute path, as it is called from outside of `root`."""
    return root / path.relative_to("/")


def _wanted(
    site: InstallSite, serves: Sequence[Serve], written: Sequence[Serve], own: Sequence[Serve], root: Path
) -> dict[Path, str]:
    """Path to text of every file that should exist. Raises ValueError."""
    where = directory(site, root)
    started = [serve for serve in serves if serve.driver is not Driver.SYSTEMD] + list(written)
    texts = {where / name: text for name, text in units.render(site, started).items()}
    if own and site.user not in (None, "root"):
        texts[under(root, RULES)] = units.rule(site, sorted(serve.unit or "" for serve in own))
    return texts


def _with_commands(
    site: InstallSite, root: Path, changed: dict[Path, str | None], notes: list[str], start: bool
) -> Changes:
    ours = systemctl(site)
    if root != ROOT:
        offline = ("systemctl", f"--root={root}", *(() if site.user is not None else ("--global",)))
        return Changes(changed, notes=tuple(notes), next=((*offline, "enable", SOCKET, FRONT_DOOR),))
    front_door = directory(site, root) / FRONT_DOOR
    reload = (*ours, "daemon-reload")
    verb = "restart" if front_door in changed else "start"
    steps: tuple[tuple[str, ...], ...] = ((*ours, "enable", SOCKET, FRONT_DOOR), (*ours, verb, FRONT_DOOR))
    is_moved = front_door.with_name(SOCKET) in changed
    if is_moved:  # the socket may change only while neither it nor the front door runs
        steps = (steps[0], *_stops(ours, front_door), (*ours, "start", FRONT_DOOR))
    lingering = () if site.user is not None else (("loginctl", "enable-linger"),)
    undo: tuple[tuple[str, ...], ...]
    if not front_door.exists():
        undo = ((*ours, "stop", SOCKET, FRONT_DOOR), (*ours, "disable", SOCKET, FRONT_DOOR), reload)
    else:
        undo = (reload, (*ours, "start", FRONT_DOOR)) if is_moved else (reload,)
    if start:
        return Changes(changed, (), (reload, *steps), undo, tuple(notes), lingering)
    return Changes(changed, (), (reload,) if changed else (), (reload,), tuple(notes), (*lingering, *steps))


def _stops(ours: tuple[str, ...], front_door: Path) -> tuple[tuple[str, ...], ...]:
    """What stops an installed front door."""
    names = [path.name for path in (front_door.with_name(SOCKET), front_door) if path.exists()]
    return ((*ours, "stop", *names),) if names else ()


def _undo(changes: Changes, run: Run) -> None:
    for argv in changes.undo:
        try:
            run(argv)
        except StokerError:
            continue  # report the first error


def _owners(site: InstallSite, unit: str, root: Path) -> Path | None:
    """The file of a unit that the operator wrote under another name; None: Stoker may write it."""
    if unit.startswith("stoker"):
        return None
    places = [directory(site, root), *(under(root, Path(other)) for other in UNIT_PATHS)]
    found = [place / unit for place in places if (place / unit).exists()]
    return found[0] if found and units.origin(text_of(found[0]) or "") is Origin.FOREIGN else None


def _ours(site: InstallSite, root: Path) -> list[Path]:
    where = directory(site, root)
    found = [path for kind in ("*.service", "*.socket", "*.timer") for path in sorted(where.glob(kind))]
    found += [under(root, RULES)] if site.user is not None else []
    return [path for path in found if units.source(text_of(path) or "") == site.config]


def _in_the_way(site: InstallSite, path: Path) -> str | None:
    if path.is_symlink():
        return f"{path} is a link to {os.readlink(path)}: type `systemctl unmask {path.name}`, or add --force"
    text = text_of(path)
    if text is None:
        return None
    origin = units.origin(text)
    if origin is Origin.FOREIGN:
        return f"{path} was not written by Stoker: move it away, or add --force to write over it"
    if origin is Origin.CHANGED:
        return (
            f"{path} was changed by hand: put the change into a drop-in (`systemctl edit {path.name}`), and add --force"
        )
    if (
        path.name in (FRONT_DOOR, SOCKET, WATCHDOG, TIMER, ROUTE_SYNC, ROUTE_SYNC_TIMER, RULES.name)
        and units.source(text) != site.config
    ):
        return f"{path} belongs to {units.source(text)}: remove that one first (--remove), or add --force"
    return None


def text_of(path: Path) -> str | None:
    """What a file says; empty if it cannot be read, None if it is not there."""
    try:
        return path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError):
        return ""
