"""How an extension sees the content of requests: what came, what serves got and answered, what clients got."""

from __future__ import annotations

from typing import Protocol

from stoker.exchange.request_context import Recording, RequestContext


class Recorder(Protocol):
    """Gets to know of each request to a model, once its body is there and before anything else is done with it."""

    def begin(self, context: RequestContext, body: bytes) -> Recording | None:
        """`body`: as the client sent it; empty, if the client sent a form. What the client gets is seen by whoever
        stands before `context.reply.exchange`. None: this request is not recorded. Returns at once, and raises nothing.
        """
