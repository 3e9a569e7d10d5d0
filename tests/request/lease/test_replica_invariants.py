"""What holds in every story of serves with several places: Hypothesis tells thousands and checks after each event.

no slot over its budget; no waiter lost, granted twice, refused while a sibling is ready, or waiting while one has a
free place; no more replicas than allowed; one more only in an empty slot or when it is paid for, and nowhere where
somebody else waits; the same events give the same commands; nothing is left after everything ended.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples
from tests.request.lease.stage import replicated, serve

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Driver, Serve, Slot, SwapPolicy
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.commands import Command, Cut, Grant, Reassign, Reject, StartSwap, WakeAt
from stoker.request.lease.places import can_answer, choose_replica, free_place, is_alone
from stoker.request.lease.scheduler import Scheduler
from stoker.request.lease.state import PauseCause, ServeState, SwapKind
from stoker.request.lease.timing import measured_swap_time, timing
from stoker.request.lease.waiter import Want

SLOTS = ("gpu0", "gpu1", "gpu2")
PLACES = {"fast": "gpu0 gpu1 gpu2", "wide": "gpu0 gpu1", "pair": "gpu0+gpu1 gpu1+gpu2"}
ALONE = ["a", "b", "huge"]
ELSEWHERE = "wide@box"
ASKED = st.sampled_from([*PLACES, *ALONE])
ALL = st.sampled_from(
    [f"{name}@{slot}" for name, slots in PLACES.items() for slot in slots.split()] + [*ALONE, ELSEWHERE]
)
START = 3.0


class ReplicaStories(RuleBasedStateMachine):
    @initialize(
        memory=st.sampled_from([None, 2, 3]),
        most=st.integers(1, 3),
        places=st.integers(1, 2),
        queue=st.sampled_from([1, 5]),
        kept=st.integers(0, 2),
    )
    def begin(self, memory: int | None, most: int, places: int, queue: int, kept: int) -> None:
        limits: dict[str, Any] = {"max_active": places, "queue": queue, "memory": 1, "stop_grace": 1.0}
        self.slots = [Slot(name, memory=memory, swap=SwapPolicy(drain_timeout=5.0)) for name in SLOTS]
        self.serves: list[Serve] = [
            *replicated("fast", PLACES["fast"], most, min_replicas=min(kept, most), **limits),
            *replicated("wide", PLACES["wide"], 1, **limits),
            *replicated("pair", PLACES["pair"], 1, **{**limits, "memory": 2}),
            serve(ELSEWHERE, slot=None, replica_of="wide", driver=Driver.EXTERNAL, **limits),
            serve("a", slot="gpu0", **limits), serve("b", slot="gpu1", **limits),
            serve("huge", slot="gpu2+gpu0+gpu1", **{**limits, "memory": 3 * (memory or 1)}),
        ]  # fmt: skip
        self.scheduler, self.twin = Scheduler(self.slots, self.serves), Scheduler(self.slots, self.serves)
        self.now = 0.0
        self.most, self.kept = most, min(kept, most)
        self.asked: dict[int, str] = {}
        """By id, the replica or serve that it waits for or that serves it."""
        self.waiting: set[int] = set()
        self.holding: set[int] = set()
        self.swaps: dict[int, StartSwap] = {}
        self.begun: dict[int, float] = {}
        self.alive: set[str] = set()
        self.wake: float | None = None
        self.exempt: set[str] = set()
        """Serves of which an operator may have had one more replica loaded than allowed."""
        self.next = 0
        self.removed: set[str] = set()
        self.seen = 0
        """The id of the newest swap that was looked at."""
        self.kinds: dict[int, SwapKind] = {}

    # -- carrying out ----------------------------------------------------------------------------------------

    def tell(self, event: str, *values: Any, is_failure: bool = False) -> None:
        """Both schedulers hear of an event, and answer the same: one decides where something has changed, the other one
        everywhere.
        """
        for group in self.twin.state.slot_groups():
            group.touch()
        commands: list[Command] = getattr(self.scheduler, event)(*values)
        again: list[Command] = getattr(self.twin, event)(*values)
        assert [repr(command) for command in commands] == [repr(command) for command in again]
        self.look_at_decisions()
        moves = [command for command in commands if isinstance(command, Reassign)]
        assert len(moves) == len(set(moves)), "no request is passed to and fro"
        for command in commands:
            match command:
                case Grant(id):
                    self.waiting.remove(id)
                    if id > 0:
                        assert self.asked[id] in self.alive
                        self.holding.add(id)
                case Reject(id, error):
                    self.waiting.remove(id)
                    assert error.message
                    assert error.code != "no_fit", "nothing is kept loaded at the price that others never run"
                    assert not (is_failure and id > 0 and self.siblings_can_answer(self.asked[id]))
                case Reassign(id, name):
                    assert id in self.waiting
                    assert id > 0
                    assert name.partition("@")[0] == self.asked[id].partition("@")[0] != name
                    self.asked[id] = name
                case Cut(serve, leases, _):
                    for lease in leases:
                        assert self.asked[lease] == serve
                        self.holding.remove(lease)
                case StartSwap(swap_id, target, victims):
                    self.started(swap_id, target, victims, command)
                case WakeAt(at):
                    self.wake = at

    def look_at_decisions(self) -> None:
        """A swap for others that leaves fewer replicas of a serve than are kept happens only where the target could not
        run otherwise, and none can start in a free place instead, or a request has waited `max_wait`.
        """
        swaps = {swap.swap_id: swap for slot in self.scheduler.slots.values() for swap in slot.swaps.values()}
        for swap_id in sorted(id for id in swaps if id > self.seen):
            self.seen, swap = swap_id, swaps[swap_id]
            self.kinds[swap_id] = swap.kind
            kept = {victim.replica_set for victim in swap.victims if victim.takes_requests()}
            short = [one for one in self.scheduler.state.kept_sets() if one in kept and one.spare() < 0]
            target = swap.target
            if not short or target is None or any(w.want is Want.SWITCH for w in target.queue.values()):
                continue
            assert swap.kind is SwapKind.DEMAND
            assert target.queue
            is_overdue = target.queue and target.oldest + timing(target).max_wait <= self.now
            for one in short:
                # One that starts elsewhere later in the same decision may do so because this one stops: see `most`.
                begun = [s for s in swaps.values() if s.swap_id < swap_id and not s.victims]
                elsewhere = [s for s in begun if s.target in one.replicas]
                assert is_overdue or (one.spare() + len(elsewhere) < 0 and free_place(one, self.now, target) is None)
            victims = [victim for victim in swap.victims if victim.replica_set in short]
            assert any(
                slot.sizes(s for s in (*victims, target) if slot in s.slot_states) > slot.budget
                for slot in target.slot_states
            ), f"{target.name} fits beside those that are kept"

    def started(self, swap_id: int, target: str | None, victims: tuple[str, ...], command: StartSwap) -> None:
        for victim in victims:
            assert not [id for id in self.holding if self.asked[id] == victim]
            if target is not None:
                self.alive.discard(victim)
        self.swaps[swap_id] = command
        self.begun[swap_id] = self.now
        if target is not None:
            assert not self.scheduler.serves[target].is_paused
            self.alive.add(target)
            state = self.scheduler.serves[target]
            is_more = not state.queue and not state.wanted and self.has_ready_sibling(target)
            if is_more and self.kinds[swap_id] is not SwapKind.KEEP and not self.is_exempt(target):
                self.may_be_started(target)

    def may_be_started(self, target: str) -> None:
        state = self.scheduler.serves[target]
        assert state.replica_set is not None
        if not is_alone(state):
            waited = sum(self.now - w.since for s in state.replica_set.replicas for w in s.queue.values())
            assert waited + 1e-3 >= state.slot_state.slot.swap.patience * measured_swap_time(state)
        others = [s for slot_state in state.slot_states for s in slot_state.serves if s.replica_set is None]
        assert not any(s.queue for s in others if s.phase is ServePhase.STOPPED)

    def is_exempt(self, name: str) -> bool:
        return name.partition("@")[0] in self.exempt

    def has_ready_sibling(self, name: str) -> bool:
        return any(s.phase is ServePhase.READY and s.takes_requests() for s in self.siblings(name))

    def siblings_can_answer(self, name: str) -> bool:
        return any(can_answer(state, self.now) for state in self.siblings(name))

    def siblings(self, name: str) -> list[ServeState]:
        replicas = self.scheduler.serves[name].replica_set if name in self.scheduler.serves else None
        return [] if replicas is None else [s for s in replicas.replicas if s.name != name]

    # -- what may happen ---------------------------------------------------------------------------------------

    @rule(name=ASKED, data=st.data())
    def request(self, name: str, data: st.DataObject) -> None:
        self.next += 1
        replicas = self.scheduler.replica_sets.get(name)
        if replicas is not None:
            missing = {s.name: data.draw(st.integers(1, 9)) for s in replicas.replicas}
            name = choose_replica(replicas.replicas, self.now, missing).name
        self.asked[self.next] = name
        self.waiting.add(self.next)
        self.tell("on_request", self.next, name, self.now)

    @rule(data=st.data())
    def burst(self, data: st.DataObject) -> None:
        for _ in range(4):
            self.request("fast", data)

    @rule(slot=st.sampled_from(SLOTS))
    def pause(self, slot: str) -> None:
        self.tell("on_pause", slot, PauseCause.OPERATOR, "it is needed", self.now, is_failure=True)
        for state in self.scheduler.slots[slot].serves:
            assert state.phase is not ServePhase.READY
            assert not state.queue

    @rule(slot=st.sampled_from(SLOTS))
    def resume(self, slot: str) -> None:
        self.exempt.update(PLACES)  # one that still drains counts again, beside the one in its stead
        self.tell("on_resume", slot, PauseCause.OPERATOR, self.now)

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def served(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.holding)))
        self.holding.remove(id)
        self.tell("on_release", id, self.asked[id], self.now)

    @precondition(lambda self: any(id > 0 for id in self.waiting))
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(id for id in self.waiting if id > 0)))
        self.waiting.remove(id)
        self.tell("on_cancel", id, self.asked[id], self.now)

    @precondition(lambda self: self.swaps)
    @rule(data=st.data(), outcome=st.sampled_from(["ready", "ready", "failed", "untouched"]))
    def swap_done(self, data: st.DataObject, outcome: str) -> None:
        self.finish(data.draw(st.sampled_from(sorted(self.swaps))), outcome)

    def finish(self, swap_id: int, outcome: str) -> None:
        swap = self.swaps.pop(swap_id)
        is_untouched = outcome == "untouched" and swap.target is not None
        error = StartFailed("it broke") if outcome != "ready" and swap.target else None
        if error is not None:
            self.alive.discard(str(swap.target))
        if is_untouched:
            self.alive.update(v for v in swap.victims if not self.scheduler.serves[v].exited)
        else:
            self.alive.difference_update(swap.victims)
        self.tell("on_swap_done", swap_id, self.now, error, False, is_untouched, is_failure=error is not None)

    @rule(data=st.data())
    def exits(self, data: st.DataObject) -> None:
        ready = [n for n, s in self.scheduler.serves.items() if s.phase is ServePhase.READY]
        if ready:
            name = data.draw(st.sampled_from(ready))
            self.holding -= {id for id in self.holding if self.asked[id] == name}
            self.alive.discard(name)
            self.tell("on_exit", name, self.now, "gone", is_failure=True)

    @rule(name=ALL)
    def park(self, name: str) -> None:
        if name not in self.scheduler.serves:
            return
        self.tell("on_park", name, self.now, "it flaps", is_failure=True)

    @rule(name=ALL, is_held=st.booleans())
    def hold(self, name: str, is_held: bool) -> None:
        if name not in self.scheduler.serves:
            return
        if not is_held:
            self.exempt.add(name.partition("@")[0])
        self.tell("on_hold", name, self.now, is_held)

    @rule(name=ALL)
    def restart(self, name: str) -> None:
        if name not in self.scheduler.serves:
            return
        self.tell("on_restart", name, self.now, "wedged")

    @rule(name=ALL)
    def switch(self, name: str) -> None:
        if name not in self.scheduler.serves:
            return
        self.next += 1
        self.exempt.add(name.partition("@")[0])
        self.asked[-self.next] = name
        self.waiting.add(-self.next)
        self.tell("on_switch", -self.next, name, self.now)

    @rule(name=ALL)
    def unload(self, name: str) -> None:
        if name not in self.scheduler.serves:
            return
        self.next += 1
        self.asked[-self.next] = name
        self.waiting.add(-self.next)
        self.tell("on_unload", -self.next, name, self.now)

    @rule(name=st.sampled_from(["fast@gpu2", "wide@gpu1"]))
    def reload(self, name: str) -> None:
        """A place of a serve is removed, or added again. Its other replicas and their streams go on."""
        self.removed ^= {name}
        loaded = (ServePhase.READY, ServePhase.STARTING)
        others = [s for s in self.scheduler.serves.values() if s.name != name and s.phase in loaded]
        streams = [set(s.leases) for s in others]
        self.tell("on_reload", self.slots, [s for s in self.serves if s.name not in self.removed], self.now)
        assert all(before <= set(s.leases) for before, s in zip(streams, others, strict=True))
        left = {s for s in others if s.phase not in loaded}
        assert left <= {
            v for s in self.scheduler.slots.values() for w in s.swaps.values() if w.target for v in w.victims
        }

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.until(self.now + seconds)

    def until(self, at: float) -> None:
        """Ticks come when asked for, and no start takes longer than START."""
        for _ in range(500):
            due = [(self.begun[g] + START, g) for g in self.swaps]
            times = [t for t, _ in due] + ([self.wake] if self.wake is not None else [])
            moment = min(times, default=at + 1)
            if moment > at:
                break
            self.now = max(self.now, moment)
            if self.wake is not None and self.wake <= self.now:
                self.wake = None
                self.tell("on_tick", self.now)
            for ends, swap_id in due:
                if ends <= self.now and swap_id in self.swaps:
                    self.finish(swap_id, "ready")
        else:
            raise AssertionError("the scheduler asks for ticks without end")
        self.now = max(self.now, at)

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def no_slot_is_over_its_budget(self) -> None:
        for slot_state in self.scheduler.slots.values():
            assert (
                slot_state.sizes(state for state in slot_state.serves if state.name in self.alive) <= slot_state.budget
            )

    @invariant()
    def no_waiter_is_lost(self) -> None:
        queued = {id: s.name for s in self.scheduler.serves.values() for id in [*s.queue, *s.unloads]}
        assert queued == {id: self.asked[id] for id in self.waiting}

    @invariant()
    def leases_are_those_that_were_granted(self) -> None:
        assert {id: s.name for s in self.scheduler.serves.values() for id in s.leases} == {
            id: self.asked[id] for id in self.holding
        }

    @invariant()
    def no_more_replicas_than_allowed(self) -> None:
        """Where an operator holds one, or its slot is paused, another one may start in its stead."""
        for name, most in (("fast", self.most), ("wide", 1), ("pair", 1)):
            if not self.is_exempt(name):
                replicas = [one for one in self.scheduler.replica_sets[name].replicas if not one.is_elsewhere]
                counting = [state for state in replicas if not (state.is_held or state.is_paused)]
                assert sum(state.phase is not ServePhase.STOPPED for state in counting) <= most

    @invariant()
    def no_replica_has_a_free_place_while_a_request_waits_for_another_one(self) -> None:
        """But for those that may not be moved there, or give way to a request for another model there."""
        for replicas in self.scheduler.replica_sets.values():
            for idle in replicas.replicas:
                if idle.phase is not ServePhase.READY or not idle.takes_requests() or not idle.has_place():
                    continue
                for waiter in [w for sibling in replicas.replicas for w in sibling.queue.values()]:
                    assert (
                        waiter.want is Want.SWITCH
                        or idle.name in waiter.avoid
                        or (waiter.is_background and idle.gives_way())
                    )

    @invariant()
    def every_serve_with_something_to_decide_is_live(self) -> None:
        for state in self.scheduler.serves.values():
            if state.queue or state.wanted or state.phase is not ServePhase.STOPPED:
                assert all(state in slot_state.live for slot_state in state.slot_states)

    @invariant()
    def a_place_of_several_slots_is_taken_as_a_whole(self) -> None:
        for state in self.scheduler.serves.values():
            swaps = [set(slot_state.swaps) for slot_state in state.slot_states]
            own = {
                swap.swap_id
                for slot_state in state.slot_states
                for swap in slot_state.swaps.values()
                if swap.target is state
            }
            assert all(own <= here for here in swaps)
            assert all(state in slot_state.serves for slot_state in state.slot_states)

    @invariant()
    def waiters_stand_in_order_of_arrival(self) -> None:
        for state in self.scheduler.serves.values():
            since = [waiter.since for waiter in state.queue.values()]
            assert since == sorted(since)

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for id in sorted(self.holding):
            self.holding.remove(id)
            self.tell("on_release", id, self.asked[id], self.now)
        for state in self.scheduler.serves.values():
            self.tell("on_hold", state.name, self.now, False)
        for slot in SLOTS:
            self.tell("on_resume", slot, PauseCause.OPERATOR, self.now)
        for _ in range(40):
            self.until(self.now + 60.0)
            for id in sorted(self.holding):
                self.holding.remove(id)
                self.tell("on_release", id, self.asked[id], self.now)
        assert not self.waiting
        assert not self.swaps
        self.as_many_are_loaded_as_are_kept()

    def as_many_are_loaded_as_are_kept(self) -> None:
        """Everything is idle for long: they are back, unless an operator unloaded or parked them."""
        replicas = self.scheduler.replica_sets["fast"]
        usable = [s for s in replicas.replicas if not s.is_unloaded and not s.parked]
        if usable and not self.is_exempt("fast"):
            assert replicas.spare() >= min(self.kept, len(usable)) - self.kept


ReplicaStories.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestReplicaStories = ReplicaStories.TestCase
