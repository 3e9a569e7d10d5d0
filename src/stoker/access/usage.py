"""Who used what: totals by hour, key, application, serve and class of work. No prompt, no reply, no request id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stoker.access.access_file import USAGE_COLUMNS, UsageKey, UsageRow
from stoker.access.limits import Amounts
from stoker.domain.decision import Decision
from stoker.domain.key import Key
from stoker.domain.tier import Cost
from stoker.domain.usage import ServeUsage

HOUR = 3600
SHORTEST_STREAM = 0.1
"""Seconds from the first byte of an answer to its end, below which it says nothing about speed: it came at once."""
STOKER = "(stoker)"
"""The key of what Stoker itself asks: judges, companion classifiers. No configured key can have this name."""

(_REQUESTS, _FAILED, _INPUT, _CACHED, _OUTPUT, _REASONING, _COST, _ACCELERATOR, _SWAP, _TTFT_SUM, _TTFT_COUNT,
 _DECODE_TOKENS, _DECODE_SECONDS) = range(len(USAGE_COLUMNS))  # fmt: skip


def amounts_of(usages: Iterable[ServeUsage], costs: Mapping[str, Cost]) -> Amounts:
    """What one request used, all calls of serves together. `costs`: the prices of clouds, by serve."""
    prompt = output = 0
    money = 0.0
    for one in usages:
        tokens = one.input or 0, one.output or 0
        prompt += tokens[0]
        output += tokens[1]
        if one.serve in costs:
            money += costs[one.serve].of(*tokens)
    return Amounts(prompt, output, money)


class UsageTotals:
    """Adds up what has happened since the last `take`. `now`: Unix seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.costs: Mapping[str, Cost] = {}
        self._now = now
        self._rows: dict[UsageKey, list[float]] = {}

    def configure(self, costs: Mapping[str, Cost]) -> None:
        """`costs`: the prices of clouds, by serve."""
        self.costs = costs

    def record(self, key: Key, decision: Decision, usages: Sequence[ServeUsage]) -> None:
        """One request has ended."""
        routed = decision.routed
        place = int(self._now() // HOUR), key.name, key.app, decision.serve, "" if routed is None else routed.task
        row = self._rows.get(place) or self._row(*place)
        for one in usages:
            self._add(row if one.serve == decision.serve else self._row(*place[:3], one.serve, place[4]), one)
        row[_REQUESTS] += 1
        if decision.outcome != "served":
            row[_FAILED] += 1
        elif decision.stream and decision.ttft is not None:
            row[_TTFT_SUM] += decision.ttft
            row[_TTFT_COUNT] += 1
            seconds = (decision.latency or 0.0) - decision.ttft
            if decision.output_tokens and seconds >= SHORTEST_STREAM:
                row[_DECODE_TOKENS] += decision.output_tokens
                row[_DECODE_SECONDS] += seconds

    def record_own(self, usage: ServeUsage) -> None:
        """A serve has answered a question of Stoker's own."""
        row = self._row(int(self._now() // HOUR), STOKER, "", usage.serve, "")
        row[_REQUESTS] += 1
        self._add(row, usage)

    def record_swap(self, key: str, app: str, serve: str, seconds: float) -> None:
        """A swap to this serve has ended, which a request of this key caused."""
        self._row(int(self._now() // HOUR), key, app, serve, "")[_SWAP] += seconds

    def pending(self) -> list[UsageRow]:
        """What `take` would return."""
        return [(key, tuple(row)) for key, row in self._rows.items()]

    def take(self) -> list[UsageRow]:
        """What is not on disk yet; whoever takes it writes it, or gives it back."""
        rows, self._rows = self._rows, {}
        return list(rows.items())

    def give_back(self, rows: Iterable[UsageRow]) -> None:
        """Rows that could not be written."""
        for key, amounts in rows:
            row = self._row(*key)
            for index, amount in enumerate(amounts):
                row[index] += amount

    def _row(self, hour: int, key: str, app: str, serve: str, task: str) -> list[float]:
        place = hour, key, app, serve, task
        row = self._rows.get(place)
        if row is None:
            row = self._rows[place] = [0.0] * len(USAGE_COLUMNS)
        return row

    def _add(self, row: list[float], usage: ServeUsage) -> None:
        prompt, output = usage.input or 0, usage.output or 0
        row[_INPUT] += prompt
        row[_OUTPUT] += output
        row[_ACCELERATOR] += usage.accelerator_seconds
        if usage.cached:
            row[_CACHED] += usage.cached
        if usage.reasoning:
            row[_REASONING] += usage.reasoning
        if self.costs and usage.serve in self.costs:
            row[_COST] += self.costs[usage.serve].of(prompt, output)
