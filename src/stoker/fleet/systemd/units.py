"""The text of every unit. Nothing here reads or writes files; no unit holds a secret.

The front door is one unit, each serve with `driver = "systemd"` is another, so that either can be restarted alone. Only
the front door starts at boot: it then starts the serves that were resident, so two models never load at once.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from stoker.domain.serve import Driver, Serve
from stoker.engines.launch import Launch, LaunchPlace
from stoker.engines.plan import plan
from stoker.fleet.systemd import syntax

FRONT_DOOR = "stoker.service"
SOCKET = "stoker.socket"
WATCHDOG = "stoker-watchdog.service"
TIMER = "stoker-watchdog.timer"
ROUTE_SYNC = "stoker-route-sync.service"
ROUTE_SYNC_TIMER = "stoker-route-sync.timer"
KEY_VARIABLE = "STOKER_UNIT_KEY"
"""Stands for the engine's key in a unit's command line; the environment file of each start has the key."""
_KEY = f"${{{KEY_VARIABLE}}}"
_SHARED = ("LimitNOFILE=65536", "LimitMEMLOCK=infinity", "UMask=0077")
_BACKLOG = 2048
"""Clients that may wait while the front door restarts."""
_SETTLE = 15
"""Seconds beyond the front door's own bounds until systemd kills it."""
_SEAL = re.compile(r"^(#|//) stoker-sha256: ([0-9a-f]{64})\n", re.MULTILINE)
_SOURCE = re.compile(r"^(?:#|//) Configuration: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InstallSite:
    """Where and as whom the services run. Paths are absolute."""

    config: str
    state: str
    stoker: tuple[str, ...]
    """The program's own command line, without arguments."""
    user: str | None = None
    """None: units of the user's own systemd."""
    home: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the front door has in its environment; no secrets."""
    shutdown_grace: float = 30.0
    host: str = "127.0.0.1"
    port: int = 8000
    """Where the front door listens."""

    @property
    def secrets_file(self) -> str:
        """Where operators put secrets for `env:NAME`."""
        return str(Path(self.config).with_name("stoker.env"))


class Origin(Enum):
    """Whose a file on disk is."""

    OURS = "ours"
    CHANGED = "changed"
    """Stoker wrote it, and somebody edited it."""
    FOREIGN = "foreign"


def environment_file(state: str | Path, serve: str) -> Path:
    """The environment file of a serve's unit; rewritten before each start."""
    return Path(state) / "units" / f"{serve}.env"


def user_directory(home: str | Path) -> Path:
    """Where the units of a user's own systemd lie."""
    return Path(home) / ".config" / "systemd" / "user"


def planned(serve: Serve) -> Launch:
    """The serve's command line as its unit has it, the key left out. Raises OurBug where it has no fixed port."""
    return plan(serve, LaunchPlace(serve.port or 0, _KEY))


def exec_start(argv: Sequence[str]) -> str:
    """The one line of a serve's unit that says what runs. Raises ValueError."""
    return f"ExecStart={syntax.command(argv, (KEY_VARIABLE,))}"


def render(site: InstallSite, serves: Sequence[Serve]) -> dict[str, str]:
    """Every unit of this configuration, by name. Call it only when `engines.plan.problems` finds nothing.

    Raises ValueError for what systemd has no way to write down.
    """
    texts = {FRONT_DOOR: _front_door(site, serves), SOCKET: _socket(site), WATCHDOG: _watchdog(site), TIMER: _timer()}
    for serve in serves:
        if serve.driver is Driver.SYSTEMD:
            unit = serve.unit or ""
            if not syntax.is_unit(unit) or not unit.endswith(".service"):
                raise ValueError(f"'{unit}' of serve '{serve.name}' cannot be the name of a unit: write NAME.service")
            texts[unit] = _serve(site, serve)
    return {name: sealed(text, site.config) for name, text in texts.items()}


def render_route_sync(site: InstallSite) -> dict[str, str]:
    """The units of route sync alone: it may run where no front door does. Raises ValueError."""
    texts = {ROUTE_SYNC: _route_sync(site), ROUTE_SYNC_TIMER: _route_sync_timer()}
    return {name: sealed(text, site.config) for name, text in texts.items()}


def rule(site: InstallSite, units: Sequence[str]) -> str:
    """The polkit rule that lets the front door's user start and stop these units, and no other."""
    text = f"""\
polkit.addRule(function (action, subject) {{
    if (action.id == "org.freedesktop.systemd1.manage-units" && subject.user == {json.dumps(site.user)} &&
        {json.dumps(list(units))}.indexOf(action.lookup("unit")) >= 0) {{
        return polkit.Result.YES;
    }}
}});
"""
    return sealed(text, site.config, "//")


def sealed(text: str, config: str, mark: str = "#") -> str:
    """`text` under a header that says whose it is, and by which a later change is seen."""
    first = (
        f"{mark} Written by `stoker install systemd`. Change the configuration and type it again, or use a drop-in.\n"
    )
    head = f"{first}{mark} Configuration: {config}\n"
    return f"{head}{mark} stoker-sha256: {_digest(head + text)}\n{text}"


def origin(text: str) -> Origin:
    """Whose this is, by its header."""
    found = _SEAL.search(text)
    if found is None:
        return Origin.FOREIGN
    return Origin.OURS if _digest(text[: found.start()] + text[found.end() :]) == found[2] else Origin.CHANGED


def source(text: str) -> str | None:
    """The configuration that it was written from."""
    found = _SOURCE.search(text)
    return found[1] if found is not None else None


def _front_door(site: InstallSite, serves: Sequence[Serve]) -> str:
    stops = max((serve.longest_stop for serve in serves), default=0.0)
    up = (*site.stoker, "up", "--config", site.config, "--leave-running", "--resume")
    return _lines(
        "",
        "[Unit]",
        "Description=Stoker: the front door of the model serves",
        *(() if site.user is None else ("Wants=network-online.target", "After=network-online.target")),
        f"Wants={TIMER}",
        "# The socket stays open while the front door restarts: clients wait instead of being refused.",
        f"Requires={SOCKET}",
        f"After={SOCKET}",
        "StartLimitIntervalSec=60",
        "StartLimitBurst=20",
        "",
        "[Service]",
        "Type=exec",
        *_user(site),
        f"WorkingDirectory={syntax.value(str(Path(site.config).parent))}",
        *(f"Environment={syntax.word(f'{name}={text}')}" for name, text in site.environment.items()),
        f"EnvironmentFile=-{syntax.file_name(site.secrets_file)}",
        f"ExecStart={syntax.command(up)}",
        "Restart=on-failure",
        "RestartSec=1",
        "# 2: the configuration has to change first.",
        "RestartPreventExitStatus=2",
        f"TimeoutStopSec={math.ceil(site.shutdown_grace + stops) + _SETTLE}",
        "# Serves that Stoker starts itself live in this unit's control group, and outlive the front door: only the",
        "# main process is signalled (process), the group is not systemd's to tidy up (Delegate), and an engine that",
        "# the kernel ends for want of memory does not take the front door with it (OOMPolicy).",
        "KillMode=process",
        "Delegate=yes",
        "OOMPolicy=continue",
        *_SHARED,
        "",
        "[Install]",
        f"WantedBy={'default.target' if site.user is None else 'multi-user.target'}",
    )


def _socket(site: InstallSite) -> str:
    """Raises ValueError for a host that systemd could not listen on."""
    host = {"localhost": "127.0.0.1", "": "0.0.0.0"}.get(site.host, site.host)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        text = f"host '{site.host}' of [front_door] is a name, and systemd listens on addresses: write the address"
        raise ValueError(text) from None
    return _lines(
        "",
        "[Unit]",
        "Description=Stoker: the listening socket of the front door",
        "# A client that connects starts the front door: to stop both, stop this unit, too.",
        "",
        "[Socket]",
        f"ListenStream={f'[{address}]' if address.version == 6 else address}:{site.port}",
        f"Backlog={_BACKLOG}",
        "",
        "[Install]",
        "WantedBy=sockets.target",
    )


def _serve(site: InstallSite, serve: Serve) -> str:
    conflicts = _conflicting_units(serve)
    return _lines(
        "",
        "[Unit]",
        "# Stoker starts and stops it. There is no [Install]: at boot, the front door starts what was resident.",
        f"Description={syntax.value(f'Stoker serve {serve.name}')}",
        *((f"Conflicts={' '.join(conflicts)}",) if conflicts else ()),
        "",
        "[Service]",
        "Type=exec",
        *_user(site),
        f"WorkingDirectory={syntax.value(serve.working_directory)}",
        f"EnvironmentFile={syntax.file_name(str(environment_file(site.state, serve.name)))}",
        exec_start(planned(serve).argv),
        "# Whether and when it starts again is Stoker's decision.",
        "Restart=no",
        f"TimeoutStopSec={max(1, math.ceil(serve.stop_grace))}",
        "NoNewPrivileges=yes",
        *_SHARED,
    )


def _watchdog(site: InstallSite) -> str:
    check = (*site.stoker, "watchdog", "--once", "--config", site.config)
    return _lines(
        "",
        "[Unit]",
        "Description=Stoker: are the serves what they should be?",
        "# The first step is to make sure that the front door runs: this starts it if it has failed.",
        f"Wants={FRONT_DOOR}",
        f"After={FRONT_DOOR}",
        "",
        "[Service]",
        "Type=oneshot",
        *_user(site),
        f"WorkingDirectory={syntax.value(str(Path(site.config).parent))}",
        *(f"Environment={syntax.word(f'{name}={text}')}" for name, text in site.environment.items()),
        f"EnvironmentFile=-{syntax.file_name(site.secrets_file)}",
        f"ExecStart={syntax.command(check)}",
        "TimeoutStartSec=60",
    )


def _timer() -> str:
    return _lines(
        "",
        "[Unit]",
        "Description=Stoker: the watchdog, every minute",
        "# It ends with the front door when that is stopped on purpose, and goes on when that has failed.",
        f"PartOf={FRONT_DOOR}",
        "",
        "[Timer]",
        "OnActiveSec=2min",
        "OnUnitActiveSec=1min",
        "AccuracySec=5s",
    )


def _route_sync(site: InstallSite) -> str:
    sync = (*site.stoker, "route-sync", "--quiet", "--config", site.config)
    return _lines(
        "",
        "[Unit]",
        "Description=Stoker: point the ingress at the worker",
        *(() if site.user is None else ("Wants=network-online.target", "After=network-online.target")),
        "",
        "[Service]",
        "Type=oneshot",
        "# It writes the upstream file and reloads the ingress: as root, unless the units are a user's own.",
        f"WorkingDirectory={syntax.value(str(Path(site.config).parent))}",
        *(f"Environment={syntax.word(f'{name}={text}')}" for name, text in site.environment.items()),
        f"EnvironmentFile=-{syntax.file_name(site.secrets_file)}",
        f"ExecStart={syntax.command(sync)}",
        "# A run that is stopped undoes its switch on SIGINT; if it is killed, the next run does.",
        "KillSignal=SIGINT",
        "TimeoutStartSec=5min",
        "UMask=0022",
    )


def _route_sync_timer() -> str:
    return _lines(
        "",
        "[Unit]",
        "Description=Stoker: route sync, every 30 seconds",
        "",
        "[Timer]",
        "OnBootSec=15s",
        "OnUnitInactiveSec=30s",
        "AccuracySec=1s",
        "",
        "[Install]",
        "WantedBy=timers.target",
    )


def _conflicting_units(serve: Serve) -> list[str]:
    """Those of `conflicts` that can be units: `unit:NAME`, NAME.service, or a plain name."""
    found = []
    for entry in serve.conflicts:
        kind, colon, rest = entry.partition(":")
        name = rest if colon and kind == "unit" else entry
        if colon and kind == "container":
            continue
        found += [unit for unit in (name, f"{name}.service") if syntax.is_unit(unit)][:1]
    return found


def _user(site: InstallSite) -> tuple[str, ...]:
    return () if site.user is None else (f"User={syntax.value(site.user)}",)


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
