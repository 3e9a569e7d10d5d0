"""Which model is likely to be wanted next in a slot, judged by the past. Pure.

In this order, each model at most once and the one in the slot never:

 1. what routing foresees: the rule for the task class, then what the next class will want
 2. what most often followed the last three models; if these never occurred in this order, the last two, or the last one
 3. the most frequent one
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.domain.prediction import Prediction, PredictionReason

LOOK_BACK = 3
REMEMBERED = 256
"""Changes of model per slot: the history of a busy day, searched in a fraction of a millisecond."""
LIMIT = 2
"""Models predicted at once."""


def expect(history: Sequence[str], among: Collection[str], foreseen: Sequence[Prediction] = ()) -> list[Prediction]:
    """The likeliest first, `LIMIT` of the serves `among` at most.

    `history` is oldest first, no model twice in a row.
    """
    last = history[-1] if history else None
    found: dict[str, PredictionReason] = {}
    for serve, why in _ideas(history, foreseen):
        if serve != last and serve in among:
            found.setdefault(serve, why)
    return list(found.items())[:LIMIT]


def _ideas(history: Sequence[str], foreseen: Sequence[Prediction]) -> Iterator[Prediction]:
    yield from foreseen  # 1
    for serve in _followers(history):  # 2
        yield serve, PredictionReason.PATTERN
    for serve in _by_count(history):  # 3
        yield serve, PredictionReason.FREQUENCY


def _followers(history: Sequence[str]) -> list[str]:
    """What followed the longest known ending of the history, the most frequent first."""
    for length in range(min(LOOK_BACK, len(history) - 1), 0, -1):
        ending = list(history[-length:])
        starts = range(len(history) - length)
        after = [history[at + length] for at in starts if list(history[at : at + length]) == ending]
        if after:
            return _by_count(after)
    return []


def _by_count(serves: Sequence[str]) -> list[str]:
    latest = {serve: at for at, serve in enumerate(serves)}
    counts = Counter(serves)
    return sorted(counts, key=lambda serve: (-counts[serve], -latest[serve]))


@dataclass(slots=True)
class PredictionScore:
    """How predictions turned out: one count for each change of model."""

    hit: int = 0
    """The next model was among those predicted."""
    miss: int = 0
    none: int = 0
    """Nothing had been predicted: no second model was known yet."""


class Predictor:
    """The history of one slot, and its current prediction."""

    def __init__(self, score: PredictionScore) -> None:
        """`score` may be shared by several slots."""
        self._score = score
        self._history: deque[str] = deque(maxlen=REMEMBERED)
        self._expected: tuple[str, ...] = ()

    @property
    def remembered(self) -> int:
        """Changes of model that are remembered: REMEMBERED at most."""
        return len(self._history)

    def on_started(self, serve: str) -> None:
        """The model is in the slot now. The same model again changes nothing."""
        if self._history and self._history[-1] == serve:
            return
        if self._history:
            self._count(serve)
        self._history.append(serve)
        self._expected = ()

    def _count(self, serve: str) -> None:
        if not self._expected:
            self._score.none += 1
        elif serve in self._expected:
            self._score.hit += 1
        else:
            self._score.miss += 1

    def expect(self, among: Collection[str], foreseen: Sequence[Prediction] = ()) -> list[Prediction]:
        """What is likely next. The next `on_started` is compared with it."""
        found = expect(list(self._history), among, foreseen)
        self._expected = tuple(serve for serve, _ in found)
        return found


class Forecast:
    """What is likely next in all slots together. Each slot has its own history."""

    def __init__(self) -> None:
        self.score = PredictionScore()
        self._slots: dict[str, Predictor] = {}

    def on_started(self, slot: str, serve: str) -> None:
        self._of(slot).on_started(serve)

    def expect(self, slots: Mapping[str, str], foreseen: Sequence[Prediction] = ()) -> list[Prediction]:
        """`slots`: serve to slot. Predictions of routing come first, then those of each slot."""
        wanted = {slots[name] for name, _ in foreseen if name in slots}
        found: list[Prediction] = []
        for slot in sorted(self._slots.keys() | wanted):
            found += self._of(slot).expect({name for name, of in slots.items() if of == slot}, foreseen)
        order = {name: at for at, (name, _) in enumerate(foreseen)}
        return sorted(found, key=lambda idea: order.get(idea[0], len(order)))

    def _of(self, slot: str) -> Predictor:
        return self._slots.setdefault(slot, Predictor(self.score))
