"""Which class of tasks comes after which: code follows planning, and so on. Pure."""

from __future__ import annotations

from collections import Counter, deque

REMEMBERED = 256
"""How many changes of class are remembered, so that old habits stop counting."""


class ClassTransitions:
    """Counts which class of request followed which other one."""

    def __init__(self) -> None:
        self.now: str | None = None
        self._seen: deque[tuple[str, str]] = deque()
        self._after: dict[str, Counter[str]] = {}

    def on_class(self, name: str) -> None:
        """A request of this class arrived. The same class again changes nothing."""
        before, self.now = self.now, name
        if before is None or before == name:
            return
        self._seen.append((before, name))
        self._after.setdefault(before, Counter())[name] += 1
        if len(self._seen) > REMEMBERED:
            old, follower = self._seen.popleft()
            self._after[old][follower] -= 1

    def next(self) -> str | None:
        """The class that most often followed the current one; None if none ever did."""
        found = self._after.get(self.now) if self.now is not None else None
        if not found:
            return None
        name, count = found.most_common(1)[0]
        return name if count > 0 else None
