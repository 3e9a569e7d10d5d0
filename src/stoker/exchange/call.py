"""One request under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from stoker.domain.conversation import Stay
from stoker.domain.decision import Decision
from stoker.domain.errors import CapacityError, ClientLeft, StokerError
from stoker.domain.lease import Lease, PendingLease
from stoker.exchange.recorder import Sample
from stoker.exchange.waiting import FirstByteTimer
from stoker.request.accept.wire import Wire
from stoker.request.relay.relay import Relay
from stoker.request.relay.reply import Reply
from stoker.request.translate.neutral.dialogue import Check
from stoker.request.translate.translate import AnswerTranslator


class Call:
    """One request under way."""

    __slots__ = (
        "asking", "began", "check_of", "counted", "decision", "declines", "ending", "first_byte", "goes_on", "is_heavy",
        "is_left", "lease", "relay", "reply", "retry_after", "sample", "sent", "stay", "waiting", "wire",
    )  # fmt: skip

    def __init__(self, wire: Wire, reply: Reply, decision: Decision, began: float) -> None:
        self.wire = wire
        self.reply = reply
        self.decision = decision
        self.began = began
        self.lease: Lease | None = None
        self.waiting: PendingLease | None = None
        self.asking: asyncio.Task[Any] | None = None
        """What the engine is asked before the call."""
        self.counted: tuple[str, int | None] = ("", None)
        """Prompt tokens, and the serve that counted them."""
        self.stay: Stay | None = None
        self.check_of: Check | None = None
        """What looks at the answer of the serve that is being asked."""
        self.sample: Sample | None = None
        """What keeps the answer, where it is to be graded."""
        self.goes_on: AnswerTranslator | None = None
        """An answer that the client has the beginning of, which the next reply is to end."""
        self.relay: Relay | None = None
        self.sent = 0.0
        """When a serve was last called, by the clock."""
        self.retry_after: float | None = None
        """Seconds for which the serve that was called last asked not to be asked again."""
        self.declines: Callable[[StokerError], bool] | None = None
        """See `Relay.declines`; None: nothing is declined."""
        self.first_byte: FirstByteTimer | None = None
        """Ends the attempt if nothing comes of it; None: there is nobody else to ask."""
        self.is_heavy = False
        """Whatever is done with its body is done by the thread for large ones."""
        self.is_left = False
        self.ending: Exception | None = None

    def begin_attempt(self, declines: Callable[[StokerError], bool] | None, first_byte: FirstByteTimer | None) -> None:
        """Another serve is to be asked; both are None where there is nobody after it."""
        self.declines = declines
        self.first_byte = first_byte
        self.retry_after = None

    def end(self, error: Exception) -> None:
        """End the request wherever it stands: at once while it waits or talks to a serve, else at its next step."""
        if self.ending is None:
            self.ending = error
        if self.relay is not None:
            self.relay.end(error)
        elif self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(error)
        elif self.asking is not None:
            self.asking.cancel()

    def cut(self, reason: str) -> None:
        """The lease was taken away before the serve was called."""
        self.end(CapacityError(f"the request was ended by Stoker: {reason}", code="cut"))

    def leave(self) -> None:
        """The client is gone: whatever the request stands at ends now."""
        self.is_left = True
        self.end(ClientLeft())

    def check(self) -> None:
        """Raises what the request was ended with, if it was."""
        if self.ending is not None:
            raise self.ending
