"""The part of the server that runs tools for models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.app.configuration import Configuration
from stoker.app.server_parts import ServerAccess, ServerContext, ServerPart
from stoker.domain.access import Settings
from stoker.domain.errors import ClientError
from stoker.domain.nearest import did_you_mean
from stoker.domain.serve import Serve
from stoker.domain.server_tools import ServerToolKind
from stoker.exchange.planner import Planner
from stoker.gateway.operations import PageRequest
from stoker.request.relay.public_fetcher import PublicFetcher
from stoker_tools.mcp_servers import McpServers
from stoker_tools.operations import TRY, TryRequest
from stoker_tools.planner import ServerTools, may_use
from stoker_tools.running import CallResult, ToolCounts, ToolRunner
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
        self._runner = ToolRunner(context.clock.now, PublicFetcher(), self._mcp_servers, context.clock.wall)
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
                _state(tool, self._runner.counts_of(tool)) | self._mcp_state(tool) for tool in self._tools.values()
            ]
        }

    def _mcp_state(self, tool: Tool) -> dict[str, object]:
        """`changed`: the tools that the server describes otherwise than at first. `tools`: None until it lists them."""
        if tool.answers is not ServerToolKind.MCP:
            return {}
        servers = self._mcp_servers
        listed = servers.listed(tool)
        found: dict[str, object] = {
            "changed": list(servers.changed.get(tool.name, ())),
            "tools": None if listed is None else [{"name": one.name, "read_only": one.read_only} for one in listed],
        }
        problem = servers.problem_of(tool)
        return found | {"problem": problem, "state": "unreachable"} if problem else found

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        if page.operation is TRY:
            return (await self._try(page.rest, page.body)).document()
        keys = self._server.keys()
        tools = [
            {"name": tool.name, "keys": [key.name for key in keys if may_use(key, tool)]}
            for tool in self._tools.values()
        ]
        return {"tools": tools}

    async def _try(self, name: str, asked: TryRequest) -> CallResult:
        tool = self._tools.get(name)
        if tool is None:
            known = did_you_mean(name, self._tools) or "; `stoker tools list` shows all"
            raise ClientError(f"there is no tool '{name[:64]}'{known}", code="unknown_tool", status=404)
        return await self._runner.by_hand(tool, asked.argument, asked.arguments)

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
        counter("stoker_tool_cost", "Money for the calls that were answered.", ("tool",),
                [((name,), one.cost) for name, one in counts.items()]),
    ]  # fmt: skip


def _state(tool: Tool, counts: ToolCounts) -> dict[str, object]:
    assert tool.kind is not None
    state = "failed" if counts.problem else "ready" if counts.calls else "unused"
    failure = None if counts.failed_at is None else {"why": counts.last_failure, "at": counts.failed_at}
    return {
        "name": tool.name, "kind": tool.kind.value, "answers": tool.answers.value, "acts": tool.acts,
        "state": state, "problem": counts.problem, "last_failure": failure, "next": tool.check_command,
        "active": counts.active, "calls": counts.calls, "failed": counts.failed, "seconds": counts.seconds,
        "bytes": counts.bytes, "cost": counts.cost,
    }  # fmt: skip
