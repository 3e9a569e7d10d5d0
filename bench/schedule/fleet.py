"""What an engine does with a request: a prompt is read in chunks, a prefix that it remembers is not read again."""

from __future__ import annotations

from collections import OrderedDict

from bench.schedule.traces import BLOCK, TraceRequest

READ_PER_SECOND = 6000.0
"""Tokens of prompts that a replica reads, one prompt after the other."""
WRITTEN_PER_SECOND = 60.0
"""Tokens that it writes for a request which runs alone."""
SLOWED_BY = 0.15
"""Each further request that runs at its start adds this share to the time that it takes to write."""


class PrefixCache:
    """The blocks of prompts that a replica remembers; the longest unused ones are forgotten first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def count_leading(self, blocks: tuple[int, ...]) -> int:
        """How many of the first blocks it has."""
        for count, block in enumerate(blocks):
            if block not in self._blocks:
                return count
        return len(blocks)

    def add(self, blocks: tuple[int, ...]) -> None:
        for block in reversed(blocks):  # a prefix is used more often than what follows it
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)


class EngineReplica:
    """A serve that is loaded in a slot."""

    def __init__(self, serve: str, cached_tokens: int = 200_000) -> None:
        self.serve = serve
        self.running: set[int] = set()
        self.cache = PrefixCache(cached_tokens // BLOCK)
        self._reads_until = 0.0

    def count_cached(self, request: TraceRequest) -> int:
        """Tokens of the prompt that it need not read."""
        return min(self.cache.count_leading(request.blocks) * BLOCK, request.input_tokens)

    def start(self, id: int, request: TraceRequest, now: float) -> tuple[float, int, float]:
        """Serve it. Returns when it ends, how many tokens of its prompt were remembered, and the seconds to the first
        token.
        """
        cached = self.count_cached(request)
        others = len(self.running)
        self.running.add(id)
        if request.blocks:
            self.cache.add(request.blocks)
        if request.seconds is not None:
            return now + request.seconds, cached, 0.0
        self._reads_until = max(now, self._reads_until) + (request.input_tokens - cached) / READ_PER_SECOND
        ends = self._reads_until + request.output_tokens / WRITTEN_PER_SECOND * (1 + SLOWED_BY * others)
        return ends, cached, self._reads_until - now
