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
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.domain.figures import counted
from stoker.domain.server_tools import McpTool, WebPage
from stoker.store.files import atomic
from stoker_tools.search import NotBegun, ToolFailed
from stoker_tools.tables import Tool

if TYPE_CHECKING:
    from stoker_tools.mcp_session import McpSession

log = logging.getLogger("stoker.tools")
KEPT = 300.0
LONGEST_PAUSE = 60.0
MOST_SEEN = 1000
"""Tools of one server that are remembered. Of one that always names others, only those of now."""
_CHANGED = "the configuration has changed"
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
        self._servers: list[_Server] = []
        self._usable: list[Tool] | None = None
        """None: all."""
        self._remembering = threading.Lock()
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
            if listed_at is None or server.listed_at is None:
                try:
                    await self._list(server, session)
                except ToolFailed:
                    session.is_broken = True  # else each of those that wait would ask it in vain
                    raise
            elif self._now() - listed_at >= KEPT and self._now() >= server.try_at:
                with contextlib.suppress(ToolFailed):  # what it said before still holds
                    await self._list(server, session)
        return _allowed(server)

    def problem_of(self, tool: Tool) -> str:
        """Why the server cannot be used now; empty: it can, or was not asked yet."""
        server = self._server_of(tool)
        return server.why if server is not None and server.failures else ""

    def listed(self, tool: Tool) -> list[McpTool] | None:
        """Those that `allow` allows, as the server listed them last; None: it did not yet."""
        server = self._server_of(tool)
        return None if server is None or server.listed_at is None else _allowed(server)

    async def _list(self, server: _Server, session: McpSession) -> None:
        """Raises ToolFailed."""
        limit = server.tool.timeout
        try:
            async with asyncio.timeout(limit):
                server.tools = await session.list_tools()
        except TimeoutError:
            raise self._failed(server, f"it did not list its tools within {limit:g} s") from None
        except ToolFailed as error:
            raise self._failed(server, error.why) from None
        server.listed_at, server.failures = self._now(), 0
        await asyncio.to_thread(self._remember, server.tool, list(server.tools))

    async def call(self, tool: Tool, name: str, arguments: Mapping[str, Any]) -> WebPage:
        """Raises ToolFailed. The caller bounds the time; on cancel the server is told."""
        try:
            server = self._server(tool)
            async with server.lock:
                session = await self._session(server)
        except ToolFailed as error:
            raise NotBegun(error.error, error.why) from None
        self.calls += 1
        text, is_error = await session.call(name, dict(arguments))
        if is_error:
            raise McpToolFailed(text)
        return WebPage("", "", text)

    def admit(self, tools: Collection[Tool]) -> None:
        """These may be used, too."""
        if self._usable is not None:
            self._usable += [tool for tool in tools if tool not in self._usable]

    async def keep(self, tools: Collection[Tool]) -> None:
        """End the sessions of all others, which may not be used any more."""
        self._usable = list(tools)
        ended = [server for server in self._servers if server.tool not in tools]
        self._servers = [server for server in self._servers if server.tool in tools]
        await asyncio.gather(*(server.session.close() for server in ended if server.session is not None))

    async def close(self) -> None:
        await self.keep(())

    def _server(self, tool: Tool) -> _Server:
        """Raises ToolFailed."""
        if self._usable is not None and tool not in self._usable:
            raise ToolFailed("unavailable", _CHANGED)
        server = self._server_of(tool)
        if server is None:
            server = _Server(tool)
            self._servers.append(server)
        return server

    def _server_of(self, tool: Tool) -> _Server | None:
        return next((server for server in self._servers if server.tool == tool), None)

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
        if server not in self._servers:
            raise ToolFailed("unavailable", _CHANGED)
        fresh: McpSession = (await _load()).McpSession(server.tool)
        try:
            async with asyncio.timeout(server.tool.timeout):
                await fresh.open()
        except TimeoutError:
            raise self._failed(server, f"no session within {server.tool.timeout:g} s") from None
        except ToolFailed as error:
            raise self._failed(server, error.why, error.words) from None
        if server not in self._servers:  # any more
            await fresh.close()
            raise ToolFailed("unavailable", _CHANGED)
        server.session = fresh
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
        with self._remembering:
            self._compare(self._seen, tool, [one for one in tools if is_allowed(tool, one.name)])

    def _compare(self, path: Path, tool: Tool, tools: Sequence[McpTool]) -> None:
        try:
            seen = read_seen(path)
            self.changed[tool.name] = changed = changes(seen.get(tool.name, {}), tools)
            if changed:
                told = counted(len(changed), "tool")
                log.warning("tool '%s': its MCP server describes %s otherwise than at first", tool.name, told)
            known = {**digests(tools), **seen.get(tool.name, {})}
            if len(known) > MOST_SEEN:
                known = {name: known[name] for name in digests(tools)}
            if known != seen.get(tool.name):
                write_seen(path, {**seen, tool.name: known})
        except OSError as error:
            log.warning("tool '%s': what its server says cannot be remembered: %s", tool.name, error.strerror)


class SdkMissing(ToolFailed):
    """No server can be asked."""


async def _load() -> Any:
    try:
        return await asyncio.to_thread(importlib.import_module, "stoker_tools.mcp_session")
    except ImportError as error:
        what = f"the MCP SDK is not installed ({error.name}): pip install 'stoker[mcp]'"
        raise SdkMissing("unavailable", what) from None


def _allowed(server: _Server) -> list[McpTool]:
    return [one for one in server.tools if is_allowed(server.tool, one.name)]


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
