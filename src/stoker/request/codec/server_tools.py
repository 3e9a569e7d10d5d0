"""Which tools of a request the client does not run itself: those of a vendor, such as web search.

A function, a custom tool and a namespace of such are the client's; everything else is run by the vendor, or is known to
its models by heart. Every dialect marks them by their `type`; Messages gives the client's own tools none.

Calls of such tools stand in the history of later requests, whether those declare the tools or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from stoker.domain.dialect import Dialect

CLIENT_KINDS: Final = frozenset(("function", "custom", "namespace"))
SERVER_TOOL_FIELDS: Final = ("web_search_options", "mcp_servers", "container")
"""Top-level fields that ask for such tools: of Chat Completions, and the others of Messages."""


class _Tool(msgspec.Struct):
    type: str = "function"


_kinds: Final = msgspec.json.Decoder(list[_Tool])


def names_server_tools(top: Mapping[str, msgspec.Raw]) -> bool:
    """Whether a request, given by its top-level fields, may name such tools: of its tools only the kinds are read."""
    if any(name in top for name in SERVER_TOOL_FIELDS):
        return True
    try:
        tools = _kinds.decode(top["tools"])
    except msgspec.DecodeError:
        return True
    return any(tool.type not in CLIENT_KINDS for tool in tools)


def is_clients(kind: object) -> bool:
    """Whether a tool of this `type` is run by the client."""
    return isinstance(kind, str) and kind in CLIENT_KINDS


def holds_server_calls(dialect: Dialect, body: bytes) -> bool:
    """Whether the history of a request may have calls of such tools. Linear in the body."""
    return any(kind in body for kind in dialect.spec.server_calls)
