"""Tools that the server runs for the model, such as web search: clients declare them, and get what came of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class ServerToolKind(StrEnum):
    """What a tool does."""

    SEARCH = "web_search"
    FETCH = "web_fetch"
    MCP = "mcp"
    """A tool of an MCP server."""


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
    server: str = ""
    """The MCP server, as the client calls it. What its tool said is the text of the only page."""
    name: str = ""
    """The tool of that server."""
    is_waiting: bool = False
    """It has not run: the client has to approve it first."""
    approval: str = ""
    """The id of the request for approval that the client granted; empty: it needed none."""

    @property
    def text(self) -> str:
        """What a tool of an MCP server said."""
        return self.pages[0].text if self.pages else ""


class McpTool(msgspec.Struct):
    """A tool as its MCP server lists it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool = False
    """The server says that it changes nothing."""


class McpListing(msgspec.Struct):
    """The tools of an MCP server that a request may use: shown to the client before the model's answer."""

    id: str
    """24 letters and digits."""
    server: str
    """As the client calls it."""
    tools: list[McpTool]
    error: str = ""
    """Why the server could not list them; empty: it did."""
