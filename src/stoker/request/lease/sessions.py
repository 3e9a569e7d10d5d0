"""What sessions will do next, and what a swap costs them. Pure.

    what a session does                                            its worth
    its request runs, or waits for a place                         SWAP_WORTH
    it more likely than not returns within the time of a swap      SWAP_WORTH
    it returns with a smaller chance                               the chance, but only of the likeliest one
    it is a single request, as far as anybody knows                0
    it has not been here for FORGOTTEN_AFTER                       0

    the chance       of a gap which is that long already to end in time: by the gaps in loops if its last answer called
                     a tool, else by those after answers
    a swap costs     the sum over the resident's sessions: worth x slowdown x (load it again + read the prompt again)
                     and for each request without a session that runs: SWAP_WORTH x load it again
    waiting costs    the sum over the sessions that wait: slowdown x seconds
    a swap is due    when the waiting has cost `patience` times what the swap costs

So a resident whose sessions come back within moments stays, and one to which nobody returns leaves soon. A session
that was held up much already counts for more, on both sides: that keeps slowdowns alike. Why SWAP_WORTH is so large:
sessions are finished sooner if models take turns seldom (`bench.schedule --trace agentx`). What keeps the wait of the
others short is `max_wait`, for every request but those in a loop: nobody looks at these.

Gaps are learned by key. Until they are, published ones count: 86 % of the gaps within a session are below 1 s, 95 %
below 10 s (vllm-project/router#285).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from math import log
from typing import Final

from stoker.domain.session import FORGOTTEN_AFTER, Session
from stoker.request.lease.waiter import Waiter

SWAP_WORTH: Final = 32.0
LOOP_WAITS: Final = 16.0
"""Times `max_wait` that a request in a loop waits at most."""
LIKELY: Final = 0.5
"""With this chance of a return, a session counts as if it were there."""
NEGLIGIBLE: Final = 0.02
"""A smaller chance of return counts as none."""
MOST_SLOWDOWN: Final = 8.0
"""More does not count: requests of one session that wait at the same time are summed."""
LEAST_ALONE: Final = 10.0
"""Times its serve's swap time: what a session is assumed to take at least when it is alone."""
_EDGES: Final = (0.05, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, FORGOTTEN_AFTER)
"""Seconds. Gaps between two of these count as one."""
_PRIORS: Final = {
    True: (0.0, 0.46, 0.2, 0.2, 0.03, 0.04, 0.02, 0.02, 0.01, 0.01, 0.005, 0.005),
    False: (0.0, 0.01, 0.01, 0.02, 0.03, 0.06, 0.07, 0.15, 0.15, 0.2, 0.1, 0.2),
}
"""In a loop, and after an answer without a call: the share of gaps up to each edge; the last: longer, or never. What
follows an answer to a person is not published, and assumed."""
PRIOR_WEIGHT: Final = 20.0
"""How many gaps the published ones count for."""
DECAY: Final = 0.99
"""What older gaps count for with each new one."""
MOST_KEYS: Final = 256


class _Gaps:
    """How often gaps of each length occurred; old ones count for less."""

    __slots__ = ("_counts", "_total")

    def __init__(self, prior: tuple[float, ...]) -> None:
        self._counts = [PRIOR_WEIGHT * share for share in prior]
        self._total = PRIOR_WEIGHT

    def add(self, gap: float) -> None:
        counts = self._counts
        for place in range(len(counts)):
            counts[place] *= DECAY
        counts[bisect_right(_EDGES, gap)] += 1.0
        self._total = self._total * DECAY + 1.0

    def longer(self, gap: float) -> float:
        """The share of gaps that are longer."""
        place = bisect_right(_EDGES, gap)
        rest = sum(self._counts[place + 1 :])
        if place == len(_EDGES):
            return 0.0
        low, high = _EDGES[place - 1] if place else 0.0, _EDGES[place]
        part = log(gap / low) / log(high / low) if low else gap / high
        return (rest + self._counts[place] * (1.0 - part)) / self._total


class GapMemory:
    """The gaps of each key's sessions, in a loop and after an answer. Memory is bounded."""

    def __init__(self) -> None:
        self._gaps: OrderedDict[tuple[str, bool], _Gaps] = OrderedDict()
        self._unknown = {in_loop: _Gaps(prior) for in_loop, prior in _PRIORS.items()}

    def add(self, session: Session, gap: float) -> None:
        """It came back after so many seconds; infinity: it did not. Of a single request nothing is learned."""
        if session.is_single:
            return
        name = session.key, session.in_loop
        known = self._gaps.get(name)
        if known is None:
            known = self._gaps[name] = _Gaps(_PRIORS[session.in_loop])
            if len(self._gaps) > MOST_KEYS:
                self._gaps.popitem(last=False)
        self._gaps.move_to_end(name)
        known.add(gap)

    def chance(self, session: Session, now: float, within: float) -> float:
        """That a session which is neither served nor waits returns within so many seconds."""
        if session.is_single or is_forgotten(session, now):
            return 0.0
        gaps = self._gaps.get((session.key, session.in_loop), self._unknown[session.in_loop])
        gap = now - (session.ended_at or 0.0)
        left = gaps.longer(gap)
        return 1.0 - gaps.longer(gap + within) / left if left > 0 else 0.0

    def worth(self, session: Session, now: float, swap_time: float) -> float:
        """What it counts for against a swap of its serve, which takes so long."""
        chance = self.chance(session, now, swap_time)
        if chance >= LIKELY:
            return SWAP_WORTH
        return chance if chance >= NEGLIGIBLE else 0.0


def is_forgotten(session: Session, now: float) -> bool:
    """Whether it has not been here for so long that nobody expects it, or was never answered."""
    return session.ended_at is None or now - session.ended_at >= FORGOTTEN_AFTER


def is_in_loop(waiter: Waiter) -> bool:
    """Whether a request goes on with a loop of tool calls, its own session's or its parent's."""
    session = waiter.share.session
    if session is None:
        return False
    return session.in_loop if session.turns or session.parent is None else is_looping(session.parent)


def is_looping(session: Session) -> bool:
    return session.in_loop or session.began_at is not None


def slowdown(session: Session, now: float, swap_time: float, waiting: float = 0.0) -> float:
    """The time of the session so far, times what it would have taken alone. `waiting`: of a request that waits now."""
    root = session.root
    waited = root.waited + waiting
    age = now - root.began_at if root.began_at is not None else 0.0
    alone = max(age - waited, LEAST_ALONE * swap_time, 1.0)
    return min((alone + waited) / alone, MOST_SLOWDOWN)


def waiting_cost(waiters: Iterable[tuple[Waiter, float]], now: float) -> tuple[float, float]:
    """What waiting has cost so far, and by how much that grows each second. A session counts once, by its oldest
    request. `waiters`: each with the swap time of its serve.
    """
    cost = rate = 0.0
    seen: set[Session] = set()
    for waiter, swap_time in waiters:
        session, waited = waiter.share.session, now - waiter.since
        weight = 1.0
        if session is not None:
            if session.root in seen:
                continue
            seen.add(session.root)
            weight = slowdown(session, now, swap_time, waited)
        cost += weight * waited
        rate += weight
    return cost, rate
