"""Which replica has which beginnings of prompts in its cache, as far as Stoker knows: what it sent where. Pure.

A wrong belief that a replica still has a prompt costs little; a wrong belief that it has lost one costs much: in a
simulation 45 % of the throughput, where the cache was believed to be half as large as it was. So nothing is forgotten
by a guess of the cache's size, but only when a replica ends, by what engines report, and by a plain bound.
"""

from __future__ import annotations

from collections.abc import Collection

from stoker.domain.prompt_chain import PromptChain

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
