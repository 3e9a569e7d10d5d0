"""One block at a time: what Messages and Responses want, and engines do not always give.

    1. nothing is open            -> the block opens, and goes on live
    2. another block is open      -> it waits, with all that comes of it
    3. the open block closes      -> who waits follows, in the order of opening, and the first unclosed one goes on live
    4. the answer is finished     -> whatever is open closes, whoever waits is given out

Blocks get numbers from `first` on, in the order in which they go out. What was never opened, or is closed, is dropped.
"""

from __future__ import annotations

from collections import OrderedDict

from stoker.domain.answer import Closed, Ended, Event, Failed, Finished, Grew, Opened, Signed


class BlockSequencer:
    """Feed it a reader's events; what it gives is for a writer."""

    __slots__ = ("_live", "_next", "_waiting")

    def __init__(self, first: int = 0) -> None:
        self._live: int | None = None
        self._next = first
        self._waiting: OrderedDict[int, list[Opened | Grew | Signed | Closed]] = OrderedDict()
        """A plain dict would look at all that is gone each time that its first one is asked for."""

    @property
    def is_idle(self) -> bool:
        """Nothing is open, nothing waits."""
        return self._live is None and not self._waiting

    def feed(self, event: Event) -> list[Event]:
        match event:
            case Opened(at=at):
                if self._live is None:
                    return [self._open(event)]  # 1
                if at != self._live and at not in self._waiting:
                    self._waiting[at] = [event]  # 2
                return []
            case Grew(at=at) | Signed(at=at):
                if at == self._live:
                    event.at = self._next - 1
                    return [event]
                if at in self._waiting:
                    self._waiting[at].append(event)  # 2
                return []
            case Closed(at=at):
                if at == self._live:
                    return [self._close(), *self._follow()]  # 3
                if at in self._waiting:
                    self._waiting[at].append(event)
                return []
            case Finished() | Failed() | Ended():
                return [*self._finish(), event]  # 4
            case _:
                return [event]

    def _open(self, event: Opened) -> Opened:
        self._live = event.at
        event.at = self._next
        self._next += 1
        return event

    def _close(self) -> Closed:
        self._live = None
        return Closed(self._next - 1)

    def _follow(self) -> list[Event]:
        out: list[Event] = []
        while self._waiting and self._live is None:
            _, events = self._waiting.popitem(last=False)
            for event in events:
                if isinstance(event, Opened):
                    out.append(self._open(event))
                elif isinstance(event, Closed):
                    out.append(self._close())
                    break
                else:
                    event.at = self._next - 1
                    out.append(event)
        return out

    def _finish(self) -> list[Event]:
        out: list[Event] = []
        while self._live is not None:
            out.append(self._close())
            out += self._follow()
        return out
