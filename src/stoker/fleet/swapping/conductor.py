"""Carries out the scheduler's commands, and is the only caller of the scheduler.

`acquire` is synchronous: it returns a Lease if one is free, else a Future that Grant or Reject resolves. WakeAt arms
the one timer. Each StartSwap is one task of the swapper: stop the victims, start the target, report the result. A lease
that is free is granted within the call: no task, queue or timer stands in between.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from stoker.domain.errors import CANNOT_LOAD, StokerError, forwarded_twice
from stoker.domain.events import (
    Notify,
    OperatorActed,
    ServeAdopted,
    ServeDisconnected,
    ServeExited,
    ServeParked,
    ServeRestarted,
    ServeSick,
    SlotPaused,
    SlotResumed,
    SwapEnded,
    ignore,
)
from stoker.domain.figures import counted
from stoker.domain.key import Priority
from stoker.domain.lease import NOBODY, FairShare, Lease, Target
from stoker.domain.pauses import OperatorPauses
from stoker.domain.prompt_chain import PromptChain
from stoker.domain.protocols import Clock, Fleet, Journal, QuickCheck, Running
from stoker.domain.replica_wish import NO_WISH, ReplicaWish
from stoker.domain.serve import Serve, ServeIdentity, Slot
from stoker.domain.serve_phase import ServePhase
from stoker.domain.swap import SwapReport
from stoker.fleet.swapping.swapper import (
    NoJournal,
    Recovery,
    SwapCallbacks,
    SwapDone,
    Swapper,
    WeightDownloads,
    acquire_after,
)
from stoker.request.lease.commands import (
    CancelSwap,
    CheckStart,
    Command,
    Cut,
    Grant,
    Reassign,
    Reject,
    StartSwap,
    WakeAt,
)
from stoker.request.lease.eviction import DoesNotFit, Victims, victims_for
from stoker.request.lease.places import can_answer
from stoker.request.lease.preview import Residency, SwitchPreview, loadable, preview_switch, unchecked_loadable
from stoker.request.lease.prompt_routing import PromptRouting
from stoker.request.lease.refusals import cannot_load, cannot_start, needs_force, removed, without_name
from stoker.request.lease.scheduler import Scheduler
from stoker.request.lease.state import CannotLoad, PauseCause, ServeState
from stoker.request.lease.timing import swap_timeout

log = logging.getLogger("stoker.fleet")
_STOPPED: Final = ServePhase.STOPPED
LOOK_AGAIN_AFTER = 5.0
"""Seconds until the files of serves that cannot load are looked at again, if no request asks for them before."""


@dataclass(slots=True)
class _Waiting:
    """A request, a switch or an unload that waits for a Grant or Reject."""

    serve: str
    future: asyncio.Future[Any]
    since: float
    is_request: bool = True
    prompt: PromptChain | None = None


class Conductor:
    """See the module's docstring. All methods belong to the event loop's thread."""

    def __init__(
        self,
        slots: Iterable[Slot],
        serves: Iterable[Serve],
        fleet: Fleet,
        clock: Clock,
        notify: Notify = ignore,
        journal: Journal | None = None,
    ) -> None:
        self.scheduler = Scheduler(slots, serves)
        self.contested: Collection[str] = _contested(self.scheduler)
        self.residency = Residency(self.scheduler.serves, self.scheduler.replica_sets)
        self._notify = notify
        self._forced: set[str] = set()
        """Names of rejected and blocked serves that an operator allowed to run."""
        self._fleet = fleet
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._downloads = WeightDownloads(
            lambda name: fleet.download(self.scheduler.serves[name].serve), fleet.download_progress
        )
        journal = journal or NoJournal()
        callbacks = SwapCallbacks(
            self._swap_done, self._exited, lambda host, port: notify(ServeDisconnected(host, port))
        )
        self._swapper = Swapper(self.scheduler, fleet, journal, self._downloads, callbacks)
        self._recovery = Recovery(self.scheduler, journal, self.switch)
        # The swapper's own mappings, shared: the swapper writes them, and `begin` adds adopted serves to `running`.
        self.running = self._swapper.running
        self.checking = self._swapper.checking
        self.last_swap = self._swapper.last
        self._waiting: dict[int, _Waiting] = {}
        self._leases: dict[int, Lease] = {}
        self.quiet_since = float("-inf")
        """When the last of the leases that were out ended, background ones too; -inf: none has been."""
        self._checks: set[asyncio.Task[QuickCheck]] = set()
        self._prompts = PromptRouting()
        self._timer: asyncio.TimerHandle | None = None
        self._look_again: asyncio.TimerHandle | None = None
        self._closing = False
        self._released = asyncio.Event()

    # -- requests ------------------------------------------------------------------------------------------------

    def has_choice(self, name: str) -> bool:
        """Whether several replicas of a serve are ready."""
        replicas = self.scheduler.replica_sets.get(name)
        return replicas is not None and sum(replica.phase is ServePhase.READY for replica in replicas.replicas) > 1

    def has_another(self, name: str, wish: ReplicaWish) -> bool:
        """Whether a replica of a serve that `wish` allows is ready or can be started."""
        replicas = self.scheduler.replica_sets.get(name)
        if replicas is None:
            return False
        closed, now = replicas.closed_to(wish), self._clock.now()
        return any(state.name not in closed and can_answer(state, now) for state in replicas.replicas)

    def target(self, name: str) -> Target | None:
        """Where a serve, or its first ready replica, answers; None: it is not ready."""
        running = self.running.get(name)
        if running is None and name in self.scheduler.replica_sets:
            replicas = self.scheduler.replica_sets[name].replicas
            running = next((self.running[replica.name] for replica in replicas if replica.name in self.running), None)
        return None if running is None else running.target

    def acquire(
        self,
        name: str,
        takes_place: bool = True,
        share: FairShare = NOBODY,
        body_bytes: int = 0,
        wish: ReplicaWish = NO_WISH,
        is_checked: bool = False,
    ) -> Lease | asyncio.Future[Lease]:
        """A lease, or a Future of one. Raises StokerError if the request is refused at once. See `Leases`.
        `is_checked`: a serve that has to be started is known to be able to.

        The caller may cancel the Future or set an exception: then its position in the queue is free, and a lease that
        is granted at the same moment is released.
        """
        state = self._state_of(name, wish)
        if state.phase is _STOPPED and not is_checked and not self.scheduler.state.closing:
            return self._acquire_stopped(state, name, takes_place, share, body_bytes, wish)
        id = next(self._ids)
        now = self._clock.now()
        closed = wish.avoid if state.replica_set is None else state.replica_set.closed_to(wish)
        commands = self.scheduler.on_request(id, state.name, now, takes_place, share, body_bytes, closed)
        if len(commands) == 1 and type(commands[0]) is Grant:
            return self._lease(id, state, now, 0.0, wish.prompt)
        waiting = self._wait(id, state.name, now, is_request=True, prompt=wish.prompt)
        self._carry_out(commands)
        if waiting.done():
            lease: Lease = waiting.result()
            return lease
        return waiting

    def _acquire_stopped(
        self, state: ServeState, name: str, takes_place: bool, share: FairShare, body_bytes: int, wish: ReplicaWish
    ) -> Lease | asyncio.Future[Lease]:
        """As `acquire`, of a serve that has to be started, once it is known whether it can."""
        details, serve = (takes_place, share, body_bytes, wish), state.serve

        def go_on(check: QuickCheck) -> Lease | asyncio.Future[Lease]:
            self._learn(state, serve, check)
            if state.serve is not serve:  # it was reloaded meanwhile: the check was of another model
                return self.acquire(name, *details)
            self._refuse_hopeless(state, check)
            if check.lacks_weights:
                return self._downloads.acquire_after_download(
                    state.name, swap_timeout(state), lambda: self.acquire(name, *details)
                )
            return self.acquire(name, *details, is_checked=True)

        self._refuse_unforced(state)
        check = self._fleet.quick_check(state.serve)
        return go_on(check) if isinstance(check, QuickCheck) else acquire_after(self._checking(check), go_on)

    def _checking(self, check: Awaitable[QuickCheck]) -> asyncio.Task[QuickCheck]:
        async def checked() -> QuickCheck:
            return await check

        task = self._loop.create_task(checked(), name="quick-check")
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)
        return task

    def allow_preemption(self, lease: Lease, priority: Priority | None = None) -> None:
        """Let the lease be cut as soon as a request of a higher priority than this (None: any request) needs its place
        or its serve's memory; that may be at once.
        """
        self._carry_out(self.scheduler.on_preemption_allowed(lease.id, lease.serve, self._clock.now(), priority))

    def _wait(
        self, id: int, name: str, now: float, is_request: bool, prompt: PromptChain | None = None
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[id] = _Waiting(name, future, now, is_request, prompt)
        if is_request:
            future.add_done_callback(lambda _: self._on_resolved(id))
        else:
            future.add_done_callback(lambda done: done.cancelled() or done.exception())  # the operator may have left
        return future

    def _state_of(self, name: str, wish: ReplicaWish = NO_WISH) -> ServeState:
        """The serve; of one with several places, the replica that a request joins now. Raises ClientError if the serve
        was removed from the configuration.
        """
        state = self.scheduler.serves.get(name)
        return self._replica_of(name, wish) if state is None else state

    def _replica_of(self, name: str, wish: ReplicaWish) -> ServeState:
        replicas = self.scheduler.replica_sets.get(name)
        if replicas is None:
            raise removed(name)
        closed = replicas.closed_to(wish)
        open = [state for state in replicas.replicas if state.name not in closed]
        if not open:
            raise forwarded_twice(name) if wish.is_forwarded else removed(name)
        return self._prompts.choose(open, self._clock.now(), wish.prompt)

    def _known(self, name: str) -> ServeState | None:
        """As `_state_of`; None: no such serve."""
        is_known = name in self.scheduler.serves or name in self.scheduler.replica_sets
        return self._state_of(name) if is_known else None

    def _on_resolved(self, id: int) -> None:
        """A request's Future was resolved, by Grant or Reject or by the request itself."""
        waiting = self._waiting.pop(id, None)
        if waiting is not None:  # the request left before it was granted
            self._carry_out(self.scheduler.on_cancel(id, waiting.serve, self._clock.now()))

    def _lease(self, id: int, state: ServeState, now: float, waited: float, prompt: PromptChain | None = None) -> Lease:
        if not self._leases:
            self._fleet.set_busy(True)
        name = state.serve.name
        entered = state.slot_state.time.enter(now)
        lease = Lease(id, name, self.running[name].target, now, waited, self._release, state, entered)
        self._leases[id] = lease
        if prompt is not None:
            self._prompts.granted(id, state, prompt)
        return lease

    def _release(self, lease: Lease) -> None:
        now = self._clock.now()
        if self._leases.pop(lease.id, None) is not None:
            if lease.meter is not None:
                lease.meter.end(lease, now)
            if not self._leases:
                self.quiet_since = now
                self._fleet.set_busy(False)
        if self._prompts.answered:
            self._prompts.ended(lease.id, lease.usage)
        if self._closing:
            self._released.set()
        commands = self.scheduler.on_release(lease.id, lease.serve, now)
        if commands:
            self._carry_out(commands)

    def load_progress(self, name: str) -> str:
        """See `Leases`. 1 it is loaded  2 its weights are fetched  3 its turn has not come  4 others still run
        5 it starts
        """
        state = self._known(name)
        if state is None or (state.phase is ServePhase.READY and state.name in self.running):  # 1
            return ""
        name = state.name
        if self._downloads.is_downloading(name):  # 2
            return f"waits for its weights: {self._fleet.download_progress(name)}"
        if state.phase is not ServePhase.STARTING:  # 3
            return "waits to be loaded"
        swap = next((swap for swap in state.slot_state.swaps.values() if swap.target is state), None)
        if swap is not None and swap.run_at is None:  # 4
            return f"waits for requests of {' and '.join(victim.name for victim in swap.victims)} to end"
        if step := self._fleet.start_step(name):  # 5
            return step
        percent = self._fleet.load_percent(name)
        return "is loading" if percent is None else f"is loading, {percent} %"

    def start_step(self, name: str) -> str:
        """See `Fleet.start_step`."""
        return self._fleet.start_step(name)

    def load_percent(self, name: str) -> int | None:
        """How far the start of a serve is, in percent; None: it does not start, or its engine does not say."""
        state = self._known(name)
        if state is None or state.phase is not ServePhase.STARTING:
            return None
        return self._fleet.load_percent(state.name)

    @property
    def is_closing(self) -> bool:
        """Whether Stoker shuts down."""
        return self._closing

    def failure_code(self, name: str) -> str:
        """The code of a serve's last failure; empty: it is ready, or never failed."""
        state = self._known(name)
        if state is None:
            return ""
        if state.last_error is not None:
            return state.last_error.code
        return CANNOT_LOAD if state.cannot_load is not None else ""

    # -- the operator --------------------------------------------------------------------------------------------

    def force(self, names: Iterable[str]) -> None:
        """Allow these serves to run, although they are rejected or blocked."""
        self._forced.update(names)

    async def preview(self, name: str, force: bool = False) -> SwitchPreview:
        """What a switch would do now, or why it would be refused. Changes nothing, but that a check may find out that
        a serve cannot load.
        """
        state = self._state_of(name)
        answer = preview_switch(self.scheduler, state.name)
        if answer.refusal is not None or state.phase is not ServePhase.STOPPED:
            return answer
        try:
            if not force:
                self._refuse_unforced(state)
            self._refuse_hopeless(state, await self._check_now(state))
        except StokerError as refusal:
            return SwitchPreview(state.name, refusal=refusal)
        return preview_switch(self.scheduler, state.name) if state.name in self.scheduler.serves else answer

    async def loadable(self) -> list[str]:
        """See `request.lease.preview.loadable`. Without those of which a check finds that they cannot load."""
        for new in unchecked_loadable(self.scheduler):
            states = [self.scheduler.serves[name] for name in new]
            # At once: a file system that does not answer holds up each check for seconds.
            await asyncio.gather(*(self._check_now(state) for state in states if state.phase is ServePhase.STOPPED))
        return loadable(self.scheduler)

    async def switch(
        self, name: str, drain_timeout: float | None = None, force: bool = False, evict: bool = True
    ) -> SwapReport:
        """Make a serve resident; returns when it is proved ready. On cancel the switch goes on. Without `evict`: only
        if nothing has to stop for it.

        Raises StokerError if it does not start; then the previous resident is started again.
        """
        state = self._state_of(name)
        name = state.name
        self._notify(OperatorActed(name))
        if force:
            self._forced.add(name)
        if state.phase is ServePhase.STOPPED:
            self._refuse_unforced(state)
            check = await self._check_now(state)
            self._refuse_hopeless(state, check)
            if check.lacks_weights:
                await asyncio.shield(self._downloads.task(name))
            state = self._state_of(name)
        before = self.last_swap.get(name)
        id = next(self._ids)
        future = self._wait(id, name, self._clock.now(), is_request=False)
        self._carry_out(self.scheduler.on_switch(id, name, self._clock.now(), drain_timeout, evict))
        await asyncio.shield(future)
        report = self.last_swap.get(name)
        if report is None or report is before:
            return SwapReport(0, state.name, state.slot_name, (), "ready")  # it was resident already
        return report

    async def unload(self, name: str, drain_timeout: float | None = None) -> None:
        """Drain and stop a serve, all its replicas; returns when it holds no host memory either. On cancel the unload
        goes on.
        """
        if name in self.scheduler.replica_sets:
            replicas = self.scheduler.replica_sets[name].replicas
            await asyncio.gather(*(self.unload(state.name, drain_timeout) for state in replicas))
            return
        id = next(self._ids)
        future = self._wait(id, name, self._clock.now(), is_request=False)
        self._carry_out(self.scheduler.on_unload(id, name, self._clock.now(), drain_timeout))
        await asyncio.shield(future)
        state = self.scheduler.serves.get(name)
        if state is not None and state.phase is ServePhase.STOPPED:
            await self._fleet.stop(name, state.serve.stop_grace)  # it may be asleep
            await self._fleet.forget(name)

    def set_held(self, name: str, is_held: bool) -> None:
        """Admit no new requests for a serve (`stoker serves drain`), or admit them again."""
        replicas = self.scheduler.replica_sets.get(name)
        for replica in (name,) if replicas is None else [state.name for state in replicas.replicas]:
            self._carry_out(self.scheduler.on_hold(replica, self._clock.now(), is_held))

    def pause(self, slot: str, cause: PauseCause, reason: str) -> None:
        """End what is loaded in a slot, by its drain, and load nothing there until every cause is over."""
        if self.scheduler.slots[slot].pauses.get(cause) != reason:
            log.warning("slot %s is paused: %s", slot, reason)
            self._carry_out(self.scheduler.on_pause(slot, cause, reason, self._clock.now()))
            self._notify(SlotPaused(slot, reason))

    def resume(self, slot: str, cause: PauseCause, reason: str) -> None:
        """A cause of a pause is over. After the last one, what was loaded comes back."""
        slot_state = self.scheduler.slots[slot]
        if cause in slot_state.pauses:
            self._carry_out(self.scheduler.on_resume(slot, cause, self._clock.now()))
            log.info("slot %s is paused no more: %s%s", slot, reason, "; another cause stays" * bool(slot_state.pauses))
            self._notify(SlotResumed(slot, reason, slot_state.pause_reason))

    def pause_by_operator(self, slot: str | None, reason: str) -> list[str]:
        """Pause one slot, or (None) all of this machine, also those that are added later. Returns which are paused."""
        if slot is None:
            self.scheduler.state.paused_everywhere = reason
        names = [slot] if slot is not None else self._slots_here()
        for name in names:
            self.pause(name, PauseCause.OPERATOR, reason)
        return names

    def resume_by_operator(self, slot: str | None) -> list[str]:
        """End what operators paused: one slot, or (None) all. Returns which were paused. Slots that are added later are
        not paused any more.
        """
        self.scheduler.state.paused_everywhere = ""
        slots = self.scheduler.slots
        names = [name for name in slots if slot in (None, name) and PauseCause.OPERATOR in slots[name].pauses]
        for name in names:
            self.resume(name, PauseCause.OPERATOR, "an operator resumed it")
        return names

    def pauses(self) -> OperatorPauses:
        """What operators have paused, to be remembered."""
        slots = self.scheduler.slots.values()
        reasons = {one.slot.name: one.pauses.get(PauseCause.OPERATOR, "") for one in slots}
        named = {name: reason for name, reason in reasons.items() if reason}
        return OperatorPauses(self.scheduler.state.paused_everywhere, named)

    def restore_pauses(self, pauses: OperatorPauses) -> list[str]:
        """Call it before `begin`. Returns what stays paused: slots, and serves without one."""
        self.scheduler.restore_pauses(pauses.slots, pauses.everywhere)
        return [name.removeprefix("~") for name in self.pauses().slots]

    def _slots_here(self) -> list[str]:
        return [name for name, slot_state in self.scheduler.slots.items() if slot_state.slot.is_here]

    def restart(self, name: str, reason: str) -> bool:
        """Restart a wedged serve: cut its streams, stop it, start it again. False: it is not ready, so nothing is
        done.
        """
        if self.scheduler.serves[name].phase is not ServePhase.READY:
            return False
        log.warning("serve %s is restarted: %s", name, reason)
        self._carry_out(self.scheduler.on_restart(name, self._clock.now(), reason))
        self._notify(ServeRestarted(name, reason))
        return True

    def report(self, name: str, reason: str) -> None:
        """Say that a serve does not work as configured; nothing else is done."""
        self._notify(ServeSick(name, reason))

    def park(self, name: str, reason: str) -> None:
        """Stop a serve, and do not start it again until an operator switches to it or its configuration changes."""
        log.error("serve %s is parked: %s", name, reason)
        self._notify(ServeParked(name, reason))
        self._carry_out(self.scheduler.on_park(name, self._clock.now(), reason))

    def preload(self, name: str) -> None:
        """Load a serve as soon as it fits without evicting another one."""
        self._carry_out(self.scheduler.on_preload(self._state_of(name).name, self._clock.now()))

    def move(self, running: Running) -> None:
        """A running external serve answers at another address from now on; leases under way keep the old one."""
        if running.serve.name in self.running:
            self._swapper.move(running)

    def set_measured_size(self, name: str, size: int) -> None:
        """Inform the scheduler how many bytes of its slot's memory a running serve holds."""
        if name in self.scheduler.serves:
            self._carry_out(self.scheduler.on_measured(name, size, self._clock.now()))

    def reload(self, slots: Iterable[Slot], serves: Iterable[Serve]) -> None:
        """Change to a new configuration; only what changed is touched."""
        self._carry_out(self.scheduler.on_reload(slots, serves, self._clock.now()))
        self.contested = _contested(self.scheduler)
        self._prompts.keep(self.scheduler.serves)

    # -- life ----------------------------------------------------------------------------------------------------

    async def begin(self) -> list[str]:
        """Adopt the serves that an earlier run of Stoker left running, finish interrupted swaps, then load the serves
        with `keep_loaded`. Returns the names of the adopted serves.
        """
        adopted: list[str] = []
        for running in await self._fleet.adopt([s.serve for s in self.scheduler.serves.values()], self._exited):
            name = running.serve.name
            state = self.scheduler.serves[name]
            fit = victims_for(state)
            if isinstance(fit, Victims) and not fit.serves:
                self.running[name] = running
                self._carry_out(self.scheduler.on_adopted(name, self._clock.now()))
                adopted.append(name)
                self._notify(ServeAdopted(name, running.serve.identity is ServeIdentity.MODELS))
            else:
                log.warning("serve %s was left running, but no longer fits its slot: it is stopped", name)
                await self._fleet.stop(name, state.serve.stop_grace)
        self._recovery.begin()
        self._carry_out(self.scheduler.on_tick(self._clock.now()))
        return adopted

    async def shut_down(self, grace: float) -> None:
        """Refuse waiting and new requests, give leases `grace` seconds to end, then cut the rest. On cancel: cut at
        once.
        """
        self._carry_out(self.scheduler.on_shutdown(self._clock.now()))
        self._closing = True
        for task in self._checks:
            task.cancel()
        await self._downloads.close()
        try:
            async with asyncio.timeout(grace):
                while self._leases:
                    self._released.clear()
                    await self._released.wait()
        except TimeoutError:
            log.warning("%s did not end within %.0f s and are cut", counted(len(self._leases), "request"), grace)
        finally:
            self._carry_out(self.scheduler.cut_all("Stoker is shutting down"))

    def hurry(self, leave_running: bool) -> None:
        """Shut down without waiting: cut all streams, and kill the serves that `close` would stop."""
        self._closing = True
        self._carry_out(self.scheduler.cut_all("Stoker is shutting down"))
        self._fleet.hurry(leave_running)

    async def close(self, leave_running: bool) -> list[str]:
        """After `shut_down`: cancel the swaps under way and close the fleet. Returns what `Fleet.close` does."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._look_again is not None:
            self._look_again.cancel()
        tasks = [*self._swapper.tasks(), *self._recovery.tasks()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._downloads.close()
        return await self._fleet.close(leave_running)

    # -- commands --------------------------------------------------------------------------------------------------

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Grant(id):
                    self._grant(id)
                case Reject(id, error):
                    waiting = self._waiting.pop(id, None)
                    if waiting is not None and not waiting.future.done():
                        waiting.future.set_exception(error)
                case Reassign(id, name):
                    if id in self._waiting:
                        self._waiting[id] = replace(self._waiting[id], serve=name)
                case Cut(_, leases, reason):
                    self._cut(leases, reason)
                case CheckStart(swap_id, target):
                    self._swapper.check_start(swap_id, target)
                case StartSwap():
                    self._swapper.start(command)
                case CancelSwap(swap_id):
                    self._swapper.cancel(swap_id)
                case WakeAt(at):
                    self._arm(at)

    def _grant(self, id: int) -> None:
        waiting = self._waiting.pop(id, None)
        if waiting is None:
            return
        now = self._clock.now()
        if not waiting.is_request:
            if not waiting.future.done():
                waiting.future.set_result(None)
        elif waiting.future.done():  # the request left at the same moment
            self._carry_out(self.scheduler.on_release(id, waiting.serve, now))
        else:
            state = self.scheduler.serves[waiting.serve]
            lease = self._lease(id, state, now, now - waiting.since, waiting.prompt)
            waiting.future.set_result(lease)

    def _cut(self, leases: tuple[int, ...], reason: str) -> None:
        for id in leases:
            lease = self._leases.pop(id, None)
            self._prompts.ended(id)
            if lease is not None and lease.meter is not None:
                lease.meter.end(lease, self._clock.now())
            if lease is not None and not self._leases:
                self.quiet_since = self._clock.now()
                self._fleet.set_busy(False)
            if lease is not None and lease.on_cut is not None:
                lease.on_cut(reason)

    def _arm(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at is not None and not self._closing:
            delay = max(0.0, at - self._clock.now())
            self._timer = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._carry_out(self.scheduler.on_tick(self._clock.now()))

    def _swap_done(self, done: SwapDone) -> None:
        self._notify(SwapEnded(done.report))
        swap_id, now = done.report.swap_id, self._clock.now()
        self._carry_out(
            self.scheduler.on_swap_done(swap_id, now, done.error, done.cancelled, done.victims_untouched, done.files)
        )
        self._look_again_later()

    def _exited(self, name: str, detail: str) -> None:
        log.warning("serve %s exited: %s", name, detail)
        self._swapper.mark_unreachable(name)
        self._notify(ServeExited(name, detail))
        code = self._fleet.failure_of(name)
        self._carry_out(self.scheduler.on_exit(name, self._clock.now(), detail, code))

    # -- checks ----------------------------------------------------------------------------------------------------

    async def _check_now(self, state: ServeState) -> QuickCheck:
        serve = state.serve
        checking = self._fleet.quick_check(serve)
        check = checking if isinstance(checking, QuickCheck) else await asyncio.shield(self._checking(checking))
        self._learn(state, serve, check)
        return check

    def _learn(self, state: ServeState, serve: Serve, check: QuickCheck) -> None:
        """What a check of `serve` says about whether it can load; nothing, if it was reloaded or removed meanwhile."""
        if self.scheduler.serves.get(state.name) is not state or state.serve is not serve:
            return
        former, now = state.cannot_load, self._clock.now()
        if check.lasting:
            reason = "; ".join(without_name(state.serve, problem) for problem in check.lasting)
            if former != CannotLoad(reason, reason) and state.phase is _STOPPED:
                log.warning("serve %s cannot load: %s", state.name, reason)
                self._carry_out(self.scheduler.on_cannot_load(state.name, now, reason))
                self._look_again_later()
        elif former is not None and (not former.failure or former.files != check.files):
            log.info("serve %s may be loaded again: what prevented it has changed", state.name)
            self._carry_out(self.scheduler.on_may_load(state.name, now))

    def _look_again_later(self) -> None:
        if self._look_again is None and not self._closing and self._broken():
            self._look_again = self._loop.call_later(LOOK_AGAIN_AFTER, self._look_at_broken)

    def _look_at_broken(self) -> None:
        """Have the files of serves that cannot load changed? Nobody may ask for them until that shows."""
        self._look_again = None
        for state in () if self._closing else self._broken():
            checking = self._fleet.quick_check(state.serve)
            if isinstance(checking, QuickCheck):
                self._learn(state, state.serve, checking)
            else:
                self._checking(checking).add_done_callback(partial(self._looked, state, state.serve))
        self._look_again_later()

    def _looked(self, state: ServeState, serve: Serve, done: asyncio.Task[QuickCheck]) -> None:
        if not done.cancelled() and done.exception() is None and not self._closing:
            self._learn(state, serve, done.result())

    def _broken(self) -> list[ServeState]:
        return [state for state in self.scheduler.serves.values() if state.cannot_load is not None]

    def _refuse_unforced(self, state: ServeState) -> None:
        """Refuse a rejected or blocked serve that nobody allowed to run. Raises StokerError."""
        serve = state.serve
        if serve.needs_force and self._forced.isdisjoint((serve.name, serve.replica_of)):
            raise needs_force(serve)

    def _refuse_hopeless(self, state: ServeState, check: QuickCheck) -> None:
        """Refuse a start that cannot succeed, before any resident is stopped. Raises StokerError."""
        if not check.problems or isinstance(
            victims_for(state), DoesNotFit
        ):  # that the scheduler refuses, in better words
            return
        if check.lasting and state.cannot_load is not None:
            raise cannot_load(state.serve, state.cannot_load)
        raise cannot_start(state.serve, list(check.problems))

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def downloads(self) -> int:
        """How many serves' weights are downloaded now."""
        return self._downloads.under_way

    def statistics(self) -> dict[str, int]:
        """How many requests wait, leases are out and swaps run; all zero once everything has ended."""
        return {"waiting": len(self._waiting), "leases": len(self._leases), "swaps": self._swapper.under_way}


def _contested(scheduler: Scheduler) -> frozenset[str]:
    """The serves in whose slots others can be loaded, too."""
    found = [one for one in scheduler.serves.values() if one.more_slots or len(one.slot_state.serves) > 1]
    return frozenset(one.serve.replica_of or one.name for one in found)
