"""Who used what: totals by hour, key, application, serve and class of work. No prompt, no reply, no request id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from stoker.access.access_file import UsageKey, UsageRow
from stoker.access.limits import Amounts
from stoker.domain.decision import Decision
from stoker.domain.key import Key
from stoker.domain.tier import Cost
from stoker.domain.usage import MediaUnits, ServeUsage

HOUR = 3600
SHORTEST_STREAM = 0.1
"""Seconds from the first byte of an answer to its end, below which it says nothing about speed: it came at once."""
STOKER = "(stoker)"
"""The key of what Stoker itself asks: judges, companion classifiers. No configured key can have this name."""

_Place = tuple[str, str, str, str]
"""Key, application, serve, class."""
_serve_of = attrgetter("serve")
_counts_of = attrgetter("input", "cached", "output", "reasoning", "accelerator_seconds", "cache_written")


def _unknown(serve: str) -> float | None:
    return None


def amounts_of(usages: Iterable[ServeUsage], costs: Mapping[str, Cost]) -> Amounts:
    """What one request used, all calls of serves together. `costs`: the prices of clouds, by serve."""
    prompt = output = 0
    money = 0.0
    for one in usages:
        tokens = one.input or 0, one.output or 0
        prompt += tokens[0]
        output += tokens[1]
        if one.serve in costs:
            money += costs[one.serve].of(*tokens, one.cached or 0, one.cache_written or 0)
    return Amounts(prompt, output, money)


class _Row:
    """One row of usage while it grows. Calls of serves are remembered, and added up together: that is cheaper."""

    __slots__ = ("decode_seconds", "decode_tokens", "failed", "media", "requests", "sums", "swap", "tools", "ttfts",
                 "uncounted")  # fmt: skip

    def __init__(self) -> None:
        self.requests = self.failed = self.decode_tokens = 0
        self.swap = self.decode_seconds = 0.0
        self.tools = 0.0
        """Money for tools."""
        self.media = [0.0] * 3
        """Seconds of audio, characters, images."""
        self.ttfts: list[float] = []
        self.uncounted: list[ServeUsage] = []
        self.sums = [0.0] * 6
        """Of `uncounted` ones that were added up, in the order of `_counts_of`."""

    def add_media(self, units: MediaUnits) -> None:
        found = units.audio_seconds, units.characters, units.images
        self.media = [before + (amount or 0) for before, amount in zip(self.media, found, strict=True)]

    def count(self) -> None:
        """Add up what is uncounted."""
        if self.uncounted:
            columns = zip(*map(_counts_of, self.uncounted), strict=True)
            self.sums = [before + sum(filter(None, column)) for before, column in zip(self.sums, columns, strict=True)]
            self.uncounted = []

    def amounts(self, cost: Cost | None, watts: float | None) -> tuple[float, ...]:
        """In the order of USAGE_COLUMNS. `watts`: the mean power with which the serve works."""
        self.count()
        prompt, cached, output, reasoning, accelerator, written = self.sums
        money = self.tools + (0.0 if cost is None else cost.of(prompt, output, cached, written))
        return (
            self.requests, self.failed, prompt, cached, output, reasoning, money, accelerator, self.swap,
            sum(self.ttfts), len(self.ttfts), self.decode_tokens, self.decode_seconds, *self.media, written,
            0.0 if watts is None else watts * accelerator, 0.0 if watts is None or not accelerator else output,
        )  # fmt: skip


class UsageTotals:
    """Adds up what has happened since the last `take`. `now`: Unix seconds.

    Somebody has to `take` every second. What happens belongs to the hour in which it is taken.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.costs: Mapping[str, Cost] = {}
        self.watts_of: Callable[[str], float | None] = _unknown
        """The mean power with which a serve works, when its requests of the last second are added up."""
        self._now = now
        self._rows: dict[_Place, _Row] = {}
        self._returned: list[UsageRow] = []
        """What `give_back` brought."""

    def configure(self, costs: Mapping[str, Cost]) -> None:
        """`costs`: the prices of clouds, by serve."""
        if costs != self.costs:
            self._returned += self.take()  # at the old prices
        self.costs = costs

    def record(self, key: Key, decision: Decision, usages: Sequence[ServeUsage]) -> None:
        """One request has ended."""
        serve, routed = decision.serve, decision.routed
        place = key.name, key.app, serve, "" if routed is None else routed.task
        row = self._rows.get(place) or self._row(place)
        row.requests += 1
        row.uncounted += usages
        if decision.media is not None:
            row.add_media(decision.media)
        if decision.tools:
            row.tools += sum(tool.cost for tool in decision.tools)
        if decision.outcome != "served":
            row.failed += decision.is_failed
        elif decision.stream and decision.ttft is not None:
            row.ttfts.append(decision.ttft)
            seconds = (decision.latency or 0.0) - decision.ttft
            if decision.output_tokens and seconds >= SHORTEST_STREAM:
                row.decode_tokens += decision.output_tokens
                row.decode_seconds += seconds

    def record_tool(self, key: Key, cost: float) -> None:
        """A tool has answered a client, without any serve."""
        self._row((key.name, key.app, "", "")).tools += cost

    def record_own(self, usage: ServeUsage) -> None:
        """A serve has answered a question of Stoker's own."""
        row = self._row((STOKER, "", usage.serve, ""))
        row.requests += 1
        row.uncounted.append(usage)

    def record_swap(self, key: str, app: str, serve: str, seconds: float) -> None:
        """A swap to this serve has ended, which a request of this key caused."""
        self._row((key, app, serve, "")).swap += seconds

    def pending(self) -> list[UsageRow]:
        """What `take` would return."""
        hour = int(self._now() // HOUR)
        for place, row in list(self._rows.items()):
            if any(serve != place[2] for serve in set(map(_serve_of, row.uncounted))):  # `auto` tried several
                calls, row.uncounted = row.uncounted, []
                for one in calls:
                    self._row((*place[:2], one.serve, place[3])).uncounted.append(one)
        rows = [
            ((hour, *place), row.amounts(self.costs.get(place[2]), self.watts_of(place[2])))
            for place, row in self._rows.items()
        ]
        return [*self._returned, *rows]

    def take(self) -> list[UsageRow]:
        """What is not on disk yet; whoever takes it writes it, or gives it back."""
        rows = self.pending()
        self._rows, self._returned = {}, []
        return rows

    def give_back(self, rows: Iterable[UsageRow]) -> None:
        """Rows that could not be written."""
        sums: dict[UsageKey, Sequence[float]] = {}
        for key, amounts in (*self._returned, *rows):
            before = sums.get(key)
            sums[key] = amounts if before is None else [a + b for a, b in zip(before, amounts, strict=True)]
        self._returned = list(sums.items())

    def _row(self, place: _Place) -> _Row:
        row = self._rows.get(place)
        if row is None:
            row = self._rows[place] = _Row()
        return row
