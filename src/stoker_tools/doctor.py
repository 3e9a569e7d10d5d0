"""The checks of `doctor` for tools."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.domain.figures import counted
from stoker.domain.server_tools import ServerToolKind

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.server_tools import McpTool
    from stoker_tools.tables import Tool


def findings(settings: Settings) -> list[DoctorFinding]:
    """One finding for each tool. A search service is asked one question, an MCP server for its tools."""
    from stoker_tools.server import tools_of

    state = Path(settings.paths.state) / "tools"
    return [
        _mcp(tool, state) if tool.answers is ServerToolKind.MCP else _tool(tool) for tool in tools_of(settings).values()
    ]


def _mcp(tool: Tool, state: Path) -> DoctorFinding:
    from stoker_tools.mcp_servers import FILE, McpServers, SdkMissing, changes, read_seen
    from stoker_tools.result_text import cleaned
    from stoker_tools.search import ToolFailed

    part, servers = f"tool {tool.name}", McpServers(time.monotonic)
    show = tool.check_command

    async def listed() -> list[McpTool]:
        try:
            return await servers.tools(tool)
        finally:
            await servers.close()

    try:
        tools = asyncio.run(listed())
    except ToolFailed as error:
        fix = f"correct [tools.{tool.name}], or start what answers there"
        if isinstance(error, SdkMissing):
            fix = "install it, where Stoker is installed"
        words = f"; its last words: {cleaned(error.words)}" if error.words else ""
        return DoctorFinding(part, DoctorHealth.FAIL, f"{error.why}{words}", fix, show)
    names = {one.name for one in tools}
    if absent := [name for name in tool.allow if name != "*" and name not in names]:
        detail = f"the server has no tool {', '.join(absent)}"
        return DoctorFinding(part, DoctorHealth.WARN, detail, f"correct `allow` of [tools.{tool.name}]", show)
    if changed := changes(read_seen(state / FILE).get(tool.name, {}), tools):
        detail = f"the server says something else than when first seen of: {', '.join(changed)}"
        fix = f"read what it says now; if it may stay, remove {state / FILE}"
        return DoctorFinding(part, DoctorHealth.WARN, detail, fix, show)
    return DoctorFinding(part, DoctorHealth.OK, f"{counted(len(tools), 'tool')}: {', '.join(sorted(names))}")


def _tool(tool: Tool) -> DoctorFinding:
    from stoker.request.relay.public_fetcher import PublicFetcher
    from stoker_tools.command import NO_NAMESPACES, may_be_run, without_namespaces
    from stoker_tools.running import ToolRunner
    from stoker_tools.search import SearchQuery
    from stoker_tools.tables import ToolService

    part = f"tool {tool.name}"
    if tool.kind is ToolService.FETCH:
        return DoctorFinding(part, DoctorHealth.OK, "fetches public pages that a conversation names")
    if tool.kind is ToolService.COMMAND and not may_be_run(tool):
        show = "unshare -r true" if sys.platform == "linux" else tool.check_command
        return DoctorFinding(part, DoctorHealth.FAIL, NO_NAMESPACES, without_namespaces(tool), show)
    runner = ToolRunner(time.monotonic, PublicFetcher())
    result = asyncio.run(runner.run(tool, SearchQuery(tool.sample, 3)))
    if result.error:
        fix = f"correct [tools.{tool.name}], or start what answers there"
        return DoctorFinding(part, DoctorHealth.FAIL, result.why, fix, tool.check_command)
    detail = f"{counted(len(result.pages), 'result')} in {result.seconds:.2f} s"
    if not result.pages:
        fix = "switch on a search engine that answers without a key"
        return DoctorFinding(part, DoctorHealth.WARN, "it finds nothing", fix, tool.check_command)
    return DoctorFinding(part, DoctorHealth.OK, detail)
