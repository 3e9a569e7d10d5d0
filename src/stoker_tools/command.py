"""Runs a program of the operator as a search service, or as what fetches pages.

It gets the call as one JSON object on standard input, and writes its results as JSON:

    web_search   {"query", "max_results"}   ->   {"results": [{"url", "title", "content"}]}, or the list alone
    web_fetch    {"url"}                    ->   {"title", "content"}, or the text alone

It runs without a shell, in the sandbox in which programs of models are run: in an empty directory, without Stoker's
environment, and without a network, unless `network` gives it one. Where the kernel grants no namespaces, only a program
with `network` is run.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.server_tools import ServerToolKind, WebPage
from stoker.fleet.process.starter import NOT_FOUND
from stoker.request.codec import tolerant_json
from stoker_lab.suites.sandbox.command import BoundedCommandResult, CommandLimits, isolated_command
from stoker_lab.suites.sandbox.sandbox import isolation_method
from stoker_tools.search import NotBegun, SearchQuery, ToolFailed, allowed_pages, off_the_loop
from stoker_tools.tables import Tool

PATH = "/usr/local/bin:/usr/bin:/bin"
MORE_TIME = 1.0
"""Seconds after the tool's own limit at which the sandbox ends it."""


async def run_command(tool: Tool, query: SearchQuery) -> list[WebPage]:
    """Raises ToolFailed. The caller bounds the time; on cancel no process is left."""
    if tool.answers is ServerToolKind.SEARCH:
        given: dict[str, Any] = {"query": query.text, "max_results": query.results}
    else:
        given = {"url": query.text}
    output = await _output(tool, msgspec.json.encode(given))
    return await off_the_loop(len(output), _pages_in, output, tool, query)


def _pages_in(output: bytes, tool: Tool, query: SearchQuery) -> list[WebPage]:
    """Raises ToolFailed: there are no results in it."""
    found = tolerant_json.read(output)
    if tool.answers is ServerToolKind.FETCH:
        if not isinstance(found, dict) or not isinstance(found.get("content"), str):
            found = {"content": output.decode("utf-8", "replace")}
        return [WebPage(query.text, str(found.get("title") or ""), found["content"])]
    if found is None:
        raise ToolFailed("unavailable", "it wrote something else than JSON")
    results = found.get("results") if isinstance(found, dict) else found
    if not isinstance(results, list):
        raise ToolFailed("unavailable", "what it wrote has no list of results")
    return allowed_pages(results, "content", "", query)


NO_NAMESPACES = (
    "no user namespaces here: the program would have the network, although `network` is off, and see other processes"
)


def may_be_run(tool: Tool) -> bool:
    """Whether its sandbox is as the configuration says. Blocks until the sandbox is known."""
    return tool.network or bool(isolation_method().prefix)


def without_namespaces(tool: Tool) -> str:
    """What the operator can do about it."""
    accept = f"accept it: network = true in [tools.{tool.name}]"
    return f"allow user namespaces (`unshare -r true`), or {accept}" if sys.platform == "linux" else accept


async def _output(tool: Tool, data: bytes) -> bytes:
    assert tool.command is not None
    if not await asyncio.to_thread(may_be_run, tool):
        raise NotBegun("unavailable", f"{NO_NAMESPACES}; {without_namespaces(tool)}")
    with tempfile.TemporaryDirectory(prefix="stoker-tool-", ignore_cleanup_errors=True) as directory:
        environment = {"PATH": PATH, "HOME": directory, "TMPDIR": directory, "LANG": "C.UTF-8", **tool.env}
        limits = CommandLimits(
            tool.timeout + MORE_TIME, output=tool.max_bytes + 1, has_network=tool.network, has_errors=False
        )
        try:
            result = await isolated_command(tool.command, Path(directory), data, environment, limits)
        except OSError as error:
            raise ToolFailed("unavailable", f"its command cannot be started ({error.strerror})") from None
    _check(tool, result)
    return result.output


def _check(tool: Tool, result: BoundedCommandResult) -> None:
    if result.status == NOT_FOUND:
        raise ToolFailed("unavailable", f"there is no program '{(tool.command or ('',))[0]}' in {PATH}")
    if len(result.output) > tool.max_bytes:
        raise ToolFailed("unavailable", f"it wrote more than {tool.max_bytes} bytes: see `max_bytes`")
    if result.status != 0:
        ended = result.message or f"it ended with status {result.status}"
        raise ToolFailed("unavailable", ended)
