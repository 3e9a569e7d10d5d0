"""Tools that the server runs for the model, such as web search: clients declare them, and get what came of them."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ServerToolKind(StrEnum):
    """What a tool does."""

    SEARCH = "web_search"
    FETCH = "web_fetch"


class WebPage(msgspec.Struct):
    """A page that a search found, or one that was fetched."""

    url: str
    title: str = ""
    text: str = ""
    """What is known of its content."""
    age: str = ""
    """When it was published, as the search service says it; empty: it does not."""


class ServerCall(msgspec.Struct):
    """One call of such a tool: what the model asked, and what came of it."""

    id: str
    """24 letters and digits; each dialect puts its own prefix before it."""
    kind: ServerToolKind
    arguments: str
    """A JSON object; `{}` if the model's own text was none."""
    pages: list[WebPage] = []
    error: str = ""
    """Why it failed, in the words of Messages: `unavailable`, `max_uses_exceeded`. Empty: it did not."""
