"""What to do with a systemd unit in each of its states, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeVar


class LoadState(StrEnum):
    """`LoadState`: whether systemd could read the unit."""

    LOADED = "loaded"
    MERGED = "merged"
    """Another name of a loaded one."""
    STUB = "stub"
    NOT_FOUND = "not-found"
    BAD_SETTING = "bad-setting"
    ERROR = "error"
    MASKED = "masked"


class ActiveState(StrEnum):
    """`ActiveState`: what it is doing."""

    ACTIVE = "active"
    RELOADING = "reloading"
    REFRESHING = "refreshing"
    INACTIVE = "inactive"
    FAILED = "failed"
    ACTIVATING = "activating"
    DEACTIVATING = "deactivating"
    MAINTENANCE = "maintenance"


class UnitAction(Enum):
    """How a unit that is wanted gets up."""

    JOIN = "join"
    """It runs, or is about to, as it should: nothing new is started."""
    START = "start"
    RESTART = "restart"
    """It runs with something else than it should."""
    RESET_AND_START = "reset and start"
    """Failures of the past must not count against the start limit."""


UP = frozenset((ActiveState.ACTIVE, ActiveState.RELOADING, ActiveState.REFRESHING, ActiveState.ACTIVATING))

REFUSALS: dict[LoadState, str | None] = {
    LoadState.LOADED: None,
    LoadState.MERGED: None,
    LoadState.STUB: "is not loaded yet: type `{systemctl} daemon-reload`",
    LoadState.NOT_FOUND: "is not there: type `{install}`",
    LoadState.BAD_SETTING: "has a line that systemd does not accept: `systemd-analyze verify {unit}` shows it, "
    "`{install} --force` writes the unit anew",
    LoadState.ERROR: "cannot be read by systemd: `{systemctl} status {unit}` shows why, `{install} --force` repairs it",
    LoadState.MASKED: "is masked, so nothing may start it: type `{systemctl} unmask {unit}`, then `{install}`",
}
"""Why a unit cannot be started as it is; None: it can. Completes "the unit X of serve 'x' ..."."""

STARTS: dict[tuple[ActiveState, bool], UnitAction] = {
    (ActiveState.ACTIVE, True): UnitAction.JOIN,
    (ActiveState.ACTIVE, False): UnitAction.RESTART,
    (ActiveState.RELOADING, True): UnitAction.JOIN,
    (ActiveState.RELOADING, False): UnitAction.RESTART,
    (ActiveState.REFRESHING, True): UnitAction.JOIN,
    (ActiveState.REFRESHING, False): UnitAction.RESTART,
    (ActiveState.ACTIVATING, True): UnitAction.JOIN,
    (ActiveState.ACTIVATING, False): UnitAction.RESTART,
    (ActiveState.INACTIVE, True): UnitAction.START,
    (ActiveState.INACTIVE, False): UnitAction.START,
    (ActiveState.FAILED, True): UnitAction.RESET_AND_START,
    (ActiveState.FAILED, False): UnitAction.RESET_AND_START,
    (ActiveState.DEACTIVATING, True): UnitAction.START,  # systemd lets it end first
    (ActiveState.DEACTIVATING, False): UnitAction.START,
    (ActiveState.MAINTENANCE, True): UnitAction.START,
    (ActiveState.MAINTENANCE, False): UnitAction.START,
}
"""By state, and whether what was started last was started for this configuration."""


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """The status of a unit at one moment. A state that this version does not know is None."""

    load: LoadState | None = None
    active: ActiveState | None = None
    words: str = ""
    """LoadState and ActiveState as systemd says them."""
    pid: int = 0
    """Its main process; 0: it has none."""
    code: int | None = None
    """How the main process ended, negative for a signal; None: it runs, or that is unknown."""
    fragment: str = ""
    """Path of the unit's file."""
    needs_reload: bool = False

    @property
    def is_up(self) -> bool:
        return self.active in UP


PROPERTIES = "LoadState,ActiveState,MainPID,ExecMainCode,ExecMainStatus,FragmentPath,NeedDaemonReload"
_EXITED, _KILLED, _DUMPED = 1, 2, 3  # CLD_EXITED and so on
_Word = TypeVar("_Word", bound=StrEnum)


def read(shown: str) -> UnitStatus:
    """What `systemctl show --property=PROPERTIES` printed."""
    said = dict(line.partition("=")[::2] for line in shown.splitlines() if "=" in line)
    how, status, pid = (_number(said, name) for name in ("ExecMainCode", "ExecMainStatus", "MainPID"))
    code = status if how == _EXITED else -status if how in (_KILLED, _DUMPED) else None
    return UnitStatus(
        load=_known(LoadState, said.get("LoadState", "")),
        active=_known(ActiveState, said.get("ActiveState", "")),
        words=f"{said.get('LoadState', '?')}, {said.get('ActiveState', '?')}",
        pid=pid,
        code=None if pid else code,
        fragment=said.get("FragmentPath", ""),
        needs_reload=said.get("NeedDaemonReload") == "yes",
    )


def refusal(status: UnitStatus) -> str | None:
    """Why it cannot be started: an entry of REFUSALS, or what is not known. None: it can."""
    if status.load is None or status.active is None:
        return f"is in a state that this version of Stoker does not know ({status.words}): update Stoker"
    return REFUSALS[status.load]


def start(status: UnitStatus, is_same: bool) -> UnitAction:
    """How to get it up, once `refusal` finds nothing."""
    if status.active is None:
        raise ValueError(f"no action is known for {status.words}")
    return STARTS[status.active, is_same]


def _known(kind: type[_Word], word: str) -> _Word | None:
    try:
        return kind(word)
    except ValueError:
        return None


def _number(said: Mapping[str, str], name: str) -> int:
    text = said.get(name, "")
    return int(text) if text.isdigit() else 0
