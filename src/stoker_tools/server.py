"""The part of the server that runs tools for models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.app.configuration import Configuration
from stoker.app.server_parts import ServerAccess, ServerContext, ServerPart
from stoker.domain.access import Settings
from stoker.domain.serve import Serve
from stoker.domain.server_tools import ServerToolKind
from stoker.exchange.planner import Planner
from stoker.request.relay.public_fetcher import PublicFetcher
from stoker_tools.mcp_servers import McpServers
from stoker_tools.planner import ServerTools
from stoker_tools.running import ToolCounts, ToolRunner
from stoker_tools.tables import LoopLimits, Tool

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def build(context: ServerContext) -> ServerPart:
    return ToolsPart(context)


def tools_of(settings: Settings) -> dict[str, Tool]:
    """Those of the configuration, in its order."""
    found: Any = settings.extensions.get("tools", {})
    return dict(found)


def limits_of(settings: Settings) -> LoopLimits:
    found: Any = settings.extensions.get("tool_loop", LoopLimits())
    assert isinstance(found, LoopLimits)
    return found


class ToolsPart(ServerPart):
    def __init__(self, context: ServerContext) -> None:
        self._mcp_servers = McpServers(context.clock.now, context.directory / "tools")
        self._runner = ToolRunner(context.clock.now, PublicFetcher(), self._mcp_servers)
        self._tools: dict[str, Tool] = {}

    def connect(self, server: ServerAccess) -> None:
        self._server = server

    def plan(self, configuration: Configuration, before: Collection[Serve]) -> Planner | None:
        settings = configuration.settings
        self._tools = tools_of(settings)
        self._mcp_servers.admit(self._tools.values())
        return ServerTools(
            self._tools, limits_of(settings), self._runner, self._server.upstream_client, settings.front_door.keep_alive
        )

    async def reloaded(self, settings: Settings, dry_run: bool) -> Mapping[str, object]:
        if not dry_run:
            await self._mcp_servers.keep(list(tools_of(settings).values()))
        return {}

    async def close(self) -> None:
        await self._mcp_servers.close()

    def status(self) -> Mapping[str, object]:
        return {
            "tools": [
                _state(tool, self._runner.counts_of(tool), self._mcp_servers.changed.get(tool.name, ()))
                for tool in self._tools.values()
            ]
        }

    def metrics(self) -> Sequence[Metric]:
        return families({name: self._runner.counts_of(tool) for name, tool in self._tools.items()})


def families(counts: Mapping[str, ToolCounts]) -> list[Metric]:
    """By the tools' names."""
    from stoker.store.families import counter

    calls = [
        ((name, outcome), float(number))
        for name, one in counts.items()
        for outcome, number in (("worked", one.calls - one.failed), ("failed", one.failed))
    ]
    return [
        counter("stoker_tool_calls", "Calls of tools that Stoker ran.", ("tool", "outcome"), calls),
        counter("stoker_tool_seconds", "Time that these calls took.", ("tool",),
                [((name,), one.seconds) for name, one in counts.items()]),
        counter("stoker_tool_bytes", "Text that models got of their results.", ("tool",),
                [((name,), float(one.bytes)) for name, one in counts.items()]),
    ]  # fmt: skip


def _state(tool: Tool, counts: ToolCounts, changed: Sequence[str]) -> dict[str, object]:
    """`changed`: the tools that an MCP server describes otherwise than at first."""
    assert tool.kind is not None
    more = {"changed": list(changed)} if tool.answers is ServerToolKind.MCP else {}
    return more | {
        "name": tool.name, "kind": tool.kind.value, "answers": tool.answers.value, "active": counts.active,
        "calls": counts.calls, "failed": counts.failed, "problem": counts.problem,
    }  # fmt: skip
