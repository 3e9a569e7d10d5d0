"""A slot gives its devices up while another program needs them, and not a moment longer, and does not flap."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from stoker.domain.events import Event, SlotPaused, SlotResumed
from stoker.domain.serve import Serve, Slot, SwapPolicy
from stoker.fleet.memory.devices import Accounting, Device
from stoker.fleet.swapping.conductor import Conductor
from stoker.fleet.yielding import Need, Process, SlotYielder, YieldState, look, names_of, next_state
from stoker_lab.testing.fleet import FakeFleet

GIB = 2**30
SLOT = Slot("gpu0", devices=("0",), yields_to=("comfyui",), yields_above=2 * GIB, return_after=10.0)
COMFY = Need(("comfyui (process 12)",), 0)
MUCH, LITTLE, UNKNOWN = Need((), 3 * GIB), Need((), GIB), Need((), None)
IN_USE, GIVEN_UP = YieldState(), YieldState("comfyui (process 12) needs its devices")


@pytest.mark.parametrize(
    ("need", "before", "after"),
    [
        (COMFY, IN_USE, GIVEN_UP),
        (COMFY, YieldState("earlier", 95.0), YieldState("earlier")),
        (LITTLE, IN_USE, IN_USE),
        (UNKNOWN, IN_USE, IN_USE),
        (UNKNOWN, YieldState("earlier", 80.0), YieldState("earlier")),
        (LITTLE, GIVEN_UP, YieldState(GIVEN_UP.reason, 100.0)),
        (LITTLE, YieldState("earlier", 91.0), YieldState("earlier", 91.0)),
        (LITTLE, YieldState("earlier", 90.0), IN_USE),
    ],
)
def test_what_is_decided_at_second_100(need: Need, before: YieldState, after: YieldState) -> None:
    assert next_state(SLOT, need, before, 100.0) == after


def test_the_reason_says_how_much_others_hold_and_what_is_allowed() -> None:
    reason = next_state(SLOT, MUCH, IN_USE, 0.0).reason
    assert "3.0 GiB" in reason
    assert "2.0 GiB" in reason


def test_a_program_that_comes_and_goes_costs_one_unload() -> None:
    state, changes = IN_USE, 0
    for second in range(0, 200, 2):
        before, state = state, next_state(SLOT, COMFY if second % 8 == 0 else LITTLE, state, float(second))
        changes += bool(before.reason) is not bool(state.reason)
    assert changes == 1


@pytest.mark.parametrize(
    ("process", "name"),
    [
        (Process("blender", ("/opt/blender-4.2/blender",), "/home/ann"), "blender"),
        (Process("python3.11", ("python", "main.py", "--listen"), "/home/ann/ComfyUI"), "comfyui"),
        (Process("python3", ("/home/ann/ComfyUI/venv/bin/python", "main.py"), ""), "comfyui"),
        (Process("python3", ("python3", "-m", "vllm.entrypoints"), "/"), "vllm.entrypoints"),
        (Process("game.exe", ("game.exe",), ""), "game"),
    ],
)
def test_by_which_names_a_process_may_be_meant(process: Process, name: str) -> None:
    assert name in names_of(process)


def test_an_editor_with_a_file_of_that_program_is_not_meant() -> None:
    assert "comfyui" not in names_of(Process("vim", ("vim", "ComfyUI/main.py"), "/home/ann"))
    assert "comfyui" not in names_of(Process("bash", ("bash",), "/home/ann/ComfyUI"))
    assert names_of(Process()) == frozenset()


class Probe:
    """A device probe with one device."""

    source = "NVML"

    def __init__(self, accounting: Accounting | None, devices: Sequence[str] = ("gpu-a",)) -> None:
        self._accounting = accounting
        self._devices = [Device(number, uuid, "GPU", "nvidia") for number, uuid in enumerate(devices)]

    def devices(self) -> list[Device]:
        return self._devices

    def by_process(self) -> Accounting | None:
        return self._accounting

    def notes(self) -> list[str]:
        return []


def test_a_program_counts_where_it_runs_or_if_that_is_known_where_it_uses_the_device(tmp_path: Path) -> None:
    script = tmp_path / "ComfyUI" / "main.py"
    script.parent.mkdir()
    script.write_text("import sys; print(); sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, "main.py"], cwd=script.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as comfy:
        assert comfy.stdout is not None
        comfy.stdout.readline()
        pid = comfy.pid
        seen = f"comfyui (process {pid})"
        assert look([SLOT], Probe(None), list)["gpu0"] == Need((seen,), None)
        assert look([SLOT], Probe(None), lambda: [pid])["gpu0"] == Need((), None), "it is a serve of Stoker's"
        assert look([SLOT], Probe({}), list)["gpu0"] == Need((), 0), "it uses no device"
        assert look([SLOT], Probe({pid: {"gpu-b": GIB}}, ["gpu-a", "gpu-b"]), list)["gpu0"] == Need((), 0)
        assert look([SLOT], Probe({pid: {"gpu-a": GIB}, 1: {"gpu-a": None}}), list)["gpu0"] == Need((seen,), GIB)
        comfy.communicate()


class Time:
    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def wall(self) -> float:
        return self.at


def test_a_slot_is_paused_while_a_program_needs_it_and_what_cannot_be_seen_changes_nothing() -> None:
    async def story() -> None:
        events: list[Event] = []
        slots = [
            Slot("gpu0", yields_to=("comfyui",), return_after=10.0, swap=SwapPolicy(drain_timeout=0.0)),
            Slot("gpu1", swap=SwapPolicy()),
        ]
        serves = [Serve(name="a", slot="gpu0"), Serve(name="b", slot="gpu1")]
        clock = Time()
        conductor = Conductor(slots, serves, FakeFleet(), clock, events.append)
        seen: list[Need | None] = [COMFY]
        asked: list[list[str]] = []

        def looks(slots: Sequence[Slot]) -> Mapping[str, Need]:
            asked.append([slot.name for slot in slots])
            if seen[0] is None:
                raise OSError("the driver does not answer")
            return {"gpu0": seen[0]}

        yielder = SlotYielder(conductor, looks, clock)

        async def at(second: float, need: Need | None) -> str:
            clock.at, seen[0] = second, need
            await yielder.look_once()
            return conductor.scheduler.slots["gpu0"].pause_reason

        await conductor.switch("a")
        events.clear()
        assert "comfyui" in await at(0, COMFY)
        assert await at(2, None) == await at(4, COMFY)
        assert await at(6, LITTLE)
        assert await at(15, LITTLE)
        assert not conductor.scheduler.slots["gpu1"].pauses
        assert not await at(16, LITTLE)
        assert await at(18, COMFY)
        conductor.reload([slots[1], Slot("gpu0")], serves)
        await yielder.look_once()
        assert not conductor.scheduler.slots["gpu0"].pauses, "the configuration names no program any more"
        kinds = [type(event) for event in events if isinstance(event, SlotPaused | SlotResumed)]
        assert kinds == [SlotPaused, SlotResumed, SlotPaused, SlotResumed]
        assert asked[-1] == ["gpu0"], "gpu1 yields to nothing"
        await conductor.close(leave_running=False)

    asyncio.run(story())
