"""The tables of the systemd driver: nothing is left to chance."""

from __future__ import annotations

import itertools

import pytest

from stoker.fleet.systemd import unit_states
from stoker.fleet.systemd.unit_states import ActiveState, LoadState, UnitAction, UnitStatus


def test_every_state_has_an_action_and_every_load_state_an_answer() -> None:
    assert set(unit_states.STARTS) == set(itertools.product(ActiveState, (True, False)))
    assert set(unit_states.REFUSALS) == set(LoadState)


def test_what_is_up_is_joined_or_started_anew_and_nothing_else_is() -> None:
    for (active, is_same), action in unit_states.STARTS.items():
        assert (action in (UnitAction.JOIN, UnitAction.RESTART)) == (active in unit_states.UP)
        assert (action is UnitAction.JOIN) == (active in unit_states.UP and is_same)


def test_every_refusal_names_the_next_command() -> None:
    said = [text.format(systemctl="S", install="I", unit="U") for text in unit_states.REFUSALS.values() if text]
    assert said
    assert all("`" in text for text in said)


SHOWN = """\
MainPID=4711
LoadState=loaded
ActiveState=active
ExecMainCode=0
ExecMainStatus=0
FragmentPath=/etc/systemd/system/a=b.service
NeedDaemonReload=no
"""


def test_what_systemctl_shows_is_read() -> None:
    seen = unit_states.read(SHOWN)
    path = "/etc/systemd/system/a=b.service"
    assert seen == UnitStatus(LoadState.LOADED, ActiveState.ACTIVE, "loaded, active", 4711, None, path, False)
    assert unit_states.refusal(seen) is None


@pytest.mark.parametrize(
    ("how", "status", "pid", "code"),
    [(1, 3, 0, 3), (1, 0, 0, 0), (2, 9, 0, -9), (3, 11, 0, -11), (0, 0, 0, None), (1, 3, 5, None), ("", "x", "", None)],
)
def test_an_exit_code_is_known_only_of_what_has_ended(
    how: object, status: object, pid: object, code: int | None
) -> None:
    assert unit_states.read(f"ExecMainCode={how}\nExecMainStatus={status}\nMainPID={pid}\n").code == code


@pytest.mark.parametrize(
    "shown", ["", "LoadState=loaded\nActiveState=dancing\n", "LoadState=odd\nActiveState=active\n"]
)
def test_a_state_that_is_not_known_is_refused_and_named(shown: str) -> None:
    seen = unit_states.read(shown)
    assert "does not know" in (unit_states.refusal(seen) or "")
    assert seen.words in (unit_states.refusal(seen) or "")


def test_there_is_no_action_for_a_state_that_is_not_known() -> None:
    with pytest.raises(ValueError, match="no action"):
        unit_states.start(UnitStatus(words="odd"), True)
