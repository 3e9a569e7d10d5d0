"""A fault: how the proxy changes requests and answers. Hooks change their arguments in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Document = dict[str, Any]
Frames = list[Document | None]
"""The chunks of a stream of Chat Completions; None is `[DONE]`."""


class ServingFault(NamedTuple):
    """`request` sees every POST with messages, `whole` and `stream` the chat answers with what was asked for,
    `page` every other JSON that is answered. A fault with `stream` or `lines` holds a stream back until it is whole."""

    name: str
    description: str
    checks: frozenset[str]
    """The checks that may name the fault."""
    request: Callable[[str, Document], None] | None = None
    """Path, document."""
    whole: Callable[[Document, Document], None] | None = None
    """Request, answer."""
    stream: Callable[[Document, Frames], Frames] | None = None
    lines: Callable[[Frames], list[bytes]] | None = None
    """The data of a stream's events, for faults that JSON cannot express."""
    page: Callable[[str, Any], Any] | None = None
    """Path, document; returns the document to send, None for 404."""
    status: Callable[[int], int] | None = None
    shortens: bool = False
    """A request that is refused as too long is cut and sent again."""
    keeps_generating: bool = False
    """The upstream continues after the client has left."""
    mixes: bool = False
    """Answers of concurrent requests get each other's text."""
    every: int = 1
    """Only one chat request in `every` has the fault."""
    share: float = 1.0
    """The share of chat requests that have the fault, by chance."""
    delay: float = 0.0
    """Seconds that a chat request waits."""
    needs_real_engine: bool = False
    """Only a real engine shows the fault: one that renders templates, samples, and counts its requests."""
    needed_abilities: tuple[str, ...] = ()
    """Grafts without which the fault cannot be seen."""
    needs_embeddings: bool = False
    """Only a server that makes embeddings shows the fault."""


class PlayedAbility(NamedTuple):
    """An ability that the proxy imitates. `answer` returns the message; None: ask the upstream. `request` changes a
    request behind the fault."""

    name: str
    request: Callable[[str, Document], None] | None = None
    answer: Callable[[Document], Document | None] | None = None
    whole: Callable[[Document, Document], None] | None = None
    stream: Callable[[Document, Frames], Frames] | None = None
    page: Callable[[str, Any], Any] | None = None


def delta(frame: Document | None) -> Document:
    """The first choice's delta; empty: there is none."""
    choices = (frame or {}).get("choices") or [{}]
    found = choices[0].get("delta")
    return found if isinstance(found, dict) else {}


def message(reply: Document) -> Document:
    """The first choice's message."""
    found = reply["choices"][0]["message"]
    return found if isinstance(found, dict) else {}


def both(change: Callable[[Document, str], str]) -> tuple[Callable[..., None], Callable[..., Frames]]:
    """(whole, stream) that change the text of an answer. A stream keeps its frames, each with its share."""

    def whole(asked: Document, reply: Document) -> None:
        found = message(reply)
        if isinstance(found.get("content"), str) and found["content"]:
            found["content"] = change(asked, found["content"])

    def stream(asked: Document, frames: Frames) -> Frames:
        carrying = [frame for frame in frames if delta(frame).get("content")]
        if carrying:
            text = change(asked, "".join(delta(frame)["content"] for frame in carrying))
            share = -(-len(text) // len(carrying)) or 1
            for at, frame in enumerate(carrying):
                delta(frame)["content"] = text[at * share : (at + 1) * share]
        return frames

    return whole, stream


def finish(frames: Frames) -> Document:
    """The choice with the finish reason; empty if there is none."""
    for frame in frames:
        for choice in (frame or {}).get("choices") or ():
            if isinstance(choice, dict) and choice.get("finish_reason"):
                return choice
    return {}
