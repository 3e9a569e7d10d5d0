"""An MCP server that does not keep to the rules stops nobody, and what it says reaches models alone."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.tools.tool_stage import fetcher_for

from stoker_tools.mcp_servers import McpServers
from stoker_tools.running import ToolRunner
from stoker_tools.search import ToolFailed
from stoker_tools.tables import Tool, ToolService

MARK = "MARKER-CONTENT-7731"
PROGRAM = str(Path(__file__).with_name("hostile_mcp.py"))


def hostile(way: str, *pids: str, **fields: Any) -> Tool:
    command = (sys.executable, "-I", "-S", PROGRAM, way, *pids)
    return Tool(name="desk", kind=ToolService.MCP, allow=("*",), command=command, **{"timeout": 5.0, **fields})


@asynccontextmanager
async def running(directory: Path | None = None) -> AsyncIterator[ToolRunner]:
    servers = McpServers(time.monotonic, directory)
    try:
        yield ToolRunner(time.monotonic, fetcher_for(), servers)
    finally:
        await servers.close()


@pytest.mark.parametrize("way", ["schema", "pattern"])
def test_nothing_is_checked_by_patterns_of_a_server(way: str) -> None:
    """The pattern takes longer than the tests have."""

    async def played() -> None:
        async with running() as runner:
            await runner.mcp_servers.tools(hostile(way))
            result = await runner.call(hostile(way), "t", {})
            assert (result.error, len(result.pages)) == ("", 1)

    asyncio.run(played())


def test_what_a_server_says_is_in_no_log_and_no_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def played() -> None:
        for way in ("bad_list", "dies"):
            async with running() as runner:
                with pytest.raises(ToolFailed) as failure:
                    await runner.mcp_servers.tools(hostile(way))
                assert MARK not in failure.value.why
                assert (MARK in failure.value.words) is (way == "dies")
        for way, error in (("bad_call", "unavailable"), ("notes", "")):
            async with running() as runner:
                await runner.mcp_servers.tools(hostile(way))
                result = await runner.call(hostile(way), "t", {})
                assert (result.error, MARK in result.why) == (error, False)
        for _ in range(2):
            async with running(tmp_path) as runner:
                await runner.mcp_servers.tools(hostile("changes"))

    with caplog.at_level(logging.DEBUG):
        asyncio.run(played())
    assert MARK not in caplog.text
    assert "describes 1 tool otherwise" in caplog.text


def test_a_tool_whose_name_cannot_be_shown_is_not_offered() -> None:
    async def played() -> None:
        async with running() as runner:
            assert await runner.mcp_servers.tools(hostile("name")) == []

    asyncio.run(played())


def alive(pids: Path) -> list[int]:
    return [int(one) for one in pids.read_text().split() if Path(f"/proc/{one}").exists() and not is_dead(one)]


def is_dead(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    return False
