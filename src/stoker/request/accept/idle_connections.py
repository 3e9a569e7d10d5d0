"""What happens to a connection after a reply: it waits for the next request, or another process goes on with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class MovableConnection(Protocol):
    """A client's connection, which another process may go on with between two requests."""

    @property
    def is_idle(self) -> bool:
        """No request runs or has begun to come, and the last reply is sent."""

    @property
    def is_encrypted(self) -> bool:
        """Only this process has its keys."""

    def move(self, take: Callable[[int], None]) -> bool:
        """Call `take` with the socket's descriptor, which it may copy, and close the descriptor. False: the connection
        is not idle, or it is encrypted; it stays then. It also stays if `take` raises.
        """

    def announce_end(self) -> None:
        """Let the reply under way be the last one, and say so, if it has not begun."""


class IdleConnections:
    """Rules for all connections, between two requests."""

    def __init__(self) -> None:
        self.on_idle: Callable[[MovableConnection], None] | None = None
        """Called with each connection whose reply is complete and which stays open; None: nothing is called."""
        self.is_ending = False
        """The reply to each request that comes is its connection's last one, and says so."""

    def give_to(self, on_idle: Callable[[MovableConnection], None] | None) -> None:
        """Set `on_idle`."""
        self.on_idle = on_idle

    def end(self, is_ending: bool) -> None:
        """Set `is_ending`."""
        self.is_ending = is_ending
