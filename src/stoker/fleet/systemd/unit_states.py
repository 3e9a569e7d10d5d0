"""What to do with a systemd unit in each of its states, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeVar


class Load(StrEnum):
    """`LoadState`: whether systemd could read the unit."""

    LOADED = "loaded"
    MERGED = "merged"
    """Another name of a loaded one."""
    STUB = "stub"
    NOT_FOUND = "not-found"
    BAD_SETTING = "bad-setting"
    ERROR = "error"
    MASKED = "masked"


class Active(StrEnum):
    """`ActiveState`: what it is doing."""

    ACTIVE = "active"
    RELOADING = "reloading"
    REFRESHING = "refreshing"
    INACTIVE = "inactive"
    FAILED = "failed"
    ACTIVATING = "activating"
    DEACTIVATING = "deactivating"
    MAINTENANCE = "maintenance"


class Action(Enum):
    """How a unit that is wanted gets up."""

    JOIN = "join"
    """It runs, or is about to, as it should: nothing new is started."""
    START = "start"
    RESTART = "restart"
    """It runs with something else than it should."""
    RESET_AND_START = "reset and start"
    """Failures of the past must not count against the start limit."""


UP = frozenset((Active.ACTIVE, Active.RELOADING, Active.REFRESHING, Active.ACTIVATING))

REFUSALS: dict[Load, str | None] = {
    Load.LOADED: None,
    Load.MERGED: None,
    Load.STUB: "is not loaded yet: type `{systemctl} daemon-reload`",
    Load.NOT_FOUND: "is not there: type `{install}`",
    Load.BAD_SETTING: "has a line that systemd does not take: `systemd-analyze verify {unit}` shows it, "
    "`{install} --force` writes the unit anew",
    Load.ERROR: "cannot be read by systemd: `{systemctl} status {unit}` shows why, `{install} --force` writes it anew",
    Load.MASKED: "is masked, so nothing may start it: type `{systemctl} unmask {unit}`, then `{install}`",
}
"""Why a unit cannot be started as it is; None: it can. Completes "the unit X of serve 'x' ..."."""

STARTS: dict[tuple[Active, bool], Action] = {
    (Active.ACTIVE, True): Action.JOIN,
    (Active.ACTIVE, False): Action.RESTART,
    (Active.RELOADING, True): Action.JOIN,
    (Active.RELOADING, False): Action.RESTART,
    (Active.REFRESHING, True): Action.JOIN,
    (Active.REFRESHING, False): Action.RESTART,
    (Active.ACTIVATING, True): Action.JOIN,
    (Active.ACTIVATING, False): Action.RESTART,
    (Active.INACTIVE, True): Action.START,
    (Active.INACTIVE, False): Action.START,
    (Active.FAILED, True): Action.RESET_AND_START,
    (Active.FAILED, False): Action.RESET_AND_START,
    (Active.DEACTIVATING, True): Action.START,  # systemd lets it end first
    (Active.DEACTIVATING, False): Action.START,
    (Active.MAINTENANCE, True): Action.START,
    (Active.MAINTENANCE, False): Action.START,
}
"""By state, and whether what was started last was started for this configuration."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a unit. A state that this version does not know is None."""

    load: Load | None = None
    active: Active | None = None
    words: str = ""
    """LoadState and ActiveState as systemd says them."""
    pid: int = 0
    """Its main process; 0: it has none."""
    code: int | None = None
    """How the main process ended, negative for a signal; None: it runs, or nobody knows."""
    fragment: str = ""
    """Path of the unit's file."""
    needs_reload: bool = False

    @property
    def is_up(self) -> bool:
        return self.active in UP


PROPERTIES = "LoadState,ActiveState,MainPID,ExecMainCode,ExecMainStatus,FragmentPath,NeedDaemonReload"
_EXITED, _KILLED, _DUMPED = 1, 2, 3  # CLD_EXITED and so on
_Word = TypeVar("_Word", bound=StrEnum)


def read(shown: str) -> Seen:
    """What `systemctl show --property=PROPERTIES` printed."""
    said = dict(line.partition("=")[::2] for line in shown.splitlines() if "=" in line)
    how, status, pid = (_number(said, name) for name in ("ExecMainCode", "ExecMainStatus", "MainPID"))
    code = status if how == _EXITED else -status if how in (_KILLED, _DUMPED) else None
    return Seen(
        load=_known(Load, said.get("LoadState", "")),
        active=_known(Active, said.get("ActiveState", "")),
        words=f"{said.get('LoadState', '?')}, {said.get('ActiveState', '?')}",
        pid=pid,
        code=None if pid else code,
        fragment=said.get("FragmentPath", ""),
        needs_reload=said.get("NeedDaemonReload") == "yes",
    )


def refusal(seen: Seen) -> str | None:
    """Why it cannot be started: an entry of REFUSALS, or what is not known. None: it can."""
    if seen.load is None or seen.active is None:
        return f"is in a state that this version of Stoker does not know ({seen.words}): update Stoker"
    return REFUSALS[seen.load]


def start(seen: Seen, is_same: bool) -> Action:
    """How to get it up, once `refusal` finds nothing."""
    if seen.active is None:
        raise ValueError(f"no action is known for {seen.words}")
    return STARTS[seen.active, is_same]


def _known(kind: type[_Word], word: str) -> _Word | None:
    try:
        return kind(word)
    except ValueError:
        return None


def _number(said: Mapping[str, str], name: str) -> int:
    text = said.get(name, "")
    return int(text) if text.isdigit() else 0
