"""The paths below /admin that this package answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.gateway.operations import Operation


class TryRequest(msgspec.Struct, forbid_unknown_fields=True):
    argument: str
    """What to search for, the address to fetch, or the tool of an MCP server."""
    arguments: Mapping[str, Any] = {}
    """For the tool of an MCP server."""


LIST = Operation("GET", "/admin/tools", "The keys that may use each tool that Stoker runs for models.")
TRY = Operation(
    "POST", "/admin/tools/{tool}", "Make one call of a tool, and show what a model would get.", body=TryRequest,
    fields=("argument", "arguments"), required=("argument",),
)  # fmt: skip
OPERATIONS = (LIST, TRY)
