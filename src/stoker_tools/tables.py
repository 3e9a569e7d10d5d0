"""The tables `[tools.NAME]` and `[tool_loop]`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.sections import Section
from stoker.domain.kinds import (
    BaseUrl,
    Command,
    Count,
    HostPattern,
    Size,
    SomeDuration,
    Text,
    Variable,
    VariableName,
    setting,
)
from stoker.domain.serve import SecretSource
from stoker.domain.server_tools import ServerToolKind
from stoker.domain.tier import Price


class ToolService(StrEnum):
    """What answers the calls of a tool."""

    SEARXNG = "searxng"
    BRAVE = "brave"
    TAVILY = "tavily"
    EXA = "exa"
    OLLAMA = "ollama"
    FETCH = "fetch"
    MCP = "mcp"
    COMMAND = "command"


ADDRESSES = {
    ToolService.BRAVE: "https://api.search.brave.com",
    ToolService.TAVILY: "https://api.tavily.com",
    ToolService.EXA: "https://api.exa.ai",
    ToolService.OLLAMA: "https://ollama.com",
}
"""Where services are, if the file does not say it."""


class Provides(StrEnum):
    """What a program does for models."""

    SEARCH = "web_search"
    FETCH = "web_fetch"


class Missing(StrEnum):
    """What becomes of a tool that a request has and nobody runs."""

    AUTO = "auto"
    DROP = "drop"
    REFUSE = "refuse"


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that Stoker runs for models: a search service, the fetching of pages, an MCP server, or a program."""

    name: str
    kind: Annotated[
        ToolService | None,
        setting(
            "Required. What answers: the search services `searxng`, `brave`, `tavily`, `exa` and `ollama`; `fetch`, "
            "which gets pages of the public web; `mcp`, the tools of an MCP server; or `command`, a program."
        ),
    ] = None
    base_url: Annotated[
        BaseUrl | None,
        setting("Address of the service; it may be a private one. Required for `searxng`, none for `fetch`."),
    ] = None
    key: Annotated[
        SecretSource | None,
        setting(
            "The service's key, as `env:NAME` or `file:PATH`. None for `searxng`, `fetch`, `command`; for `mcp` with "
            "`url` it is sent as a bearer token."
        ),
    ] = None
    url: Annotated[
        BaseUrl | None, setting("`mcp`: the address of the server, over streamable HTTP; or give `command`.")
    ] = None
    command: Annotated[
        Command | None,
        setting(
            "`mcp`: the program that is the server, and speaks MCP on stdin and stdout; it runs as Stoker's user, "
            "without a sandbox. "
            "`command`: the program that is run for each call, in a sandbox; it gets the call as JSON on stdin. "
            "Text or a list, never through a shell."
        ),
    ] = None
    env: Annotated[
        Mapping[VariableName, Variable], setting("Environment variables for `command`. Not for secrets.")
    ] = msgspec.field(default_factory=dict)
    allow: Annotated[
        tuple[Text, ...], setting('`mcp`: required. The tools of the server that may be used; `["*"]`: all.')
    ] = ()
    provides: Annotated[
        Provides | None,
        setting("`command`: required. What it does for models: `web_search` or `web_fetch`."),
    ] = None
    network: Annotated[bool, setting("`command`: whether it may use the network.")] = False
    timeout: Annotated[SomeDuration, setting("The longest that one call may take.")] = 20.0
    max_uses: Annotated[Count, setting("Most calls in one request. A client's own, lower number counts.")] = 8
    max_active: Annotated[Count, setting("Most calls at a time, of all requests. More fail.")] = 8
    per_minute: Annotated[Count | None, setting("Most calls in any 60 seconds, of all requests. More fail.")] = None
    cost: Annotated[
        Price,
        setting("Money for one call that is answered, in the currency of the tiers. Counts in limits and in usage."),
    ] = 0.0
    max_results: Annotated[Count, setting("Most results of one search.")] = 8
    max_bytes: Annotated[Size, setting("Most bytes that are read of one answer.")] = 2 * 2**20
    max_tokens: Annotated[
        Count | None,
        setting("Most tokens of one result that the model gets, estimated. Default: 3000 of a search, else 8000."),
    ] = None
    hosts: Annotated[
        tuple[HostPattern, ...],
        setting("The only hosts that results may come from, `*.NAME` for subdomains. Left out: all public ones."),
    ] = ()

    @property
    def answers(self) -> ServerToolKind:
        """What it does for a model."""
        if self.kind is ToolService.MCP:
            return ServerToolKind.MCP
        if self.kind is ToolService.COMMAND and self.provides is not None:
            return ServerToolKind(self.provides.value)
        return ServerToolKind.FETCH if self.kind is ToolService.FETCH else ServerToolKind.SEARCH

    @property
    def acts(self) -> bool:
        """It may do more than read the web: only keys that name it may use it."""
        return self.kind in (ToolService.MCP, ToolService.COMMAND)

    @property
    def sample(self) -> str:
        """What it is asked to see whether it works."""
        return "https://example.com/" if self.answers is ServerToolKind.FETCH else "weather"

    @property
    def check_command(self) -> str:
        """Shows on the command line whether it works."""
        name = shlex.quote(self.name)
        if self.answers is ServerToolKind.MCP:
            return f"stoker tools list {name}"
        return f"stoker tools try {name} {self.sample}"

    @property
    def characters(self) -> int:
        """Of one result, for the model."""
        return 4 * (self.max_tokens or (3000 if self.answers is ServerToolKind.SEARCH else 8000))


class LoopLimits(msgspec.Struct, frozen=True):
    """How far one request may go with tools that Stoker runs."""

    max_rounds: Annotated[Count, setting("Most answers of the model that call tools; the next one is in words.")] = 8
    max_calls: Annotated[Count, setting("Most calls in one request, of all tools.")] = 16
    parallel: Annotated[Count, setting("Most calls at a time, of one request.")] = 4
    max_time: Annotated[SomeDuration, setting("Most time that the calls of one request may take together.")] = 120.0
    missing: Annotated[
        Missing,
        setting(
            "What becomes of a tool that a request has, and that no `[tools.NAME]` runs. `refuse`: the request is "
            "refused. `drop`: it goes on without the tool. `auto`: it is refused if it asks for nothing else, or has "
            "to use the tool, since a model without it invents results."
        ),
    ] = Missing.AUTO


def _check_tools(doc: ConfigDocument, tools: Mapping[str, Tool]) -> None:
    for name, tool in tools.items():
        here = ("tools", name)
        if tool.kind is None:
            if not doc.is_spoiled((*here, "kind")):
                doc.problem(
                    (*here, "kind"), "is missing; use searxng, brave, tavily, exa, ollama, fetch, mcp or command"
                )
            continue
        _check_own_keys(doc, here, tool)
        if tool.acts:
            continue
        if tool.kind is ToolService.SEARXNG and tool.base_url is None and not doc.is_spoiled((*here, "base_url")):
            doc.problem((*here, "base_url"), 'is missing; write where SearXNG answers, like "http://127.0.0.1:8888"')
        if tool.kind in (ToolService.SEARXNG, ToolService.FETCH):
            if tool.key is not None:
                doc.problem((*here, "key"), f"is not used by `{tool.kind.value}`; remove it")
        elif tool.key is None and not doc.is_spoiled((*here, "key")):
            doc.problem((*here, "key"), f'is missing; `{tool.kind.value}` needs one, like "env:SEARCH_KEY"')
        if tool.kind is ToolService.FETCH and tool.base_url is not None:
            doc.problem((*here, "base_url"), "is not used by `fetch`, which gets any public page; see `hosts`")


_KINDS = tuple(ToolService)
_OF_KINDS = {
    "url": (ToolService.MCP,), "command": (ToolService.MCP, ToolService.COMMAND),
    "env": (ToolService.MCP, ToolService.COMMAND), "allow": (ToolService.MCP,), "provides": (ToolService.COMMAND,),
    "network": (ToolService.COMMAND,),
}  # fmt: skip
"""The keys that only these kinds have."""


def _check_own_keys(doc: ConfigDocument, here: tuple[str, ...], tool: Tool) -> None:
    assert tool.kind is not None
    for key, kinds in _OF_KINDS.items():
        if getattr(tool, key) and tool.kind not in kinds:
            doc.problem((*here, key), f"is not used by `{tool.kind.value}`; remove it")
    if not tool.acts:
        return
    if tool.base_url is not None:
        more = "; write `url`" if tool.kind is ToolService.MCP else ""
        doc.problem((*here, "base_url"), f"is not used by `{tool.kind.value}`{more}")
    if tool.kind is ToolService.MCP:
        if tool.url is None and tool.command is None and not doc.is_spoiled((*here, "url")):
            doc.problem((*here, "url"), "is missing; write where the MCP server answers, or the `command` that is it")
        elif tool.url is not None and tool.command is not None:
            doc.problem((*here, "url"), "stands beside `command`; keep one of them")
        if not tool.allow and not doc.is_spoiled((*here, "allow")):
            doc.problem((*here, "allow"), 'is missing; list the tools that may be used, or write ["*"] for all')
        if tool.key is not None and tool.url is None:
            doc.problem((*here, "key"), "is sent to a `url`; a program gets what it needs by `env`")
        return
    if tool.command is None and not doc.is_spoiled((*here, "command")):
        doc.problem((*here, "command"), 'is missing; write the program, like ["/usr/local/bin/search"]')
    if tool.provides is None and not doc.is_spoiled((*here, "provides")):
        doc.problem((*here, "provides"), 'is missing; write "web_search" or "web_fetch"')
    if tool.key is not None:
        doc.problem((*here, "key"), "is not used by `command`; remove it")


TOOLS = Section(Tool, "Tools that Stoker runs for models: `[tools.NAME]`.", _check_tools, by_name=True)
LOOP = Section(LoopLimits, "How far one request may go with tools that Stoker runs.")
