"""Runs one call of one tool, with its limits, and counts what tools did."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.domain.answer import TOOL_SAID_ERROR
from stoker.domain.errors import ClientError
from stoker.domain.server_tools import ServerToolKind, WebPage
from stoker.request.relay.public_fetcher import PublicFetcher
from stoker_tools.command import run_command
from stoker_tools.fetch import check_address, fetch
from stoker_tools.mcp_servers import McpServers, McpToolFailed, is_allowed
from stoker_tools.result_text import fitted
from stoker_tools.search import NotBegun, SearchQuery, ToolFailed, off_the_loop, search
from stoker_tools.tables import Tool, ToolService

log = logging.getLogger("stoker.tools")


class ToolCounts:
    """What one tool did since the start."""

    def __init__(self) -> None:
        self.active = 0
        self.calls = 0
        self.failed = 0
        self.seconds = 0.0
        self.bytes = 0
        """Of text for models."""
        self.cost = 0.0
        self.recent: deque[float] = deque()
        """When the calls of the last minute began, if they are limited."""
        self.problem = ""
        """Why the last call failed; empty: it did not. It has nothing of a request."""
        self.last_failure = ""
        """Why the last call that failed did; empty: none has."""
        self.failed_at: float | None = None
        """When that was, in Unix seconds."""


class CallResult(NamedTuple):
    pages: list[WebPage]
    error: str
    """The word for clients; empty: it worked."""
    seconds: float
    bytes: int
    why: str = ""
    """For the operator."""
    has_begun: bool = True
    """Something was, or may have been, sent to the tool."""
    was_cut_off: bool = False
    """Nobody waited for the answer any longer: the tool may have worked."""

    @property
    def is_paid(self) -> bool:
        """The call costs what calls cost: the tool has answered, be it that it failed, or may have worked."""
        return not self.error or self.error == TOOL_SAID_ERROR or self.was_cut_off

    def document(self) -> dict[str, object]:
        pages = [{"title": page.title, "url": page.url, "age": page.age, "text": page.text} for page in self.pages]
        return {"pages": pages, "error": self.error, "why": self.why, "seconds": self.seconds, "bytes": self.bytes}


MINUTE = 60.0
CUT_OFF = CallResult([], "may_have_run", 0.0, 0, "the client left during the call", was_cut_off=True)
MOST_ONCE, MOST_ONCE_IN_ALL = 100, 1000
"""Results of calls that run once that are kept, of each caller and of all. One has `characters` of the tool at most."""


class ToolRunner:
    """Used by all requests. A reload keeps the counts."""

    def __init__(
        self,
        now: Callable[[], float],
        fetcher: PublicFetcher,
        mcp_servers: McpServers | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.counts: dict[str, ToolCounts] = {}
        self.mcp_servers = mcp_servers or McpServers(now)
        self._now = now
        self._wall = wall
        self._fetcher = fetcher
        self._once: dict[str, dict[str, asyncio.Future[CallResult]]] = {}
        """By the caller's name."""

    def counts_of(self, tool: Tool) -> ToolCounts:
        return self.counts.setdefault(tool.name, ToolCounts())

    async def run(self, tool: Tool, query: SearchQuery, most: int | None = None) -> CallResult:
        """Search for the query's text, or fetch it, if it is an address. `most`: characters for the model; None: as
        configured. Raises nothing but CancelledError; then no connection and no process is left.
        """
        return await self._bounded(tool, lambda: self._pages(tool, query), most)

    async def call(self, tool: Tool, name: str, arguments: Mapping[str, Any]) -> CallResult:
        """Call a tool of an MCP server. As `run`; if the tool itself says that it failed, its pages say why."""

        async def called() -> list[WebPage]:
            return [await self.mcp_servers.call(tool, name, arguments)]

        return await self._bounded(tool, called, None)

    async def once(self, caller: str, names: Sequence[str], call: Callable[[], Awaitable[CallResult]]) -> CallResult:
        """What came of the call that this caller made by one of these `names`, even if it was cut off. Only if there
        was none, `call` runs, and is known by all of them. Of each caller the last MOST_ONCE are known, as far as those
        of all are not too many: then the caller with most loses its first.
        """
        keys = [hashlib.sha256(name.encode("utf-8", "replace")).hexdigest() for name in names]
        known = self._once.setdefault(caller, {})
        running = next((known[key] for key in keys if key in known), None)
        if running is not None:
            for key in keys:
                known.setdefault(key, running)
            return await asyncio.shield(running)
        running = asyncio.get_running_loop().create_future()
        known.update(dict.fromkeys(keys, running))
        result = CUT_OFF
        try:
            result = await call()
        finally:
            running.set_result(result)
            if not result.has_begun:
                for key in [one for one, future in known.items() if future is running]:
                    del known[key]
            self._forget(known)
        return result

    def _forget(self, known: dict[str, asyncio.Future[CallResult]]) -> None:
        """What is too much. What still runs stays."""
        _drop_first(known, len(known) - MOST_ONCE)
        while sum(map(len, self._once.values())) > MOST_ONCE_IN_ALL:
            if not _drop_first(max(self._once.values(), key=len), 1):
                break
        self._once = {caller: results for caller, results in self._once.items() if results}

    async def by_hand(self, tool: Tool, argument: str, arguments: Mapping[str, Any]) -> CallResult:
        """One call that an operator makes. `argument`: what to search for, the address to fetch, or the tool of an MCP
        server, which gets the `arguments`. Raises ClientError: it is not to be called.
        """
        if tool.answers is not ServerToolKind.MCP:
            return await self.run(tool, SearchQuery(argument, tool.max_results, hosts=tool.hosts))
        if not is_allowed(tool, argument):
            text = f"`allow` of [tools.{tool.name}] has no tool '{argument[:100]}'; it has {', '.join(tool.allow)}"
            raise ClientError(text, code="tool_not_allowed", param="argument")
        return await self.call(tool, argument, arguments)

    async def _pages(self, tool: Tool, query: SearchQuery) -> list[WebPage]:
        if tool.kind is ToolService.COMMAND:
            if tool.answers is ServerToolKind.FETCH:
                await check_address(tool, query.text, query, self._fetcher)
            return await run_command(tool, query)
        if tool.answers is ServerToolKind.FETCH:
            return [await fetch(tool, query.text, query, self._fetcher)]
        return await search(tool, query)

    async def _bounded(self, tool: Tool, work: Callable[[], Awaitable[list[WebPage]]], most: int | None) -> CallResult:
        counts, began = self.counts_of(tool), self._now()
        if counts.active >= tool.max_active:
            why = f"{tool.max_active} calls run already ([tools.{tool.name}] max_active)"
            return self._failed(tool, counts, NotBegun("too_many_requests", why), 0.0)
        if tool.per_minute is not None:
            recent = counts.recent
            while recent and began - recent[0] >= MINUTE:
                recent.popleft()
            if len(recent) >= tool.per_minute:
                why = f"{tool.per_minute} calls within a minute already ([tools.{tool.name}] per_minute)"
                return self._failed(tool, counts, NotBegun("too_many_requests", why), 0.0)
            recent.append(began)
        counts.active += 1
        try:
            async with asyncio.timeout(tool.timeout):
                pages = await work()
                characters = tool.characters if most is None else min(most, tool.characters)
                pages = await _fitted(pages, characters)
        except McpToolFailed as error:
            pages = await _fitted([WebPage("", "", error.said)], tool.characters)
            counts.cost += tool.cost
            return self._failed(tool, counts, error, self._now() - began)._replace(pages=pages)
        except ToolFailed as error:
            return self._failed(tool, counts, error, self._now() - began)
        except TimeoutError:
            late = ToolFailed("unavailable", f"no answer within {tool.timeout:g} s ([tools.{tool.name}] timeout)")
            counts.cost += tool.cost
            return self._failed(tool, counts, late, self._now() - began)._replace(was_cut_off=True)
        except asyncio.CancelledError:
            counts.calls += 1
            counts.failed += 1
            counts.seconds += self._now() - began
            counts.cost += tool.cost
            raise
        except Exception:
            log.exception("tool '%s' failed inside Stoker", tool.name)
            broken = ToolFailed("unavailable", "Stoker failed; its log says how")
            return self._failed(tool, counts, broken, self._now() - began)
        finally:
            counts.active -= 1
        seconds, size = self._now() - began, sum(len(page.text.encode("utf-8", "replace")) for page in pages)
        counts.calls += 1
        counts.seconds += seconds
        counts.bytes += size
        counts.cost += tool.cost
        counts.problem = ""
        return CallResult(pages, "", seconds, size)

    def _failed(self, tool: Tool, counts: ToolCounts, error: ToolFailed, seconds: float) -> CallResult:
        if error.error == "unavailable" and counts.problem != error.why:
            log.warning("tool '%s': %s", tool.name, error.why)
        counts.calls += 1
        counts.failed += 1
        counts.seconds += seconds
        counts.problem = counts.last_failure = error.why
        counts.failed_at = self._wall()
        return CallResult([], error.error, seconds, 0, error.why, not isinstance(error, NotBegun))


def _drop_first(known: dict[str, asyncio.Future[CallResult]], many: int) -> bool:
    """So many results that came first. Whether there was one."""
    ended = [key for key, future in known.items() if future.done()][: max(0, many)]
    for key in ended:
        del known[key]
    return bool(ended)


async def _fitted(pages: list[WebPage], characters: int) -> list[WebPage]:
    return await off_the_loop(sum(len(page.text) for page in pages), fitted, pages, characters)
