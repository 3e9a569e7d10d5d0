"""`stoker decisions --follow`: decisions as they are made, from the running Stoker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from stoker.cli.console import figures
from stoker.cli.console.control import parse
from stoker.cli.console.live_events import live_events
from stoker.domain.decision import Decision
from stoker.domain.printable import one_line

if TYPE_CHECKING:
    from stoker.cli.console.control import Control

WIDEST = 10_000
"""Records that are asked for if more were missed than a snapshot holds."""
Mark = tuple[str, float]
"""Id and time: callers may send one id twice."""


def follow(
    control: Control,
    limit: int,
    waits: Callable[[str], None] = lambda why: None,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Decision]:
    """The newest `limit`, then each one as it comes, the oldest first; for ever.

    Raises NotRunning and UnreadableAnswer only before the first one. If Stoker restarts later, this waits for it,
    and calls `waits` once with the reason.
    """
    seen = control.decisions(limit)
    yield from reversed(seen)
    last = _mark(seen[0]) if seen else None
    for event in live_events(control, "decisions", waits, pause):
        if event.kind == "snapshot":
            new = _since(control, parse(event.data.get("decisions"), list[Decision]), last)
        else:
            new = [parse(event.data, Decision)]
        yield from new
        last = _mark(new[-1]) if new else last


def since(newest_first: Sequence[Decision], last: Mark | None) -> tuple[list[Decision], bool]:
    """What came after `last`, the oldest first; and whether `last`, or the beginning, was reached."""
    new: list[Decision] = []
    for decision in newest_first:
        if _mark(decision) == last:
            return new[::-1], True
        new.append(decision)
    return new[::-1], last is None


def line(decision: Decision) -> str:
    """One decision on one line. A terminal that scrolls has no table: each column has its usual width."""
    routed = decision.routed
    asked = f"{decision.model or figures.UNKNOWN} > {decision.serve or figures.UNKNOWN}"
    task = "" if routed is None else f"  {_route(decision)}"
    why = f" ({decision.reason})" if decision.reason else ""
    tokens = f"{figures.number(decision.input_tokens)} in, {figures.number(decision.output_tokens)} out"
    record = decision.orchestrated
    if record is not None:
        blocks = f"{figures.counted(record.blocks, 'block')}, {sum(record.failures.values())} failed"
        task += f"  {record.orchestrator}: {record.policy}, {blocks}"
    text = (
        f"{figures.moment(decision.at)}  {decision.id:<24}  {asked:<28}  {decision.status or figures.UNKNOWN!s:<3}  "
        f"{decision.outcome + why:<15}  {figures.seconds(decision.latency):>8}  {tokens}{task}"
    )
    return one_line(text.rstrip())


def _route(decision: Decision) -> str:
    routed = decision.routed
    assert routed is not None
    tried = [one.tier if one.outcome == "served" else f"{one.tier} ({one.outcome})" for one in routed.attempts]
    return f"{routed.task}: {', '.join(tried) or 'no tier'}"


def _since(control: Control, newest_first: Sequence[Decision], last: Mark | None) -> list[Decision]:
    new, is_whole = since(newest_first, last)
    return new if is_whole else since(control.decisions(WIDEST), last)[0]


def _mark(decision: Decision) -> Mark:
    return decision.id, decision.at
