"""An MCP server that does not keep to the rules stops nobody, and what it says reaches models alone."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
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


def test_what_a_server_says_is_in_no_log_and_no_reason(tmp_path: Path) -> None:
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

    written = io.StringIO()  # caplog also hears of what goes to no handler
    handler, root = logging.StreamHandler(written), logging.getLogger()
    root.addHandler(handler)
    try:
        asyncio.run(played())
    finally:
        root.removeHandler(handler)
    assert MARK not in written.getvalue()
    assert "describes 1 tool otherwise" in written.getvalue()


def test_a_tool_whose_name_cannot_be_shown_is_not_offered() -> None:
    async def played() -> None:
        async with running() as runner:
            assert await runner.mcp_servers.tools(hostile("name")) == []

    asyncio.run(played())


def test_what_a_server_says_of_a_tool_is_cleaned_and_cut() -> None:
    async def played() -> None:
        async with running() as runner:
            (tool,) = await runner.mcp_servers.tools(hostile("long"))
            assert len(tool.description) <= 1024
            assert "\u202e" not in tool.description
            assert tool.input_schema["description"] == "ab"

    asyncio.run(played())


def alive(pids: Path) -> list[int]:
    return [int(pid) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]


def test_a_reload_ends_the_programs_of_what_changed_and_lets_none_begin(tmp_path: Path) -> None:
    async def played() -> None:
        pids = tmp_path / "pids"
        old, new, other = (hostile("ok", str(pids), **more) for more in ({}, {"timeout": 6.0}, {"timeout": 7.0}))
        async with running() as runner:
            servers = runner.mcp_servers
            await servers.tools(old)
            await servers.tools(new)
            await servers.keep([new])
            assert len(alive(pids)) == 1
            assert (await runner.call(old, "t", {})).error == "unavailable"
            assert len(pids.read_text().split()) == 2
            servers.admit([other])
            assert (await runner.call(other, "t", {})).error == ""
        assert alive(pids) == []

    asyncio.run(played())


def test_many_requests_ask_a_server_that_does_not_list_its_tools_once(tmp_path: Path) -> None:
    async def played() -> None:
        pids = tmp_path / "pids"
        tool = hostile("no_list", str(pids), timeout=1.5)
        async with running() as runner:
            asked = (runner.mcp_servers.tools(tool) for _ in range(6))
            failures = await asyncio.gather(*asked, return_exceptions=True)
        assert {str(failure) for failure in failures} == {"it did not list its tools within 1.5 s"}
        assert len(pids.read_text().split()) == 1

    asyncio.run(played())


def test_a_list_that_cannot_be_asked_for_again_still_holds(tmp_path: Path) -> None:
    async def played() -> None:
        now = [0.0]
        servers = McpServers(lambda: now[0])
        try:
            tool = hostile("lists_once", timeout=1.5)
            for _ in range(3):
                assert [one.name for one in await servers.tools(tool)] == ["t"]
                now[0] += 301.0
        finally:
            await servers.close()

    asyncio.run(played())


class Streaming:
    """A server over HTTP whose streams end at once, and which wants to be asked again at once."""

    def __init__(self) -> None:
        self.gets = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
                body = await reader.readexactly(length)
                if head.startswith("delete"):
                    await reader.read()  # never answers
                    return
                message = json.loads(body or b"{}")
                self.gets += head.startswith("get")
                result = {
                    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                   "serverInfo": {"name": "s", "version": "1"}},
                    "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
                }.get(message.get("method", ""))  # fmt: skip
                outcome = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
                kind, data = "application/json", json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **outcome})
                if head.startswith("get") or message.get("method") == "tools/call":
                    kind, data = "text/event-stream", "retry: 0\nid: 1\ndata: \n\n"
                status = "200 OK"
                if not head.startswith("get") and "id" not in message:
                    status, data = "202 Accepted", ""
                writer.write(
                    f"HTTP/1.1 {status}\r\nmcp-session-id: s1\r\ncontent-type: {kind}\r\n"
                    f"content-length: {len(data)}\r\n\r\n{data}".encode()
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def test_streams_that_end_at_once_are_not_asked_for_again_and_again() -> None:
    async def played() -> None:
        streaming = Streaming()
        server = await asyncio.start_server(streaming.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        tool = Tool(name="desk", kind=ToolService.MCP, allow=("*",), url=url, timeout=3.0)
        async with running() as runner:
            assert [one.name for one in await runner.mcp_servers.tools(tool)] == ["t"]
            assert (await runner.call(tool, "t", {})).error == "unavailable"
            assert streaming.gets <= 3
        server.close()

    asyncio.run(played())
