"""Which request gets which of an engine's sequences.

Two rules. A sequence serves one request at a time. What one key left in it, no other key meets: it is erased first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class KvSequence:
    """One of the engine's. What is in it as far as we know: `key` is who may have left something there."""

    number: int
    key: str | None = None
    is_foreign: bool = False
    """It holds an unknown conversation."""
    conversation: str | None = None
    """The conversation that can continue here."""
    size: int = 0
    """Bytes of the last request's body: the only measure of a conversation's length that is always known."""
    tokens: int | None = None
    """As the engine counted them at the end of the last request."""
    used: int = 0
    """The larger, the more recently."""
    is_busy: bool = False
    is_lost: bool = False
    """The result of the last call to it is unknown: it is not used any more."""


@dataclass(frozen=True, slots=True, eq=False)
class SequencePlace:
    """A sequence that is a request's now. `erase`: before anything else. `is_there`: its conversation is in it."""

    sequence: KvSequence
    key: str
    conversation: str | None
    size: int
    erase: bool
    is_there: bool


@dataclass(frozen=True, slots=True)
class Save:
    """What is worth saving. `tokens` None: the engine did not say how many."""

    number: int
    conversation: str
    tokens: int | None


class Sequences:
    """Of one run of one engine.

    In the order of a request: `on_request` (a place), `on_claimed` (nothing of anybody else's is in it), `on_ready`
    (its own conversation is, or nothing is), `on_done`. Any of them may be the last one before `on_done`.
    """

    def __init__(self, count: int, is_fresh: bool) -> None:
        """`is_fresh`: the engine has just started; otherwise the content of its sequences is unknown."""
        self._all = [KvSequence(number, is_foreign=not is_fresh) for number in range(count)]
        self._uses = 0

    @property
    def is_lost(self) -> bool:
        """Whether no sequence can be used any more."""
        return all(sequence.is_lost for sequence in self._all)

    def on_request(self, key: str, conversation: str | None, size: int) -> SequencePlace | None:
        """A place for a body of `size` bytes; `conversation` None: it goes on with nothing. None: all are in use.

        1. the conversation is there: the longest that is not longer than the request (a conversation grows), else
           the shortest
        2. an empty one
        3. the longest unused one; what another key left there is erased
        """
        free = [sequence for sequence in self._all if not sequence.is_busy and not sequence.is_lost]
        if not free:
            return None
        there = [sequence for sequence in free if conversation is not None and sequence.conversation == conversation]
        if there:
            chosen = min(there, key=lambda s: (s.size > size, abs(s.size - size)))  # 1
        else:
            chosen = min(free, key=lambda s: (s.key is not None or s.is_foreign, s.used))  # 2, 3
        chosen.is_busy = True
        self._uses += 1
        chosen.used = self._uses
        erase = chosen.is_foreign or chosen.key not in (None, key)
        return SequencePlace(chosen, key, conversation, size, erase, bool(there))

    def on_claimed(self, place: SequencePlace) -> None:
        """What had to be erased is erased. From now on the key's own content may be in it."""
        sequence = place.sequence
        sequence.key, sequence.is_foreign = place.key, False
        if not place.is_there:
            sequence.conversation, sequence.tokens = None, None

    def on_ready(self, place: SequencePlace) -> None:
        """The request is about to be sent."""
        place.sequence.conversation = place.conversation
        place.sequence.size = place.size
        place.sequence.tokens = None

    def on_done(self, place: SequencePlace, tokens: int | None) -> None:
        """The request is over; `tokens` are in the sequence now, if the engine reported it."""
        place.sequence.is_busy = False
        if tokens is not None:
            place.sequence.tokens = tokens

    def on_lost(self, place: SequencePlace) -> None:
        """The last call may still take effect."""
        place.sequence.is_lost = True
        place.sequence.conversation = None

    def on_stop(self) -> list[Save]:
        """The most recently used first; of a conversation that is there twice, the longest. One that is busy too: its
        request was cut off, and the engine saves when it has noticed.
        """
        found: dict[str, KvSequence] = {}
        for sequence in sorted(self._all, key=lambda sequence: -sequence.used):
            conversation = sequence.conversation
            if conversation is None:
                continue
            longest = found.setdefault(conversation, sequence)
            if sequence.size > longest.size:
                found[conversation] = sequence  # in the place of the more recent one
        return [Save(sequence.number, conversation, sequence.tokens) for conversation, sequence in found.items()]
