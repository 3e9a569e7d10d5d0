"""Which models stay warm, and which is likely to be wanted next. Pure: every event is a synchronous call that returns
commands.

One rule decides what stays, in `_settle`. The candidates are put in this order:

1. pinned ones, the most recently used first
2. predicted ones, the likeliest first
3. the others, the most recently used first; one that was predicted but never used comes last

Then they are taken from the top while they fit the budget; one that does not fit is skipped, and a smaller one behind
it may still be taken. Files that several models share count once. A warm model that is not taken is dropped.

A prediction is judged by the past. In this order, each model at most once and the one in the slot never:

1. what routing foresees: the rule for the task class, then what the next class will want
2. what most often followed the last three models; if these never occurred in this order, the last two, or the last one
3. the most frequent one
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.domain.prediction import Prediction, PredictionReason
from stoker.domain.serve import Warmth


@dataclass(frozen=True, slots=True)
class WarmStatus:
    """One warm model. Bytes. `read` and `locked` are None for a sleeper: its memory is its engine's own."""

    serve: str
    how: str
    size: int
    read: int | None
    """Bytes of its files that were read into the page cache. Pages that are not locked may have been evicted since."""
    locked: int | None
    pinned: bool
    problem: str = ""
    why: str = ""
    """Why it is expected next: `rule`, `pattern`, `frequency`; empty: it is warm only because it was used."""


@dataclass(frozen=True, slots=True)
class WarmStatistics:
    """The pool as it is now. Bytes."""

    budget: int
    size: int
    warm: tuple[WarmStatus, ...]
    holder: int | None
    """The holder's pid; None: it does not run."""
    restarts: int
    """How often the holder ended by itself."""
    is_paused: bool
    predictions: Mapping[str, int]
    """Changes of model, by how the prediction turned out: `hit`, `miss`, `none`."""


class WarmKind(StrEnum):
    """How a model is kept warm."""

    PAGES = "pages"
    """Its engine is stopped, its files are kept in the page cache."""
    ASLEEP = "asleep"
    """Its engine keeps running without its devices, with its weights in host memory."""


@dataclass(frozen=True, slots=True)
class WarmModel:
    """A model that could be warm. `parts`: the memory that it needs, path to bytes; a sleeper is one part."""

    serve: str
    parts: Mapping[str, int]
    kind: WarmKind = WarmKind.PAGES
    warmth: Warmth = Warmth.AUTO

    @property
    def size(self) -> int:
        return sum(self.parts.values())


def sleeper(serve: str, size: int, warmth: Warmth = Warmth.AUTO) -> WarmModel:
    """An engine that sleeps and holds `size` bytes of host memory."""
    return WarmModel(serve, {f"asleep:{serve}": size}, WarmKind.ASLEEP, warmth)


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A model that is warm. `used`: a count that grows with each use; 0 = never used, only predicted."""

    model: WarmModel
    used: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep it warm: bring its files into the page cache and keep them there. A sleeper may sleep."""

    serve: str
    kind: WarmKind


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop holding it. A sleeper that is dropped must be ended."""

    serve: str
    kind: WarmKind


Command = Hold | Drop


class WarmModels:
    """See the module's docstring. `entries`: the warm models, by serve."""

    def __init__(self, budget: int) -> None:
        """`budget` in bytes."""
        self.budget = budget
        self.entries: dict[str, PoolEntry] = {}
        self._pinned: dict[str, PoolEntry] = {}
        """Pinned serves that are in no slot, even if they do not fit: they become warm as soon as they do."""
        self._wanted: tuple[str, ...] = ()
        self._uses = 0

    @property
    def size(self) -> int:
        """Bytes of all warm models together; shared files count once."""
        return sum(_parts(self.entries.values()).values())

    # -- events ----------------------------------------------------------------------------------------------------

    def on_left(self, model: WarmModel) -> list[Command]:
        """A serve left its slot, by being stopped or (a sleeper) being put to sleep. For the latter `Drop` of itself
        means that it may not sleep.
        """
        self._uses += 1
        return self._settle({model.serve: PoolEntry(model, self._uses)})

    def on_started(self, serve: str) -> list[Command]:
        """A serve is in a slot: its memory no longer counts as the pool's. A sleeper that woke causes no Drop."""
        self._pinned.pop(serve, None)
        entry = self.entries.pop(serve, None)
        dropped = [] if entry is None or entry.model.kind is WarmKind.ASLEEP else [Drop(serve, WarmKind.PAGES)]
        return [*dropped, *self._settle({})]

    def on_wanted(self, models: Sequence[WarmModel]) -> list[Command]:
        """These serves are likely to be wanted next, the likeliest first, until the next such event."""
        self._wanted = tuple(model.serve for model in models)
        known = self._pinned.keys() | self.entries.keys()
        return self._settle({model.serve: PoolEntry(model, 0) for model in models if model.serve not in known})

    def on_gone(self, serve: str) -> list[Command]:
        """The serve is no longer configured, or its sleeping engine ended by itself."""
        return self.on_started(serve)

    def on_budget(self, budget: int) -> list[Command]:
        self.budget = budget
        return self._settle({})

    # -- the decision ------------------------------------------------------------------------------------------------

    def _settle(self, fresh: Mapping[str, PoolEntry]) -> list[Command]:
        candidates = {**self._pinned, **self.entries, **fresh}
        before, self.entries = self.entries, self._taken(candidates.values())
        self._pinned = {serve: entry for serve, entry in candidates.items() if self._stays_pinned(entry)}
        were = {(one.model.serve, one.model.kind) for one in before.values()}
        were |= {(one.model.serve, one.model.kind) for one in fresh.values() if one.model.kind is WarmKind.ASLEEP}
        are = {(one.model.serve, one.model.kind) for one in self.entries.values()}
        held = [one for serve, one in self.entries.items() if serve not in before or before[serve].model != one.model]
        return [*(Drop(*one) for one in sorted(were - are)), *(Hold(one.model.serve, one.model.kind) for one in held)]

    def _taken(self, candidates: Iterable[PoolEntry]) -> dict[str, PoolEntry]:
        taken: dict[str, PoolEntry] = {}
        parts: dict[str, int] = {}
        for entry in sorted(candidates, key=self._rank):
            together = parts | dict(entry.model.parts)
            is_allowed = entry.model.warmth is not Warmth.NEVER and len(entry.model.parts) > 0
            if is_allowed and sum(together.values()) <= self.budget:
                parts = together
                taken[entry.model.serve] = entry
        return taken

    def _rank(self, entry: PoolEntry) -> tuple[int, int]:
        model = entry.model
        if model.warmth is Warmth.PIN:  # 1
            return 1, -entry.used
        if model.serve in self._wanted:  # 2
            return 2, self._wanted.index(model.serve)
        return 3, -entry.used  # 3

    def _stays_pinned(self, entry: PoolEntry) -> bool:
        """A dropped sleeper is gone; the files of a pinned model still exist."""
        is_there = entry.model.kind is WarmKind.PAGES or entry.model.serve in self.entries
        return entry.model.warmth is Warmth.PIN and is_there


def _parts(entries: Iterable[PoolEntry]) -> dict[str, int]:
    return {path: size for entry in entries for path, size in entry.model.parts.items()}


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
