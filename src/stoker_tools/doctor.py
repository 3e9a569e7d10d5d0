"""The checks of `doctor` for tools."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.domain.figures import counted
from stoker.domain.server_tools import ServerToolKind

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker_tools.tables import Tool


def findings(settings: Settings) -> list[DoctorFinding]:
    """One finding for each tool. A search service is asked one question."""
    from stoker_tools.server import tools_of

    return [_tool(tool) for tool in tools_of(settings).values()]


def _tool(tool: Tool) -> DoctorFinding:
    from stoker.request.relay.public_fetcher import PublicFetcher
    from stoker_tools.running import ToolRunner
    from stoker_tools.search import SearchQuery

    part = f"tool {tool.name}"
    if tool.answers is ServerToolKind.FETCH:
        return DoctorFinding(part, DoctorHealth.OK, "fetches public pages that a conversation names")
    runner = ToolRunner(time.monotonic, PublicFetcher())
    result = asyncio.run(runner.run(tool, SearchQuery("weather", 3)))
    if result.error:
        fix = f"correct [tools.{tool.name}], or start what answers there"
        return DoctorFinding(part, DoctorHealth.FAIL, result.why, fix, f"stoker tools try {tool.name} weather")
    detail = f"{counted(len(result.pages), 'result')} in {result.seconds:.2f} s"
    if not result.pages:
        fix = "switch on a search engine that answers without a key"
        return DoctorFinding(part, DoctorHealth.WARN, "it finds nothing", fix, f"stoker tools try {tool.name} weather")
    return DoctorFinding(part, DoctorHealth.OK, detail)
