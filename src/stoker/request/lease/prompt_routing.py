"""Sends a prompt to the replica that has most of it in its cache, unless that one has too much to do. Pure.

Which beginnings of prompts a replica has in its cache is known as far as Stoker sent them there. A wrong belief that a
replica still has a prompt costs little; a wrong belief that it has lost one costs much: in a simulation 45 % of the
throughput, where the cache was believed to be half as large as it was. So nothing is forgotten by a guess of the
cache's size, but only when a replica ends, by what engines report, and by a plain bound.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from stoker.domain.prompt_chain import PromptChain
from stoker.domain.serve_phase import ServePhase
from stoker.domain.usage import ServeUsage
from stoker.request.lease.places import choose_replica
from stoker.request.lease.state import ServeState

MAX_BLOCKS = 50_000
"""For each replica; about 8 MB."""
CLEARLY_LESS = 0.5
"""An engine that reused less than this share of what was expected has lost the rest."""


class PrefixMemory:
    """Time and memory are constant for each block of a prompt."""

    def __init__(self, bound: int = MAX_BLOCKS) -> None:
        self._bound = bound
        self._sends = 0
        self._sent: dict[str, dict[int, int]] = {}
        """By replica, when each block was sent to it last: numbers that grow, the smallest first."""
        self._lost: dict[str, int] = {}
        """By replica: what was sent up to this number is not in its cache any more."""

    def missing(self, chain: PromptChain, replicas: Collection[str]) -> dict[str, int]:
        """By replica, how many bytes of the prompt it has not."""
        return {replica: chain.size - self._known(chain, replica) for replica in replicas}

    def remember(self, chain: PromptChain, replica: str) -> None:
        """The prompt is sent to this replica."""
        self._sends += 1
        sent = self._sent.setdefault(replica, {})
        for hash in chain.hashes:
            sent.pop(hash, None)
            sent[hash] = self._sends
        while len(sent) > self._bound:
            del sent[next(iter(sent))]

    def last_sent(self, chain: PromptChain, replica: str) -> int:
        """When the longest known beginning of this prompt was sent to the replica; 0: none is known."""
        sent, lost = self._sent.get(replica, {}), self._lost.get(replica, 0)
        return next((at for hash in reversed(chain.hashes) if (at := sent.get(hash, 0)) > lost), 0)

    def lose(self, replica: str, sent_until: int) -> None:
        """What was sent to the replica until then is gone from its cache: engines give up what was used longest ago."""
        self._lost[replica] = max(self._lost.get(replica, 0), sent_until)

    def forget(self, replica: str) -> None:
        """The replica has ended."""
        self._sent.pop(replica, None)
        self._lost.pop(replica, None)

    def _known(self, chain: PromptChain, replica: str) -> int:
        sent, lost = self._sent.get(replica), self._lost.get(replica, 0)
        if sent:
            for hash, end in zip(reversed(chain.hashes), reversed(chain.ends), strict=True):
                if sent.get(hash, 0) > lost:
                    return end
        return 0


class _Sent(NamedTuple):
    """A prompt that a replica answers now."""

    replica: str
    chain: PromptChain
    expected: int
    """Bytes of it that the replica was expected to have in its cache."""
    last_sent: int
    """When these bytes were sent to it last, as `PrefixMemory` counts."""


class PromptRouting:
    """By the id of its lease, the prompts that are answered. Requests without a chain come through none of this."""

    def __init__(self) -> None:
        self.answered: dict[int, _Sent] = {}
        self._memory = PrefixMemory()
        self._ready_since: dict[str, float] = {}
        """By replica, the start to which the memory belongs."""

    def choose(self, replicas: Sequence[ServeState], now: float, chain: PromptChain | None) -> ServeState:
        """The one of these replicas that a request joins: see `choose_replica`."""
        ready = [state for state in replicas if state.phase is ServePhase.READY]
        if chain is None or len(ready) < 2:
            return choose_replica(replicas, now)
        for state in ready:
            self._notice_start(state)
        return choose_replica(replicas, now, self._memory.missing(chain, [state.name for state in ready]))

    def granted(self, id: int, state: ServeState, chain: PromptChain) -> None:
        """The prompt is sent to this replica now. `ended` follows."""
        self._notice_start(state)
        name = state.name
        expected = chain.size - self._memory.missing(chain, [name])[name]
        self.answered[id] = _Sent(name, chain, expected, self._memory.last_sent(chain, name))
        self._memory.remember(chain, name)

    def ended(self, id: int, usage: ServeUsage | None = None) -> None:
        """The request has ended. `usage`: what the engine counted; None: unknown. Unknown ids are ignored."""
        sent = self.answered.pop(id, None)
        if sent is None or usage is None or not usage.input or usage.cached is None:
            return
        had = usage.cached / usage.input * sent.chain.size
        if had < sent.expected * CLEARLY_LESS:
            self._memory.lose(sent.replica, sent.last_sent)

    def keep(self, replicas: Collection[str]) -> None:
        """Forget all other replicas: they are no longer configured."""
        for name in self._ready_since.keys() - set(replicas):
            del self._ready_since[name]
            self._memory.forget(name)

    def _notice_start(self, state: ServeState) -> None:
        if self._ready_since.get(state.name) != state.ready_since:
            self._ready_since[state.name] = state.ready_since
            self._memory.forget(state.name)
