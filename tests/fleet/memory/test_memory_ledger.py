"""A slot's books: an explicit setting wins, a resident's own memory is credit, and unknown is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.memory.device_trees import GIB, write

from stoker.domain.serve import Slot
from stoker.fleet.memory.devices import Device
from stoker.fleet.memory.ledger import (
    Fits,
    Ledger,
    MemorySize,
    Short,
    SizeSource,
    Tenant,
    Unknown,
    best_size,
    open_ledger,
    would_fit,
)
from stoker.fleet.memory.measure import measure

GPU = Device(0, "GPU-a", "L4", "nvidia", 20 * GIB, 6 * GIB)
SLOT = Slot("g")
NOTHING = MemorySize(None, SizeSource.UNKNOWN)


def nvml(size: int) -> MemorySize:
    return MemorySize(size, SizeSource.NVML)


def ledger(slot: Slot = SLOT, *tenants: Tenant, device: Device = GPU) -> Ledger:
    accounting = {1: {"GPU-a": 8 * GIB}, 99: {"GPU-a": 3 * GIB}, 98: {"GPU-a": None}, 97: {"GPU-b": 5}}
    return open_ledger(slot, [device], tenants, accounting, {1}, {99: "python"})


def test_an_explicit_setting_wins_over_what_is_measured_and_that_over_an_estimate() -> None:
    assert best_size(1, nvml(2), 3) == MemorySize(1, SizeSource.DECLARED)
    assert best_size(None, nvml(2), 3) == nvml(2)
    assert best_size(None, NOTHING, 3) == MemorySize(3, SizeSource.ESTIMATED)
    assert best_size(None, NOTHING, None) == NOTHING


def test_the_budget_is_the_slots_memory_else_95_percent_of_its_devices_else_unknown() -> None:
    assert ledger(Slot("g", memory=5)).budget == 5
    assert ledger().budget == 19 * GIB
    assert open_ledger(SLOT, [], [], None, (), {}).budget is None
    assert ledger(SLOT, device=Device(0, "GPU-a", "L4", "nvidia")).budget is None


def test_foreign_processes_are_those_that_hold_these_devices_and_are_not_ours() -> None:
    assert [(str(f), f.bytes) for f in ledger().foreign] == [
        ("process 99 (python)", 3 * GIB),
        ("process 98 (unknown command)", None),
    ]


def test_what_is_free_bounds_the_room_where_others_hold_the_device() -> None:
    books = ledger(SLOT, Tenant("a", measured=nvml(8 * GIB)))
    assert books.room() == 5 * GIB, "6 GiB are free, 1 GiB of the device is kept back"
    assert would_fit(books, "b", MemorySize(5 * GIB, SizeSource.DECLARED)) == Fits(0)


def test_a_residents_own_memory_is_credit() -> None:
    books = ledger(SLOT, Tenant("a", measured=nvml(8 * GIB)))
    need = MemorySize(13 * GIB, SizeSource.ESTIMATED)
    short = would_fit(books, "b", need)
    assert short == Short(8 * GIB, ("serve 'a'", "process 99 (python)", "process 98 (unknown command)"))
    assert would_fit(books, "b", need, {"a"}) == Fits(0)


def test_who_has_to_go_is_not_named_as_standing_in_the_way() -> None:
    books = ledger(Slot("g", memory=10 * GIB), Tenant("a", declared=GIB, measured=nvml(GIB)), Tenant("c", declared=GIB))
    found = would_fit(books, "b", MemorySize(12 * GIB, SizeSource.DECLARED), {"a"})
    assert isinstance(found, Short)
    assert "serve 'a'" not in found.holders


def test_what_a_resident_declares_counts_though_it_holds_less_by_now() -> None:
    books = ledger(SLOT, Tenant("a", declared=16 * GIB, measured=nvml(2 * GIB)))
    assert books.room() == 3 * GIB


def test_main_memory_of_a_victim_gives_nothing_back_to_devices() -> None:
    books = ledger(SLOT, Tenant("a", measured=MemorySize(9 * GIB, SizeSource.PROC)))
    assert books.room({"a"}) == 5 * GIB


def test_unknown_is_said_and_by_what_to_end_it() -> None:
    assert would_fit(ledger(), "b", NOTHING) == Unknown("the memory that serve 'b' needs is unknown: set its `memory`")
    bare = open_ledger(SLOT, [], [], None, (), {})
    found = would_fit(bare, "b", nvml(1))
    assert isinstance(found, Unknown)
    assert "slot 'g'" in found.why


def test_a_resident_of_unknown_weight_leaves_only_what_the_devices_show() -> None:
    books = ledger(SLOT, Tenant("a"))
    assert books.room() == 5 * GIB
    assert books.room({"a"}) == 19 * GIB, "the budget, since nobody knows what its end gives back"


PROC = {"1/status": "RssAnon: 4 kB\nRssFile: 6 kB\n"}


@pytest.mark.parametrize(
    ("devices", "accounting", "weight"),
    [
        ([GPU], {1: {"GPU-a": 5}, 2: {"GPU-a": 6, "GPU-b": 1}, 3: {"GPU-a": 9}}, nvml(11)),
        ([GPU], {1: {"GPU-a": 5}, 2: {"GPU-a": None}}, NOTHING),
        ([GPU], None, NOTHING),
        ([GPU], {3: {"GPU-a": 9}}, MemorySize(10 * 1024, SizeSource.PROC)),
        ([], None, MemorySize(10 * 1024, SizeSource.PROC)),
        ([Device(0, "0000:03:00.0", "X", "amd")], {1: {"0000:03:00.0": 7}}, MemorySize(7, SizeSource.FDINFO)),
    ],
)
def test_a_serve_is_measured_on_devices_else_in_main_memory_else_unknown(
    tmp_path: Path, devices: list[Device], accounting: dict[int, dict[str, int | None]] | None, weight: MemorySize
) -> None:
    assert measure([1, 2], devices, accounting, write(tmp_path, PROC)).weight == weight


def test_processes_that_are_gone_weigh_an_unknown_amount(tmp_path: Path) -> None:
    assert measure([5], [], None, tmp_path).weight == NOTHING
