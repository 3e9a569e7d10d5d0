"""`stoker tools`: the tools that Stoker runs for models, and one call of one by hand."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import load_settings
from stoker.domain.server_tools import ServerToolKind

if TYPE_CHECKING:
    from stoker_tools.mcp_servers import McpServers
    from stoker_tools.tables import Tool

Result = TypeVar("Result")
app = typer.Typer(cls=CommandsWithHints, help="Tools that Stoker runs for models.", no_args_is_help=True)
options.accept_config(app)


@app.command("list")
def list_tools(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An MCP server: show its tools. It is asked for them.")
    ] = None,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """List the tools of the configuration. Stoker need not run."""
    from stoker_tools.server import tools_of

    if name is not None:
        _list_mcp(_named(tools_of(load_settings(config)), name), json, options.same_place(config, None))
        return
    tools = tools_of(load_settings(config, needs_secrets=False))
    if json:
        terminal.emit([_document(tool) for tool in tools.values()])
        return
    if not tools:
        terminal.say('no tools: add [tools.NAME] to the configuration, with kind = "searxng" for example')
        return
    for tool in tools.values():
        address = tool.base_url or tool.url
        where = f" at {address}" if address else f": {shlex.join(tool.command)}" if tool.command else ""
        typer.echo(f"{tool.name}: {tool.answers.value} by {tool.kind}{where}, at most {tool.max_uses} calls a request")


@app.command("try")
def try_tool(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool: NAME of [tools.NAME].")],
    argument: Annotated[
        str,
        typer.Argument(metavar="ARG", help="What to search for, the address to fetch, or the tool of an MCP server."),
    ],
    arguments: Annotated[
        str, typer.Argument(metavar="[JSON]", help="The arguments for the tool of an MCP server.")
    ] = "{}",
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Make one call, and show what a model would get. Stoker need not run."""
    import time

    from stoker.domain.errors import ClientError
    from stoker.request.relay.public_fetcher import PublicFetcher
    from stoker_tools.mcp_declared import object_of
    from stoker_tools.running import ToolRunner
    from stoker_tools.server import tools_of

    tool = _named(tools_of(load_settings(config)), name)
    runner = ToolRunner(time.monotonic, PublicFetcher())
    given = object_of(arguments)
    if given is None:
        raise UsageError(f"{arguments} is no JSON object: write the arguments like '{{\"id\": 7}}'")
    try:
        result = _with_session(runner.mcp_servers, runner.by_hand(tool, argument, given))
    except ClientError as error:
        raise UsageError(str(error)) from None
    if json:
        terminal.emit(result.document())
    elif result.error:
        for page in result.pages:
            typer.echo(page.text)
        terminal.say(f"tool '{name}' failed ({result.error}): {result.why}")
    else:
        for page in result.pages:
            typer.echo("\n".join(part for part in (page.title, page.url, page.text, "") if part))
        terminal.say(f"{len(result.pages)} results, {result.bytes} bytes in {result.seconds:.2f} s")
    if result.error:
        raise typer.Exit(FAILED)


def _named(tools: Mapping[str, Tool], name: str) -> Tool:
    from stoker.domain.nearest import did_you_mean

    tool = tools.get(name)
    if tool is None:
        known = f"; there are {', '.join(tools)}" if tools else "; the configuration has no [tools.NAME]"
        raise UsageError(f"there is no tool '{name}'{did_you_mean(name, tools) or known}")
    return tool


def _list_mcp(tool: Tool, json: bool, place: str) -> None:
    """Raises UsageError: it is no MCP server."""
    import time

    from stoker_tools.mcp_servers import McpServers
    from stoker_tools.result_text import cleaned
    from stoker_tools.search import ToolFailed

    if tool.answers is not ServerToolKind.MCP:
        raise UsageError(f"tool '{tool.name}' is no MCP server; those that are: stoker tools list{place}")
    servers = McpServers(time.monotonic)
    try:
        listed = _with_session(servers, servers.tools(tool))
    except ToolFailed as error:
        words = f"; its last words: {cleaned(error.words)}" if error.words else ""
        terminal.say(f"tool '{tool.name}': {error.why}{words}")
        raise typer.Exit(FAILED) from None
    if json:
        terminal.emit([{"name": one.name, "description": one.description, "input_schema": one.input_schema,
                        "read_only": one.read_only} for one in listed])  # fmt: skip
        return
    for one in listed:
        changes = "" if one.read_only else " (may change things)"
        typer.echo(f"{one.name}{changes}: {cleaned(one.description)}")


def _with_session(servers: McpServers, work: Coroutine[Any, Any, Result]) -> Result:
    """Nothing of the session is left."""

    async def done() -> Result:
        try:
            return await work
        finally:
            await servers.close()

    return asyncio.run(done())


def _document(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name, "kind": str(tool.kind), "answers": tool.answers.value, "base_url": tool.base_url,
        "url": tool.url, "command": list(tool.command or ()), "allow": list(tool.allow),
        "max_uses": tool.max_uses, "hosts": list(tool.hosts),
    }  # fmt: skip
