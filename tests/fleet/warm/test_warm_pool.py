"""What stays warm: transcripts of the pool, and its invariants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.serve import Warmth
from stoker.fleet.warm.pool import Command, Drop, Hold, WarmKind, WarmModel, WarmModels, sleeper

PAGES, ASLEEP = WarmKind.PAGES, WarmKind.ASLEEP


def model(serve: str, size: int, warmth: Warmth = Warmth.AUTO) -> WarmModel:
    return WarmModel(serve, {f"/{serve}": size}, PAGES, warmth)


def told(commands: list[Command]) -> list[str]:
    return [f"{type(one).__name__.lower()} {one.serve}" + " asleep" * (one.kind is ASLEEP) for one in commands]


def test_what_left_is_held_and_the_longest_unused_makes_room() -> None:
    pool = WarmModels(10)
    assert told(pool.on_left(model("a", 4))) == ["hold a"]
    assert told(pool.on_left(model("b", 4))) == ["hold b"]
    assert told(pool.on_left(model("c", 4))) == ["drop a", "hold c"]
    assert pool.size == 8


def test_what_is_used_again_is_not_the_longest_unused() -> None:
    pool = WarmModels(10)
    pool.on_left(model("a", 4))
    pool.on_left(model("b", 4))
    assert told(pool.on_started("a")) == ["drop a"]
    assert told(pool.on_left(model("a", 4))) == ["hold a"]
    assert told(pool.on_left(model("c", 4))) == ["drop b", "hold c"]


def test_a_model_larger_than_the_budget_is_not_held_and_drives_nobody_out() -> None:
    pool = WarmModels(10)
    pool.on_left(model("a", 4))
    assert pool.on_left(model("huge", 11)) == []
    assert list(pool.entries) == ["a"]


def test_a_pin_is_not_dropped_for_another_and_comes_back_when_there_is_room() -> None:
    pool = WarmModels(10)
    pool.on_left(model("pin", 6, Warmth.PIN))
    assert told(pool.on_left(model("a", 6))) == []
    assert told(pool.on_budget(5)) == ["drop pin"]
    assert told(pool.on_budget(6)) == ["hold pin"]


def test_a_serve_that_shall_never_be_warm_is_not_held_not_even_if_predicted() -> None:
    pool = WarmModels(10)
    never = model("n", 1, Warmth.NEVER)
    assert pool.on_left(never) == []
    assert pool.on_wanted([never]) == []


def test_two_serves_of_one_file_share_its_bytes() -> None:
    pool = WarmModels(10)
    pool.on_left(WarmModel("short", {"/w": 8}))
    assert told(pool.on_left(WarmModel("long", {"/w": 8, "/adapter": 2}))) == ["hold long"]
    assert pool.size == 10


def test_a_prediction_evicts_until_it_fits_and_no_pin() -> None:
    pool = WarmModels(12)
    pool.on_left(model("pin", 4, Warmth.PIN))
    pool.on_left(model("a", 4))
    pool.on_left(model("b", 4))
    assert told(pool.on_wanted([model("c", 8)])) == ["drop a", "drop b", "hold c"]
    assert told(pool.on_wanted([model("d", 9)])) == []


def test_what_is_warm_already_is_no_work_for_a_prediction() -> None:
    pool = WarmModels(10)
    pool.on_left(model("a", 4))
    assert pool.on_wanted([model("a", 4)]) == []


def test_a_prediction_that_did_not_come_true_goes_before_what_was_really_used() -> None:
    pool = WarmModels(8)
    pool.on_left(model("used", 4))
    pool.on_wanted([model("guess", 4)])
    pool.on_wanted([])
    assert told(pool.on_left(model("new", 4))) == ["drop guess", "hold new"]


def test_a_prediction_does_not_take_away_that_it_was_used() -> None:
    pool = WarmModels(8)
    pool.on_left(model("old", 4))
    pool.on_left(model("late", 4))
    pool.on_wanted([model("late", 4)])
    pool.on_wanted([])
    assert told(pool.on_left(model("new", 4))) == ["drop old", "hold new"]


def test_a_sleeper_that_does_not_fit_may_not_sleep_and_one_that_is_driven_out_is_ended() -> None:
    pool = WarmModels(10)
    assert told(pool.on_left(sleeper("s", 6))) == ["hold s asleep"]
    assert told(pool.on_left(sleeper("t", 11))) == ["drop t asleep"]
    assert told(pool.on_left(sleeper("n", 1, Warmth.NEVER))) == ["drop n asleep"]
    assert told(pool.on_left(model("a", 6))) == ["drop s asleep", "hold a"]


def test_a_sleeper_that_woke_or_ended_is_not_to_be_ended() -> None:
    pool = WarmModels(10)
    pool.on_left(sleeper("s", 6))
    assert pool.on_started("s") == []
    pool.on_left(sleeper("s", 6))
    assert pool.on_gone("s") == []
    assert pool.entries == {}


def test_a_pinned_sleeper_that_was_dropped_does_not_come_back_by_itself() -> None:
    pool = WarmModels(10)
    pool.on_left(sleeper("s", 6, Warmth.PIN))
    assert told(pool.on_budget(1)) == ["drop s asleep"]
    assert pool.on_budget(10) == []


def test_a_serve_that_is_held_as_files_and_then_sleeps_is_not_held_twice() -> None:
    pool = WarmModels(10)
    pool.on_left(model("a", 4))
    assert told(pool.on_left(sleeper("a", 5))) == ["drop a", "hold a asleep"]
    assert pool.size == 5


# -- invariants --------------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "e")
WARMTH = {"a": Warmth.PIN, "b": Warmth.PIN, "e": Warmth.NEVER}
FILES = st.dictionaries(st.sampled_from(["/1", "/2", "/3", "/4"]), st.just(0), min_size=1, max_size=3)
SIZES = {"/1": 1, "/2": 3, "/3": 4, "/4": 7}
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("left"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("started"), st.sampled_from(NAMES)),
        st.tuples(st.just("wanted"), st.lists(st.sampled_from(NAMES), max_size=3, unique=True)),
        st.tuples(st.just("budget"), st.integers(0, 16)),
    ),
    max_size=30,
)


@given(EVENTS, st.fixed_dictionaries(dict.fromkeys(NAMES, FILES)), st.integers(0, 16))
def test_whatever_happens(events: list[tuple], files: dict[str, dict[str, int]], budget: int) -> None:
    """Never over budget; `never` never; pins stay while they fit; the commands tell the whole story."""
    pool, hot = WarmModels(budget), set(NAMES)
    held: set[tuple[str, WarmKind]] = set()
    models = {
        name: WarmModel(name, {path: SIZES[path] for path in files[name]}, PAGES, WARMTH.get(name, Warmth.AUTO))
        for name in NAMES
    }
    for what, about, *more in events:
        if what == "left" and about in hot:
            hot.discard(about)
            sleeps = more[0] and about not in ("a", "b")
            commands = pool.on_left(sleeper(about, 3, models[about].warmth) if sleeps else models[about])
        elif what == "started":
            hot.add(about)
            commands = pool.on_started(about)
            held.discard((about, ASLEEP))  # it woke
        elif what == "wanted":
            commands = pool.on_wanted([models[name] for name in about if name not in hot])
        elif what == "budget":
            commands = pool.on_budget(about)
        else:
            continue
        for one in commands:
            if isinstance(one, Hold):
                held.add((one.serve, one.kind))
            else:
                assert isinstance(one, Drop)
                held.discard((one.serve, one.kind))
        assert held == {(name, entry.model.kind) for name, entry in pool.entries.items()}
        assert pool.size <= pool.budget
        assert not held & {("e", PAGES), ("e", ASLEEP)}
        assert not hot & pool.entries.keys()
        pins = {name for name in ("a", "b") if name not in hot}
        together = {path: SIZES[path] for name in pins for path in models[name].parts}
        if sum(together.values()) <= pool.budget:
            assert pins <= pool.entries.keys()
