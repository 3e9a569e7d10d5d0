"""`together`: which serves of a slot may be loaded at the same time, and who stops for another one."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.request.lease.stage import Stage, serve

from stoker.domain.serve import Slot, SwapPolicy
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.commands import StartSwap
from stoker.request.lease.eviction import Victims, evict_cost, fits, least_total, victims_for
from stoker.request.lease.state import ServeState, SlotState

AT_ONCE = {"min_residency": 0.0, "linger": 0.0, "max_wait": 1.0}


def stage_of(names: str, together: str, **fields: object) -> Stage:
    return Stage(*(serve(name) for name in names), together=together, **{**AT_ONCE, **fields})  # type: ignore[arg-type]


def ask(stage: Stage, name: str, took: float = 1.0) -> list[str]:
    """A request is served, with a load if it needs one. Returns who was stopped for it."""
    stage.swaps.clear()
    id = stage.request(name)
    victims = list(stage.swaps[0].victims) if stage.swaps else []
    if stage.swaps:
        stage.ready(took)
    assert id in stage.granted
    stage.served(id, name)
    return victims


def loaded(stage: Stage) -> str:
    return "".join(sorted(n for n, s in stage.scheduler.serves.items() if s.phase is ServePhase.READY))


def test_serves_of_one_set_are_loaded_beside_each_other_and_others_are_not() -> None:
    stage = stage_of("abc", "ac bc")
    assert ask(stage, "a") == []
    assert ask(stage, "c") == []
    assert ask(stage, "b") == ["a"]
    assert loaded(stage) == "bc"


def test_a_serve_in_no_set_is_loaded_alone() -> None:
    stage = stage_of("abcd", "ac bc")
    ask(stage, "a")
    ask(stage, "c")
    assert sorted(ask(stage, "d")) == ["a", "c"]
    assert loaded(stage) == "d"
    assert ask(stage, "a") == ["d"]


def test_a_part_of_a_set_is_allowed() -> None:
    stage = stage_of("abc", "abc")
    for name in "cab":
        assert ask(stage, name) == []
    assert loaded(stage) == "abc"


def test_of_two_sets_the_one_is_kept_that_costs_the_least() -> None:
    stage = stage_of("abct", "at bt ct ab")
    ask(stage, "a", took=9.0)
    ask(stage, "b", took=2.0)
    assert ask(stage, "t") == ["b"], "a takes longer to bring back"


def test_a_busy_resident_stays_if_an_idle_one_can_go_instead() -> None:
    stage = stage_of("abt", "at bt ab")
    ask(stage, "a", took=2.0)
    ask(stage, "b", took=9.0)
    stage.request("a")
    assert ask(stage, "t") == ["b"]


def test_both_rules_hold_in_a_slot_with_memory() -> None:
    sizes = {"a": 4, "b": 4, "c": 4}
    stage = Stage(*(serve(n, memory=m) for n, m in sizes.items()), memory=8, together="abc", **AT_ONCE)
    ask(stage, "a")
    ask(stage, "b")
    assert len(ask(stage, "c")) == 1, "the set has all three, the memory has not"
    stage = Stage(*(serve(n, memory=m) for n, m in sizes.items()), memory=100, together="ab", **AT_ONCE)
    ask(stage, "a")
    ask(stage, "b")
    assert sorted(ask(stage, "c")) == ["a", "b"], "the memory would do, no set has them"


def test_a_serve_that_no_set_has_beside_a_pinned_one_is_refused_with_the_reason() -> None:
    stage = Stage(serve("a", keep_loaded=True), serve("b"), serve("c"), together="ac bc", **AT_ONCE)
    stage.take(stage.scheduler.on_tick(0.0))
    stage.ready()
    refused = stage.refused[stage.request("b")]
    assert refused.message == (
        "serve 'b' cannot be loaded beside a (keep_loaded): no set of `together` of slot 'gpu' has them all"
    )
    assert ask(stage, "c") == []
    assert loaded(stage) == "ac"


def test_while_another_serve_starts_a_start_that_no_set_allows_waits() -> None:
    stage = stage_of("ab", "ax bx")
    stage.request("a")
    stage.request("b")
    assert stage.swaps == [StartSwap(1, "a", ())]
    stage.ready(1.0)
    stage.served(stage.granted[-1], "a")
    stage.to(stage.now + 2)
    assert stage.swaps == [StartSwap(2, "b", ("a",))]


def test_what_stops_already_costs_nothing_and_is_waited_for() -> None:
    stage = stage_of("abt", "at bt ab")
    ask(stage, "a")
    ask(stage, "b")
    held = stage.request("b")
    stage.unload("b", drain=10.0)
    waiting = stage.request("t")
    assert stage.swaps == [], "it need not stop a: b goes"
    stage.served(held, "b")
    stage.ready()
    assert stage.swaps == [StartSwap(4, "t", ())]
    stage.ready()
    assert waiting in stage.granted
    assert loaded(stage) == "at"


def test_a_reload_of_the_sets_counts_with_the_next_load() -> None:
    stage = stage_of("abc", "abc")
    for name in "ab":
        ask(stage, name)
    slot = Slot("gpu", together=(frozenset("ac"),), swap=SwapPolicy(**AT_ONCE))
    fresh = [state.serve for state in stage.scheduler.serves.values()]
    stage.take(stage.scheduler.on_reload([slot], fresh, stage.now))
    assert loaded(stage) == "ab", "what is loaded stays"
    assert ask(stage, "c") == ["b"]


# -- the choice is the cheapest one ------------------------------------------------------------------------------------


@st.composite
def slots(draw: st.DrawFn) -> SlotState:
    names = "abcdef"
    memory = draw(st.sampled_from([None, 6, 10]))
    sets = draw(st.lists(st.frozensets(st.sampled_from(names), min_size=2), min_size=1, max_size=4))
    slot_state = SlotState(Slot("gpu", memory=memory, together=tuple(sets)))
    for name in names:
        state = ServeState(serve(name, memory=draw(st.integers(1, 5))), slot_state)
        state.note_swap_time(float(draw(st.integers(1, 5))))
        state.last_used = float(draw(st.integers(0, 3)))
        slot_state.serves.append(state)
        state.join_live()
    for state in slot_state.serves[1:]:
        if draw(st.booleans()) and fits(state):
            state.phase = ServePhase.READY
    return slot_state


def is_allowed(slot_state: SlotState, names: set[str]) -> bool:
    sizes = slot_state.sizes(state for state in slot_state.serves if state.name in names)
    return slot_state.slot.allows(names) and (slot_state.slot.memory is None or sizes <= slot_state.slot.memory)


def test_evict_cost_decides_who_stops_in_a_slot_with_memory_too() -> None:
    costs = {"a": 50.0, "b": 1.0, "c": None}
    stage = Stage(*(serve(name, memory=10, evict_cost=cost) for name, cost in costs.items()), memory=20, **AT_ONCE)
    ask(stage, "b")
    ask(stage, "a")
    stage.to(100.0)
    ask(stage, "b")  # the longest unused is now a
    assert ask(stage, "c") == ["b"]


@given(slots())
def test_no_other_choice_costs_less(slot_state: SlotState) -> None:
    target = slot_state.serves[0]
    residents = [state for state in slot_state.serves if state.phase is ServePhase.READY]
    names = {state.name for state in residents}
    costs = [
        sum(map(evict_cost, gone))
        for count in range(len(residents) + 1)
        for gone in combinations(residents, count)
        if is_allowed(slot_state, names - {state.name for state in gone} | {target.name})
    ]
    found = victims_for(target)
    assert isinstance(found, Victims)
    assert sum(map(evict_cost, found.serves)) == min(costs)
    assert is_allowed(slot_state, names - {state.name for state in found.serves} | {target.name})


@given(slots(), st.integers(0, 20))
def test_sizes_add_up_at_the_least_cost(slot_state: SlotState, needed: int) -> None:
    slot_state.slot = Slot("gpu", memory=100)
    states = slot_state.serves
    sums = [
        sum(map(evict_cost, some))
        for count in range(len(states) + 1)
        for some in combinations(states, count)
        if slot_state.sizes(some) >= needed
    ]
    chosen = least_total(slot_state, states, needed)
    assert (None if chosen is None else sum(map(evict_cost, chosen))) == min(sums, default=None)
