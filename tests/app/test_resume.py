"""After a reboot each slot gets the serve that ran there last, and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker.app.resume import Residents, to_resume
from stoker.domain.serve import Serve, Slot
from stoker.request.lease.scheduler import Scheduler

SLOTS = (Slot("gpu"), Slot("cpu"))
SERVES = (Serve("a", slot="gpu"), Serve("b", slot="gpu"), Serve("c", slot="cpu"), Serve("both", slot="gpu+cpu"))


@pytest.mark.parametrize(
    ("last", "recovering", "expected"),
    [
        ({}, (), []),
        ({"gpu": "a", "cpu": "c"}, (), [("gpu", "a"), ("cpu", "c")]),
        ({"gpu": "a", "cpu": "c"}, ("gpu",), [("cpu", "c")]),
        ({"gpu": "c"}, (), []),
        ({"gone": "a", "gpu": "gone"}, (), []),
        ({"gpu": "both", "cpu": "both"}, (), [("gpu+cpu", "both")]),
        ({"gpu": "a", "cpu": "both"}, (), [("gpu", "a")]),
        ({"gpu": "both", "cpu": "both"}, ("cpu",), []),
    ],
    ids=[
        "nothing ran",
        "each slot",
        "an interrupted swap goes first",
        "the serve moved",
        "not configured any more",
        "one that takes two slots",
        "another one was in one of them last",
        "one of them has an interrupted swap",
    ],
)
def test_who_is_started(last: dict[str, str], recovering: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    assert to_resume(last, Scheduler(SLOTS, SERVES).slots, recovering) == expected


def test_a_slot_in_which_something_runs_is_left_alone() -> None:
    scheduler = Scheduler(SLOTS, SERVES)
    scheduler.on_adopted("b", 0.0)
    assert to_resume({"gpu": "a", "cpu": "c"}, scheduler.slots, ()) == [("cpu", "c")]


def test_who_ran_is_remembered_on_disk_but_for_serves_without_a_slot(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as writer:
        residents = Residents(tmp_path, writer)
        residents.remember("gpu", "a")
        residents.remember("gpu", "b")
        residents.remember("~c", "c")
        residents.remember("cpu+disk", "both")
    assert Residents(tmp_path, writer).last() == {"gpu": "b", "cpu": "both", "disk": "both"}


def test_a_disk_that_is_full_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(1) as writer:
        Residents(tmp_path / "missing" / "directory", writer).remember("gpu", "a")
    assert "the resident of slot gpu cannot be saved" in caplog.text
