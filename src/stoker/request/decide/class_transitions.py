"""Which class of tasks comes after which: code follows planning, and so on. Pure."""

from __future__ import annotations

from collections import Counter, deque

REMEMBERED = 256
"""Changes of class: what was usual a week ago is not what is usual now."""


class ClassTransitions:
    """The classes that were asked for, as far as they changed."""

    def __init__(self) -> None:
        self.now: str | None = None
        self._seen: deque[tuple[str, str]] = deque()
        self._after: dict[str, Counter[str]] = {}

    def on_class(self, name: str) -> None:
        """It is asked for. The same one again changes nothing."""
        before, self.now = self.now, name
        if before is None or before == name:
            return
        self._seen.append((before, name))
        self._after.setdefault(before, Counter())[name] += 1
        if len(self._seen) > REMEMBERED:
            old, follower = self._seen.popleft()
            self._after[old][follower] -= 1

    def next(self) -> str | None:
        """What came most often after the present one; None: nothing ever did."""
        found = self._after.get(self.now) if self.now is not None else None
        if not found:
            return None
        name, count = found.most_common(1)[0]
        return name if count > 0 else None
