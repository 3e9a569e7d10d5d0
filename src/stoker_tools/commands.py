"""`stoker tools`: the tools that Stoker runs for models, and one call of one by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import load_settings

if TYPE_CHECKING:
    from stoker_tools.running import CallResult
    from stoker_tools.tables import Tool

app = typer.Typer(cls=CommandsWithHints, help="Tools that Stoker runs for models.", no_args_is_help=True)
options.accept_config(app)


@app.command("list")
def list_tools(config: options.Config = None, json: options.Json = False) -> None:
    """List the tools of the configuration. Stoker need not run."""
    from stoker_tools.server import tools_of

    tools = tools_of(load_settings(config, needs_secrets=False))
    if json:
        terminal.emit([_document(tool) for tool in tools.values()])
        return
    if not tools:
        terminal.say('no tools: add [tools.NAME] to the configuration, with kind = "searxng" for example')
        return
    for tool in tools.values():
        where = f" at {tool.base_url}" if tool.base_url else ""
        typer.echo(f"{tool.name}: {tool.answers.value} by {tool.kind}{where}, at most {tool.max_uses} calls a request")


@app.command("try")
def try_tool(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool: NAME of [tools.NAME].")],
    argument: Annotated[str, typer.Argument(metavar="ARG", help="What to search for, or the address to fetch.")],
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Make one call, and show what a model would get. Stoker need not run."""
    import asyncio
    import time

    from stoker.domain.nearest import did_you_mean
    from stoker.request.relay.public_fetcher import PublicFetcher
    from stoker_tools.running import ToolRunner
    from stoker_tools.search import SearchQuery
    from stoker_tools.server import tools_of

    tools = tools_of(load_settings(config))
    tool = tools.get(name)
    if tool is None:
        known = f"; there are {', '.join(tools)}" if tools else "; the configuration has no [tools.NAME]"
        raise UsageError(f"there is no tool '{name}'{did_you_mean(name, tools) or known}")
    query = SearchQuery(argument, tool.max_results, hosts=tool.hosts)
    result = asyncio.run(ToolRunner(time.monotonic, PublicFetcher()).run(tool, query))
    if json:
        terminal.emit(_result(result))
    elif result.error:
        terminal.say(f"tool '{name}' failed ({result.error}): {result.why}")
    else:
        for page in result.pages:
            typer.echo("\n".join(part for part in (page.title, page.url, page.text, "") if part))
        terminal.say(f"{len(result.pages)} results, {result.bytes} bytes in {result.seconds:.2f} s")
    if result.error:
        raise typer.Exit(FAILED)


def _document(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name, "kind": str(tool.kind), "answers": tool.answers.value, "base_url": tool.base_url,
        "max_uses": tool.max_uses, "hosts": list(tool.hosts),
    }  # fmt: skip


def _result(result: CallResult) -> dict[str, object]:
    pages = [{"title": page.title, "url": page.url, "age": page.age, "text": page.text} for page in result.pages]
    return {"pages": pages, "error": result.error, "why": result.why, "seconds": result.seconds, "bytes": result.bytes}
