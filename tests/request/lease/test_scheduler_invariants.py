"""What holds in every story: Hypothesis tells thousands of them and checks after each event.

never over budget, never outside the sets of `together`; never a victim stopped with leases before its drain ended;
no waiter lost; nobody waits for a load longer than the documented bound while it can start, whoever's sessions use the
residents, however long these load and read; nothing is left after everything ended.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples

from stoker.domain.errors import StartFailed
from stoker.domain.lease import FairShare
from stoker.domain.serve import Serve, Slot, SwapPolicy
from stoker.domain.serve_phase import ServePhase
from stoker.domain.session import Session
from stoker.domain.usage import ServeUsage
from stoker.request.lease.commands import CancelSwap, Command, Cut, Grant, Reject, StartSwap, WakeAt
from stoker.request.lease.scheduler import Scheduler
from stoker.request.lease.sessions import LOOP_WAITS, is_in_loop
from stoker.request.lease.state import PauseCause
from stoker.request.lease.timing import MIN_MAX_WAIT
from stoker.request.lease.waiter import Want

NAMES = st.sampled_from("abcd")
STARTS = (1.0, 3.0, 12.0)
"""A start of a serve takes at most one of these."""
SERVICE = 40.0


class Stories(RuleBasedStateMachine):
    @initialize(
        memory=st.sampled_from([None, 4, 6, 10]),
        together=st.sampled_from(["", "", "ac bc", "abc cd", "ab cd"]),
        drain=st.sampled_from([0.0, 5.0]),
        data=st.data(),
    )
    def begin(self, memory: int | None, together: str, drain: float, data: st.DataObject) -> None:
        self.now = 0.0
        self.drain = drain
        policy = SwapPolicy(
            drain_timeout=drain,
            swap_after=data.draw(st.sampled_from([2, 8])),
            swap_timeout=data.draw(st.sampled_from([1e9, 60.0])),
        )
        serves = [
            Serve(
                name=name,
                slot="gpu",
                memory=data.draw(st.integers(1, 5)),
                max_active=data.draw(st.integers(1, 3)),
                queue=5,
                queue_timeout=data.draw(st.sampled_from([0.0, 30.0])),
                idle_unload=data.draw(st.sampled_from([None, 20.0])),
                stop_grace=1.0,
            )
            for name in "abcd"
        ]
        sets = tuple(map(frozenset, together.split()))
        idle_serve = data.draw(st.sampled_from([None, None, "a"]))
        self.slot = Slot("gpu", memory=memory, together=sets, idle_serve=idle_serve, idle_serve_after=10.0, swap=policy)
        self.scheduler = Scheduler([self.slot], serves)
        self.asked: dict[int, str] = {}
        self.waiting: dict[int, float] = {}
        self.holding: dict[int, str] = {}
        self.swaps: dict[int, StartSwap] = {}
        self.begun: dict[int, float] = {}
        self.alive: set[str] = set()
        self.draining_since: dict[str, float] = {}
        self.wake: float | None = None
        self.troubled = False
        self.next = 0
        self.sessions: dict[int, Session] = {}
        self.starts = {name: data.draw(st.sampled_from(STARTS)) for name in "abcd"}
        self.was_patient: set[int] = set()
        """Requests that were in a loop while they waited."""

    # -- carrying out ----------------------------------------------------------------------------------------

    def take(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Grant(id):
                    if id in self.waiting:
                        del self.waiting[id]
                        if id > 0:
                            assert self.asked[id] in self.alive
                            self.holding[id] = self.asked[id]
                case Reject(id, error):
                    assert error.message
                    assert self.waiting.pop(id, None) is not None, "refused somebody who did not wait"
                case Cut(serve, leases, _):
                    for lease in leases:
                        assert self.holding.pop(lease) == serve
                case StartSwap(swap_id, target, victims):
                    assert target is None or not self.scheduler.serves[target].is_paused
                    for victim in victims:
                        held = [id for id, name in self.holding.items() if name == victim]
                        assert not held, f"{victim} is stopped under {held}"
                        if target is not None:  # gone before the target starts
                            self.alive.discard(victim)
                    self.swaps[swap_id] = command
                    self.begun[swap_id] = self.now
                    if target is not None:
                        self.alive.add(target)
                case CancelSwap(swap_id):
                    assert swap_id in self.swaps
                case WakeAt(at):
                    self.wake = at

    def ask(self, name: str, takes_place: bool, session: Session | None = None) -> None:
        self.next += 1
        id = self.next
        self.asked[id] = name
        self.waiting[id] = self.now
        share = FairShare("agent", session=session)
        self.take(self.scheduler.on_request(id, name, self.now, takes_place, share))

    # -- what may happen ---------------------------------------------------------------------------------------

    @rule(name=NAMES, number=st.integers(0, 3), calls=st.booleans(), parent=st.booleans())
    def turn(self, name: str, number: int, calls: bool, parent: bool) -> None:
        """A session asks. Its last answer called a tool, or not."""
        if number not in self.sessions:
            above = next(iter(self.sessions.values()), None) if parent else None
            self.sessions[number] = Session(str(number), parent=above)
        self.sessions[number].in_loop = calls
        self.note_patient()
        self.ask(name, True, self.sessions[number])

    @precondition(lambda self: self.holding)
    @rule(data=st.data(), tokens=st.sampled_from([0, 10_000, 150_000]), per_token=st.sampled_from([1e-4, 1e-2]))
    def answered(self, data: st.DataObject, tokens: int, per_token: float) -> None:
        """A turn of a session ends with a call; its serve is seen to read its prompt so fast."""
        id = data.draw(st.sampled_from(sorted(self.holding)))
        state = self.scheduler.serves[self.holding.pop(id)]
        held = state.leases[id]
        if held and held[0].session is not None:
            usage = ServeUsage(state.name, tokens, 1, 0, calls_tool=True, reading_seconds=tokens * per_token)
            state.note_answer(held[0].session, usage)
            self.note_patient()
        self.take(self.scheduler.on_release(id, state.name, self.now))

    def note_patient(self) -> None:
        for state in self.scheduler.serves.values():
            self.was_patient.update(waiter.id for waiter in state.queue.values() if is_in_loop(waiter))

    @rule(name=NAMES, takes_place=st.booleans())
    def request(self, name: str, takes_place: bool) -> None:
        self.ask(name, takes_place)

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def served(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.holding)))
        self.take(self.scheduler.on_release(id, self.holding.pop(id), self.now))

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def allow_preemption(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.holding)))
        self.take(self.scheduler.on_preemption_allowed(id, self.holding[id], self.now))

    @precondition(lambda self: any(id > 0 for id in self.waiting))
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(id for id in self.waiting if id > 0)))
        del self.waiting[id]
        self.take(self.scheduler.on_cancel(id, self.asked[id], self.now))

    @precondition(lambda self: self.swaps)
    @rule(data=st.data(), outcome=st.sampled_from(["ready", "ready", "ready", "failed", "untouched"]))
    def swap_done(self, data: st.DataObject, outcome: str) -> None:
        self.finish(data.draw(st.sampled_from(sorted(self.swaps))), outcome)

    def finish(self, swap_id: int, outcome: str) -> None:
        swap = self.swaps.pop(swap_id)
        victims_untouched = outcome == "untouched" and swap.target is not None
        error = StartFailed("it broke") if outcome != "ready" and swap.target else None
        if error is not None:
            self.troubled = True
            self.alive.discard(str(swap.target))
        if victims_untouched:
            self.alive.update(v for v in swap.victims if not self.scheduler.serves[v].exited)
        else:
            self.alive.difference_update(swap.victims)
        self.take(self.scheduler.on_swap_done(swap_id, self.now, error, victims_untouched=victims_untouched))

    @rule(name=NAMES)
    def restart(self, name: str) -> None:
        self.troubled = True
        self.take(self.scheduler.on_restart(name, self.now, "wedged"))

    @rule(name=NAMES)
    def preload(self, name: str) -> None:
        self.take(self.scheduler.on_preload(name, self.now))

    @rule(name=NAMES)
    def park(self, name: str) -> None:
        self.troubled = True
        self.take(self.scheduler.on_park(name, self.now, "it flaps"))

    @rule(data=st.data())
    def exits(self, data: st.DataObject) -> None:
        alive = (ServePhase.READY, ServePhase.DRAINING, ServePhase.STOPPING)
        ready = [n for n, s in self.scheduler.serves.items() if s.phase in alive and not s.exited]
        if ready:
            name = data.draw(st.sampled_from(ready))
            self.troubled = True
            for id in [id for id, held in self.holding.items() if held == name]:
                del self.holding[id]
            self.alive.discard(name)
            self.take(self.scheduler.on_exit(name, self.now, "gone"))

    @rule(name=NAMES, drain=st.sampled_from([None, 0.0, 2.0]))
    def switch(self, name: str, drain: float | None) -> None:
        self.next += 1
        self.troubled = True  # an operator may hold up the others: no bound is promised to them
        self.asked[-self.next] = name
        self.waiting[-self.next] = self.now
        self.take(self.scheduler.on_switch(-self.next, name, self.now, drain))

    @rule(name=NAMES)
    def unload(self, name: str) -> None:
        self.next += 1
        self.troubled = True
        self.asked[-self.next] = name
        self.waiting[-self.next] = self.now
        self.take(self.scheduler.on_unload(-self.next, name, self.now))

    @rule(name=NAMES, held=st.booleans())
    def hold(self, name: str, held: bool) -> None:
        self.troubled = True
        self.take(self.scheduler.on_hold(name, self.now, held))

    @rule(cause=st.sampled_from(PauseCause))
    def pause(self, cause: PauseCause) -> None:
        self.take(self.scheduler.on_pause("gpu", cause, "it is needed", self.now))

    @rule(cause=st.sampled_from(PauseCause))
    def resume(self, cause: PauseCause) -> None:
        self.take(self.scheduler.on_resume("gpu", cause, self.now))

    @rule(name=NAMES, context=st.sampled_from([None, 1024]), places=st.integers(1, 3))
    def reload(self, name: str, context: int | None, places: int) -> None:
        self.troubled = True
        fresh = []
        for state in self.scheduler.serves.values():
            old = state.pending or state.serve
            if state.name == name:
                old = Serve(
                    name=name,
                    slot="gpu",
                    memory=old.memory,
                    max_active=places,
                    queue=5,
                    context=context,
                    stop_grace=1.0,
                )
            fresh.append(old)
        self.take(self.scheduler.on_reload([self.slot], fresh, self.now))

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.until(self.now + seconds)

    def until(self, at: float) -> None:
        """Ticks come when asked for, and no start takes longer than that serve's."""
        for _ in range(500):
            due = [(self.begun[g] + self.starts[swap.target or "a"], g) for g, swap in self.swaps.items()]
            times = [t for t, _ in due] + ([self.wake] if self.wake is not None else [])
            moment = min(times, default=at + 1)
            if moment > at:
                break
            self.now = max(self.now, moment)
            if self.wake is not None and self.wake <= self.now:
                self.wake = None
                self.take(self.scheduler.on_tick(self.now))
            for ends, swap_id in due:
                if ends <= self.now and swap_id in self.swaps:
                    self.finish(swap_id, "ready")
        else:
            raise AssertionError("the scheduler asks for ticks without end")
        self.now = max(self.now, at)

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def never_over_budget(self) -> None:
        for slot_state in self.scheduler.slots.values():
            assert (
                slot_state.sizes(state for state in slot_state.serves if state.name in self.alive) <= slot_state.budget
            )

    @invariant()
    def what_is_loaded_is_within_one_set(self) -> None:
        assert self.slot.allows(self.alive)

    @invariant()
    def leases_are_those_that_were_granted(self) -> None:
        known = {id for state in self.scheduler.serves.values() for id in state.leases}
        assert known == set(self.holding)
        for state in self.scheduler.serves.values():
            assert state.active == sum(map(bool, state.leases.values()))
            assert state.preemptible.keys() <= state.leases.keys()
            if not self.troubled:
                assert state.active <= state.serve.max_active

    @invariant()
    def no_waiter_is_lost(self) -> None:
        queued = {id for state in self.scheduler.serves.values() for id in [*state.queue, *state.unloads]}
        assert queued == set(self.waiting)

    @invariant()
    def in_a_paused_slot_nothing_is_ready_and_no_request_waits_but_for_the_end_of_a_sleep(self) -> None:
        pauses = self.scheduler.slots["gpu"].pauses
        if pauses:
            for state in self.scheduler.serves.values():
                assert state.phase is not ServePhase.READY
                assert not state.queue or pauses.keys() == {PauseCause.SUSPEND}

    @invariant()
    def nobody_ready_has_a_free_place_and_a_waiter(self) -> None:
        for state in self.scheduler.serves.values():
            if state.phase is ServePhase.READY and state.has_place():
                assert not any(w.takes_place for w in state.queue.values())

    @invariant()
    def requests_wait_for_a_place_on_ready_serves_and_for_a_load_on_others(self) -> None:
        for state in self.scheduler.serves.values():
            is_ready = state.phase is ServePhase.READY
            assert all(w.waits_for_place is is_ready for w in state.queue.values() if w.want is Want.REQUEST)
            assert all(w.deadline > self.now for w in state.queue.values() if w.want is Want.REQUEST)

    @invariant()
    def nobody_waits_for_what_a_lease_holds_that_yields(self) -> None:
        for state in self.scheduler.serves.values():
            if state.preemptible:
                assert state.phase is ServePhase.READY
                assert not any(w.takes_place for w in state.queue.values())

    @invariant()
    def nobody_waits_for_a_load_longer_than_the_bound(self) -> None:
        """`max_wait`, which follows from the swap time of its own serve alone, and a swap of each serve."""
        self.note_patient()
        if self.troubled:
            return
        swaps = len(self.scheduler.serves) * (self.drain + max(self.starts.values()))
        for state in self.scheduler.serves.values():
            if state.phase is ServePhase.READY or not state.queue:
                continue
            max_wait = max(MIN_MAX_WAIT, 2 * self.slot.swap.patience * self.starts[state.name])
            for waiter in state.queue.values():
                if state.ready_since >= waiter.since:
                    continue  # it was loaded meanwhile: what this waited for was a place
                most = max_wait
                if waiter.id in self.was_patient:
                    most = max(most, min(LOOP_WAITS * max_wait, (waiter.deadline - waiter.since) / 2))
                assert self.now - waiter.since <= most + swaps + 1e-6

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.take(self.scheduler.on_shutdown(self.now))
        assert not [id for id in self.waiting if id > 0]
        for command in self.scheduler.cut_all("end"):
            self.take([command])
        self.until(self.now + 100)
        assert not self.holding
        assert not self.swaps
        for state in self.scheduler.serves.values():
            assert not state.leases
            assert not state.queue
            assert not state.unloads


TestStories = Stories.TestCase
TestStories.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
