"""A session: the requests of one agent, or one person, that follow each other. It holds nothing of their content."""

from __future__ import annotations

from typing import Any, Final

FORGOTTEN_AFTER: Final = 600.0
"""Seconds after its last answer: then nobody expects it back."""
PROMPT: Final = "prompt"
"""The `source` of a session that nothing names: it is known by its prompts."""


class Session:
    """What is known of it. Times are monotonic seconds. Only the scheduler changes it, and `request.lease.sessions`
    says what follows from it.
    """

    __slots__ = ("began_at", "ended_at", "has_called", "id", "in_loop", "key", "loaded", "parent", "serve", "source",
                 "tier", "tokens", "turns", "waited")  # fmt: skip

    def __init__(self, id: str, key: str = "", source: str = "", parent: Session | None = None) -> None:
        self.id = id
        """Made from what names it; nobody can learn that from it."""
        self.key = key
        """The key's name."""
        self.source = source
        """What named it: a header, a field of the body, or PROMPT."""
        self.parent = None if parent is None else parent.root
        """A subagent's, the outermost one: for fairness the two are one."""
        self.serve = ""
        """The one that its last request asked."""
        self.tier = ""
        """The tier whose answer called a tool last; empty: none did."""
        self.loaded: Any = None
        """The scheduler's state of that serve."""
        self.turns = 0
        """Answers so far."""
        self.tokens = 0
        """Of its last prompt and answer: what has to be read again where the serve's cache is lost."""
        self.began_at: float | None = None
        self.ended_at: float | None = None
        """When its last answer ended; None: it has none yet, or a request of it is under way."""
        self.in_loop = False
        """Its last answer called a tool, so the next turn follows by itself. Requests beside the loop do not count."""
        self.has_called = False
        """Its last answer called a tool, whichever request that was to."""
        self.waited = 0.0
        """Seconds, over all requests that are answered."""

    def leave(self) -> None:
        """It asks for another serve, or nobody expects it any more."""
        if self.loaded is not None:
            self.loaded.sessions.pop(self, None)
            self.loaded = None

    @property
    def is_single(self) -> bool:
        """Whether nothing shows that it is more than one request: only its one prompt is known, and no tool was
        called.
        """
        return self.source == PROMPT and self.turns < 2 and not self.in_loop

    @property
    def root(self) -> Session:
        """The session for which it counts: its parent's, or itself."""
        return self.parent or self
