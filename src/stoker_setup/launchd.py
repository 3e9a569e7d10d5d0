"""Stoker as a service of macOS: the property lists of launchd, and the changes that install or remove them.

As launchd.plist(5) and launchctl(1) describe them; no Mac has run this.
"""

from __future__ import annotations

import hashlib
import math
import plistlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stoker.domain.serve import Driver, Serve
from stoker.fleet.systemd import units
from stoker.fleet.systemd.units import InstallSite, Origin
from stoker_setup.service_install import ROOT, Changes, InstallRefused, text_of, under

FRONT_DOOR, WATCHDOG = "stoker.front-door", "stoker.watchdog"
LABELS = (FRONT_DOOR, WATCHDOG)
DAEMONS = Path("/Library/LaunchDaemons")
_SETTLE = 15
"""Seconds beyond the front door's own bounds until launchd kills it."""
_WATCH_EVERY = 60
_THROTTLE = 10
"""Seconds between two starts, launchd's own default: also what a configuration with a mistake costs."""
_FILES = 65536


def directory(site: InstallSite, root: Path) -> Path:
    """Of a user's own services, or of the system's."""
    return under(root, Path(site.home) / "Library/LaunchAgents" if site.user is None else DAEMONS)


def domain(site: InstallSite, uid: int) -> str:
    """What launchctl calls the services of this user, or of the system."""
    return f"gui/{uid}" if site.user is None else "system"


def render(site: InstallSite, serves: Sequence[Serve], logs: str) -> dict[str, str]:
    """The text of each list, by its label. Raises ValueError for a path that cannot be written down."""
    if "--" in site.config:
        raise ValueError(f"{site.config} cannot be named in a comment of XML: rename what has `--` in it")
    stops = max((serve.longest_stop for serve in serves), default=0.0)
    front_door: dict[str, Any] = {
        "ProgramArguments": [*site.stoker, "up", "--config", site.config, "--leave-running", "--resume"],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _THROTTLE,
        "ExitTimeOut": math.ceil(site.shutdown_grace + stops) + _SETTLE,
        # Engines outlive the front door, and are found again.
        "AbandonProcessGroup": True,
        "ProcessType": "Interactive",
        "SoftResourceLimits": {"NumberOfFiles": _FILES},
    }
    watchdog: dict[str, Any] = {
        "ProgramArguments": [*site.stoker, "watchdog", "--once", "--config", site.config],
        "StartInterval": _WATCH_EVERY,
        "ProcessType": "Background",
    }
    return {
        label: _sealed(plistlib.dumps({"Label": label, **own, **_shared(site, label, logs)}).decode(), site.config)
        for label, own in ((FRONT_DOOR, front_door), (WATCHDOG, watchdog))
    }


def _shared(site: InstallSite, label: str, logs: str) -> dict[str, Any]:
    output = str(Path(logs) / f"{label}.log")
    return {
        "WorkingDirectory": str(Path(site.config).parent),
        "EnvironmentVariables": dict(site.environment),
        "StandardOutPath": output,
        "StandardErrorPath": output,
        "Umask": 0o077,
        **({} if site.user is None else {"UserName": site.user}),
    }


def _sealed(text: str, config: str) -> str:
    """With a comment that says whose it is, as those of units: a later change is seen by it."""
    prolog, doctype, rest = text.split("\n", 2)
    whose = "# Written by `stoker install launchd`. Change the configuration, and type it again."
    head = f"{prolog}\n{doctype}\n<!--\n{whose}\n# Configuration: {config}\n"
    digest = hashlib.sha256(f"{head}-->\n{rest}".encode()).hexdigest()
    return f"{head}# stoker-sha256: {digest}\n-->\n{rest}"


def plan(
    site: InstallSite, serves: Sequence[Serve], logs: str, root: Path, uid: int, is_loaded: Callable[[str], bool],
    *, force: bool, start: bool,
) -> Changes:  # fmt: skip
    """What installing under `root` changes. Raises InstallRefused with everything that stands in the way. `is_loaded`:
    whether launchd has a service of this name (`gui/501/stoker.front-door`) now.
    """
    names = ", ".join(serve.name for serve in serves if serve.driver is Driver.SYSTEMD)
    problems = [f'{names}: launchd runs no units; remove driver = "systemd", and Stoker starts them'] if names else []
    where = directory(site, root)
    try:
        wanted = {where / f"{label}.plist": text for label, text in render(site, serves, logs).items()}
    except ValueError as error:
        raise InstallRefused(str(error), code="cannot_install") from None
    problems += [] if force else [why for path in wanted if (why := _in_the_way(site, path)) is not None]
    if problems:
        raise InstallRefused("; ".join(problems), code="cannot_install")
    changed: dict[Path, str | None] = {path: text for path, text in wanted.items() if text_of(path) != text}
    of = domain(site, uid)
    starts = tuple(("launchctl", "bootstrap", of, str(path)) for path in wanted)
    if root != ROOT:
        return Changes(changed)
    stops = tuple(("launchctl", "bootout", f"{of}/{label}") for label in LABELS if is_loaded(f"{of}/{label}"))
    if not start:
        return Changes(changed, next=(*(stops if changed else ()), *starts) if changed or not stops else ())
    if not changed and len(stops) == len(LABELS):
        return Changes()
    undo = tuple(("launchctl", "bootout", f"{of}/{label}") for label in LABELS)
    return Changes(changed, (), (*stops, *starts), undo)


def plan_removal(site: InstallSite, root: Path, uid: int, is_loaded: Callable[[str], bool], *, force: bool) -> Changes:
    """What removes it again. Raises InstallRefused for files that somebody edited, unless forced."""
    paths = [directory(site, root) / f"{label}.plist" for label in LABELS]
    found = [path for path in paths if units.source(text_of(path) or "") == site.config]
    problems = [why for path in found if (why := _in_the_way(site, path)) is not None]
    if problems and not force:
        raise InstallRefused("; ".join(problems), code="cannot_remove")
    of = domain(site, uid)
    loaded = [f"{of}/{path.stem}" for path in found if root == ROOT and is_loaded(f"{of}/{path.stem}")]
    note = "serves that Stoker started itself keep running: `stoker serves down`, before this, stops them"
    stops = tuple(("launchctl", "bootout", name) for name in loaded)
    return Changes(dict.fromkeys(found), stops, notes=(note,) if loaded else ())


def _in_the_way(site: InstallSite, path: Path) -> str | None:
    text = text_of(path)
    if text is None:
        return None
    origin = units.origin(text)
    if origin is Origin.FOREIGN:
        return f"{path} was not written by Stoker: move it away, or add --force to write over it"
    if origin is Origin.CHANGED:
        return f"{path} was changed by hand: add --force to write over it"
    if units.source(text) != site.config:
        return f"{path} belongs to {units.source(text)}: remove that one first (--remove), or add --force"
    return None
