"""Sends a prompt to the replica that has most of it in its cache, unless that one has too much to do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from stoker.domain.prompt_chain import PromptChain
from stoker.domain.usage import ServeUsage
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.places import choose_replica
from stoker.request.lease.prefix_memory import CLEARLY_LESS, PrefixMemory
from stoker.request.lease.state import ServeState


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
