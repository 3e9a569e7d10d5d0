"""Which request gets which sequence: transcripts, and the two rules over any history."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples

from stoker.fleet.conversations.keeper import SaveRate
from stoker.fleet.conversations.sequences import Save, SequencePlace, Sequences


def stay(table: Sequences, key: str, conversation: str | None, size: int = 10, tokens: int | None = None) -> str:
    """A whole stay, and what it took."""
    place = table.on_request(key, conversation, size)
    if place is None:
        return "none free"
    table.on_claimed(place)
    table.on_ready(place)
    table.on_done(place, tokens)
    return f"{place.sequence.number}" + " erase" * place.erase + " there" * place.is_there


def test_a_conversation_comes_back_to_its_sequence() -> None:
    table = Sequences(2, is_fresh=True)
    assert [stay(table, "ann", "a"), stay(table, "ann", "b"), stay(table, "ann", "a")] == ["0", "1", "0 there"]


def test_the_longest_unused_makes_room_and_is_erased_only_for_another_key() -> None:
    table = Sequences(2, is_fresh=True)
    stay(table, "ann", "a")
    stay(table, "ann", "b")
    assert stay(table, "ann", "c") == "0"
    assert stay(table, "bob", "d") == "1 erase"
    assert stay(table, "bob", "a2") == "0 erase"


def test_what_goes_on_with_nothing_is_erased_for_another_key_too() -> None:
    table = Sequences(1, is_fresh=True)
    assert [stay(table, key, None) for key in ("ann", "ann", "bob")] == ["0", "0", "0 erase"]


def test_after_an_adoption_nobody_knows_whose_it_is() -> None:
    table = Sequences(1, is_fresh=False)
    assert [stay(table, "ann", "a"), stay(table, "ann", "a")] == ["0 erase", "0 there"]


def test_a_sequence_in_use_is_nobody_elses() -> None:
    table = Sequences(1, is_fresh=True)
    place = table.on_request("ann", "a", 10)
    assert place is not None
    assert stay(table, "ann", "a") == "none free"
    table.on_done(place, None)
    assert stay(table, "ann", "a") == "0"


def test_what_was_taken_and_never_filled_is_not_gone_on_with() -> None:
    table = Sequences(1, is_fresh=True)
    stay(table, "ann", "a")
    place = table.on_request("ann", "b", 10)
    assert place is not None
    table.on_claimed(place)
    table.on_done(place, None)
    assert table.on_stop() == []
    assert stay(table, "ann", "b") == "0"


def test_a_branch_does_not_cut_the_longer_one_short() -> None:
    table = Sequences(2, is_fresh=True)
    main = table.on_request("ann", "a", 100)
    assert main is not None
    table.on_ready(main)
    assert stay(table, "ann", "a", size=20) == "1"
    table.on_done(main, 900)
    assert stay(table, "ann", "a", size=30) == "1 there"
    assert stay(table, "ann", "a", size=110) == "0 there"


def test_saved_first_is_what_was_used_last_and_a_conversation_only_at_its_longest() -> None:
    table = Sequences(3, is_fresh=True)
    stay(table, "ann", "a", size=100, tokens=50)
    stay(table, "ann", "b", size=7, tokens=3)
    branch = table.on_request("ann", "a", 9)
    assert branch is not None
    other = table.on_request("ann", "a", 9)
    assert other is not None
    table.on_ready(other)
    assert table.on_stop() == [Save(0, "a", 50), Save(1, "b", 3)]


def test_a_lost_sequence_is_used_no_more() -> None:
    table = Sequences(2, is_fresh=True)
    place = table.on_request("ann", "a", 10)
    assert place is not None
    table.on_lost(place)
    table.on_done(place, None)
    assert [stay(table, "ann", "a"), stay(table, "bob", "b")] == ["1", "1 erase"]
    assert not table.is_lost


class Engine(RuleBasedStateMachine):
    """Any history, beside a model of what lies in the engine's sequences."""

    @initialize(count=st.integers(1, 3), is_fresh=st.booleans())
    def begin(self, count: int, is_fresh: bool) -> None:
        self.table = Sequences(count, is_fresh)
        self.contents: list[set[str]] = [set() if is_fresh else {"nobody knows"} for _ in range(count)]
        self.lost: set[int] = set()
        self.busy: list[tuple[SequencePlace, str]] = []
        """With the last step that was taken."""

    @rule(key=st.sampled_from("xyz"), word=st.sampled_from(["a", "b", None]), size=st.integers(1, 50))
    def request(self, key: str, word: str | None, size: int) -> None:
        place = self.table.on_request(key, word and key + word, size)
        if place is None:
            busy = {other.sequence.number for other, _ in self.busy}
            assert busy | self.lost == set(range(len(self.contents))), "a usable one is left"
            return
        number = place.sequence.number
        assert number not in [other.sequence.number for other, _ in self.busy], "two at once"
        self.busy.append((place, "taken"))

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), is_acknowledged=st.booleans())
    def claim(self, data: Any, is_acknowledged: bool) -> None:
        at, place = self._one(data, "taken")
        if place is None:
            return
        number = place.sequence.number
        if place.erase:
            self.contents[number].clear()
            if not is_acknowledged:
                self.table.on_lost(place)
                self.lost.add(number)
                self.busy[at] = (place, "lost")
                return
        self.table.on_claimed(place)
        self.contents[number].add(place.key)  # as soon as a restore may have begun
        self.busy[at] = (place, "claimed")

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def send(self, data: Any) -> None:
        at, place = self._one(data, "claimed")
        if place is None:
            return
        self.table.on_ready(place)
        assert self.contents[place.sequence.number] == {place.key}, "somebody else's cache"
        self.busy[at] = (place, "sent")

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), tokens=st.none() | st.integers(1, 99))
    def end(self, data: Any, tokens: int | None) -> None:
        at = data.draw(st.integers(0, len(self.busy) - 1))
        place, _ = self.busy.pop(at)
        self.table.on_done(place, tokens)

    @invariant()
    def what_is_saved_is_its_owners_alone(self) -> None:
        saves = self.table.on_stop() if hasattr(self, "table") else []
        for save in saves:
            assert self.contents[save.number] == {save.conversation[0]}
        assert len({save.conversation for save in saves}) == len(saves)

    def _one(self, data: Any, step: str) -> tuple[int, SequencePlace | None]:
        found = [at for at, (_, taken) in enumerate(self.busy) if taken == step]
        if not found:
            return -1, None
        at = data.draw(st.sampled_from(found))
        return at, self.busy[at][0]


Engine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
TestEngine = Engine.TestCase


def test_what_cannot_be_saved_in_time_is_not_begun() -> None:
    pace = SaveRate()
    assert pace.fits(10**6, 0.5), "unknown: worth a try"
    pace.on_saved(1000, 0.1)
    assert pace.fits(5000, 0.5)
    assert not pace.fits(20_000, 0.5)
    assert not pace.fits(1, 0.0)


def test_what_was_too_slow_once_is_tried_again_some_swaps_later() -> None:
    pace = SaveRate()
    pace.on_late(1000, 0.5)
    tries = 0
    while not pace.fits(1000, 0.5):
        tries += 1
    assert 1 <= tries <= 5
    pace.on_late(None, 0.5)
    assert pace.fits(1000, 0.5)
