"""Each event reaches the parts that have to do something then, and people read of it."""

from __future__ import annotations

from pathlib import Path

from tests.app.program import Assembly, assembled

from stoker.domain.events import (
    AliasMoved,
    MemoryMeasured,
    MoveCause,
    OperatorActed,
    PredictionsChanged,
    RollbackNotSaved,
    ServeAdopted,
    ServeDisconnected,
    ServeExited,
    ServeIdentified,
    ServeParked,
    ServeRestarted,
    ServeSick,
    SwapEnded,
)
from stoker.domain.pauses import OperatorPauses
from stoker.domain.swap import SwapReport
from stoker.request.lease.state import PauseCause

PHASES = {"drain": 0.5, "check": 9.0, "stop": 0.5, "start": 2.0, "ready": 1.0}


@assembled()
async def test_a_swap_is_counted_shown_and_its_serve_remembered_for_a_reboot(program: Assembly) -> None:
    program.on_event(SwapEnded(SwapReport(1, "fast", "gpu", ("clever",), "ready", PHASES, "warm")))
    assert program.notes == [("ready", "fast", "warm start, 4.00 s, clever made room")]
    assert program.parts.store.metrics.swaps == {("gpu", "ready"): 1}
    program.parts.store.writer.submit(lambda: None).result()
    assert program.parts.store.residents.last() == {"gpu": "fast"}


@assembled()
async def test_a_failed_start_is_announced_once_and_only_if_nobody_asked_for_it(program: Assembly) -> None:
    failed = [SwapEnded(SwapReport(1, name, "gpu", (), "failed", error="no memory")) for name in ("fast", "clever")]
    for event in (*failed, *failed):
        program.on_event(event)
    assert program.announced == ["clever did not start: no memory"], "fast is not kept loaded: a request asked for it"
    assert program.parts.store.metrics.load_failures == {"fast": 2, "clever": 2}
    assert program.notes[0] == ("failed", "fast", "no memory")
    program.on_event(SwapEnded(SwapReport(2, "clever", "gpu", (), "ready", PHASES)))
    program.on_event(failed[1])
    assert len(program.announced) == 2, "it ran in between"


@assembled()
async def test_an_unload_is_shown_with_its_time(program: Assembly) -> None:
    program.on_event(SwapEnded(SwapReport(1, None, "gpu", ("fast", "clever"), "stopped", {"drain": 1.0, "stop": 0.25})))
    assert program.notes == [("stopped", "fast,clever", "after 1.25 s")]


@assembled()
async def test_the_warm_pool_pauses_while_requests_run(program: Assembly) -> None:
    fleet = program.parts.fleet
    fleet.supervisor.set_busy(True)
    assert fleet.warm.statistics().is_paused
    fleet.supervisor.set_busy(False)
    assert not fleet.warm.statistics().is_paused


@assembled()
async def test_what_happens_to_serves_is_shown(program: Assembly) -> None:
    for event in (
        ServeAdopted("fast"),
        ServeExited("fast", "ended by SIGKILL"),
        ServeRestarted("fast", "it hangs"),
        ServeSick("fast", "devices: not its own"),
        ServeParked("fast", "it hangs again"),
    ):
        program.on_event(event)
    assert program.notes == [
        ("adopted", "fast", "it was still running"),
        ("exited", "fast", "ended by SIGKILL"),
        ("restarted", "fast", "it hangs"),
        ("sick", "fast", "devices: not its own"),
        ("parked", "fast", "it hangs again"),
    ]
    assert program.announced == ["adopted fast, which was still running"]


@assembled()
async def test_a_pause_is_shown_and_remembered_for_a_restart_as_long_as_an_operator_wants_it(program: Assembly) -> None:
    conductor, store = program.parts.fleet.conductor, program.parts.store

    def remembered() -> OperatorPauses:
        store.writer.submit(lambda: None).result()
        return store.pauses.last()

    for slot in ("gpu", None):
        conductor.pause_by_operator(slot, "rendering")
        conductor.pause("gpu", PauseCause.PROGRAM, "comfyui needs its devices")
        assert remembered() == OperatorPauses("" if slot else "rendering", {"gpu": "rendering"})
        conductor.resume_by_operator(None)
        assert remembered() == OperatorPauses()
        conductor.resume("gpu", PauseCause.PROGRAM, "free again")
    assert program.notes[:4] == [
        ("paused", "", "slot gpu: rendering"),
        ("paused", "", "slot gpu: comfyui needs its devices"),
        ("resumed", "", "slot gpu: an operator resumed it; it stays paused: comfyui needs its devices"),
        ("resumed", "", "slot gpu: free again"),
    ]
    conductor.pause_by_operator(None, "rendering")
    conductor.resume_by_operator("gpu")
    assert remembered() == OperatorPauses(), "a restart does not pause again what was resumed"
    (Path(program.settings.paths.state) / "paused.json").write_text("{")
    assert store.pauses.last() == OperatorPauses(), "a damaged file keeps no model away"


@assembled()
async def test_exits_are_counted_by_the_watchdog_until_an_operator_acts(program: Assembly) -> None:
    program.on_event(ServeExited("fast", "ended by SIGKILL"))
    assert program.parts.watchdog.report("fast")["restarts"] == 1
    program.on_event(OperatorActed("fast"))
    assert program.parts.watchdog.report("fast")["restarts"] == 0


@assembled()
async def test_measured_memory_reaches_the_scheduler(program: Assembly) -> None:
    program.on_event(MemoryMeasured("fast", 7))
    program.on_event(MemoryMeasured("gone", 7))
    assert program.parts.fleet.conductor.scheduler.serves["fast"].measured == 7


@assembled()
async def test_these_events_change_nothing_in_a_program_without_tiers(program: Assembly) -> None:
    for event in (ServeDisconnected("127.0.0.1", 1), ServeIdentified("fast"), PredictionsChanged()):
        program.on_event(event)
    assert (program.notes, program.announced) == ([], [])


@assembled()
async def test_a_rollback_is_shown_with_what_was_found(program: Assembly) -> None:
    program.on_event(RollbackNotSaved("fast", "the disk is full"))
    program.on_event(AliasMoved("coder", "fast", "clever", MoveCause.ROLLED_BACK, "canary: 3 of 4 differ"))
    assert program.notes == [
        ("rollback", "fast", "the rollback was not saved: the disk is full"),
        ("rolled back", "fast", "alias coder points to it again: clever failed its canary: 3 of 4 differ"),
    ]
