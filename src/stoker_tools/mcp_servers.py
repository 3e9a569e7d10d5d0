"""The MCP servers of the configuration: one session each, from its first use on, and the list of its tools.

The list is asked for again after KEPT seconds. A server that cannot be reached is asked again after a pause that grows.
What a server said of each tool when it was first seen is remembered, in a file: one that says something else later is
told by `stoker doctor`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.domain.figures import counted
from stoker.domain.server_tools import McpTool, WebPage
from stoker.store.files import atomic
from stoker_tools.search import ToolFailed
from stoker_tools.tables import Tool

if TYPE_CHECKING:
    from stoker_tools.mcp_session import McpSession

log = logging.getLogger("stoker.tools")
KEPT = 300.0
LONGEST_PAUSE = 60.0
FILE = "mcp-tools.json"


class McpToolFailed(ToolFailed):
    """The tool ran, and said that it failed. `said`: why, for the model."""

    def __init__(self, said: str) -> None:
        super().__init__("tool_error", "the tool said that it failed")
        self.said = said


class _Server:
    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.session: McpSession | None = None
        self.tools: list[McpTool] = []
        self.listed_at: float | None = None
        self.lock = asyncio.Lock()
        self.failures = 0
        self.try_at = 0.0
        self.why = ""


class McpServers:
    """Used by all requests. A reload keeps the sessions of tools that did not change."""

    def __init__(self, now: Callable[[], float], directory: Path | None = None) -> None:
        """`directory`: where what was first seen is kept; None: nowhere."""
        self._now = now
        self._servers: dict[str, _Server] = {}
        self._seen = None if directory is None else directory / FILE
        self.calls = 0
        """Those that were sent to servers since the start."""
        self.changed: dict[str, list[str]] = {}
        """By tool of the configuration: the tools of which the server says something else than when first seen."""

    async def tools(self, tool: Tool) -> list[McpTool]:
        """Those that `allow` allows. Raises ToolFailed."""
        server = self._server(tool)
        async with server.lock:
            listed_at = server.listed_at
            session = await self._session(server)
            if listed_at is None or server.listed_at is None or self._now() - listed_at >= KEPT:
                try:
                    async with asyncio.timeout(tool.timeout):
                        server.tools = await session.list_tools()
                except TimeoutError:
                    raise self._failed(server, f"it did not list its tools within {tool.timeout:g} s") from None
                server.listed_at = self._now()
                await asyncio.to_thread(self._remember, tool, list(server.tools))
        return [one for one in server.tools if is_allowed(tool, one.name)]

    async def call(self, tool: Tool, name: str, arguments: Mapping[str, Any]) -> WebPage:
        """Raises ToolFailed. The caller bounds the time; on cancel the server is told."""
        server = self._server(tool)
        async with server.lock:
            session = await self._session(server)
        self.calls += 1
        text, is_error = await session.call(name, dict(arguments))
        if is_error:
            raise McpToolFailed(text)
        return WebPage("", "", text)

    async def keep(self, tools: Collection[Tool]) -> None:
        """End the sessions of all others."""
        for name, server in list(self._servers.items()):
            if server.tool not in tools:
                del self._servers[name]
                if server.session is not None:
                    await server.session.close()

    async def close(self) -> None:
        await self.keep(())

    def _server(self, tool: Tool) -> _Server:
        server = self._servers.get(tool.name)
        if server is None or server.tool != tool:
            server = self._servers[tool.name] = _Server(tool)
        return server

    async def _session(self, server: _Server) -> McpSession:
        """Raises ToolFailed."""
        session: McpSession | None = server.session
        if session is not None and not session.is_broken:
            return session
        server.session = server.listed_at = None
        if session is not None:
            await session.close()
        if self._now() < server.try_at:
            raise ToolFailed("unavailable", server.why)
        fresh: McpSession = (await _load()).McpSession(server.tool)
        try:
            async with asyncio.timeout(server.tool.timeout):
                await fresh.open()
        except TimeoutError:
            raise self._failed(server, f"no session within {server.tool.timeout:g} s") from None
        except ToolFailed as error:
            raise self._failed(server, error.why, error.words) from None
        server.session, server.failures = fresh, 0
        return fresh

    def _failed(self, server: _Server, why: str, words: str = "") -> ToolFailed:
        server.failures += 1
        server.why = why
        server.try_at = self._now() + min(LONGEST_PAUSE, 2.0 ** (server.failures - 1))
        return ToolFailed("unavailable", why, words)

    def _remember(self, tool: Tool, tools: Sequence[McpTool]) -> None:
        """Blocks."""
        if self._seen is None:
            return
        try:
            seen = read_seen(self._seen)
            self.changed[tool.name] = changed = changes(seen.get(tool.name, {}), tools)
            if changed:
                told = counted(len(changed), "tool")
                log.warning("tool '%s': its MCP server describes %s otherwise than at first", tool.name, told)
            known = {**digests(tools), **seen.get(tool.name, {})}
            if known != seen.get(tool.name):
                write_seen(self._seen, {**seen, tool.name: known})
        except OSError as error:
            log.warning("tool '%s': what its server says cannot be remembered: %s", tool.name, error.strerror)


async def _load() -> Any:
    try:
        return await asyncio.to_thread(importlib.import_module, "stoker_tools.mcp_session")
    except ImportError as error:
        what = f"the MCP SDK is not installed ({error.name}): pip install 'stoker[mcp]'"
        raise ToolFailed("unavailable", what) from None


def is_allowed(tool: Tool, name: str) -> bool:
    return "*" in tool.allow or name in tool.allow


# -- what was first seen ----------------------------------------------------------------------------------------------


def digests(tools: Sequence[McpTool]) -> dict[str, str]:
    """What a server says of its tools, by their names: a hash of the description and the schema."""
    return {
        one.name: hashlib.sha256(
            json.dumps([one.description, one.input_schema, one.read_only], sort_keys=True).encode()
        ).hexdigest()
        for one in tools
    }


def changes(seen: Mapping[str, str], tools: Sequence[McpTool]) -> list[str]:
    """The tools that were seen before, and are described otherwise now."""
    return sorted(name for name, digest in digests(tools).items() if name in seen and seen[name] != digest)


def read_seen(path: Path) -> dict[str, dict[str, str]]:
    """By tool of the configuration; empty: there is none, or it cannot be read."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        found = json.loads(path.read_text())
        if isinstance(found, dict) and all(isinstance(one, dict) for one in found.values()):
            return found
    return {}


def write_seen(path: Path, seen: Mapping[str, Mapping[str, str]]) -> None:
    atomic.write(path, json.dumps(seen, indent=1, sort_keys=True).encode() + b"\n", make_parents=True)
