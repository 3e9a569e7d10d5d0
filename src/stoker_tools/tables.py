"""The tables `[tools.NAME]` and `[tool_loop]`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.sections import Section
from stoker.domain.kinds import BaseUrl, Count, HostPattern, Size, SomeDuration, setting
from stoker.domain.serve import SecretSource
from stoker.domain.server_tools import ServerToolKind


class ToolService(StrEnum):
    """What answers the calls of a tool."""

    SEARXNG = "searxng"
    BRAVE = "brave"
    TAVILY = "tavily"
    EXA = "exa"
    OLLAMA = "ollama"
    FETCH = "fetch"


ADDRESSES = {
    ToolService.BRAVE: "https://api.search.brave.com",
    ToolService.TAVILY: "https://api.tavily.com",
    ToolService.EXA: "https://api.exa.ai",
    ToolService.OLLAMA: "https://ollama.com",
}
"""Where services are, if the file does not say it."""


class Missing(StrEnum):
    """What becomes of a tool that a request has and nobody runs."""

    AUTO = "auto"
    DROP = "drop"
    REFUSE = "refuse"


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that Stoker runs for models: a search service, or the fetching of pages."""

    name: str
    kind: Annotated[
        ToolService | None,
        setting(
            "Required. What answers: the search services `searxng`, `brave`, `tavily`, `exa` and `ollama`, or `fetch`, "
            "which gets pages of the public web."
        ),
    ] = None
    base_url: Annotated[
        BaseUrl | None,
        setting("Address of the service; it may be a private one. Required for `searxng`, none for `fetch`."),
    ] = None
    key: Annotated[
        SecretSource | None, setting("The service's key, as `env:NAME` or `file:PATH`. None for `searxng`, `fetch`.")
    ] = None
    timeout: Annotated[SomeDuration, setting("The longest that one call may take.")] = 20.0
    max_uses: Annotated[Count, setting("Most calls in one request. A client's own, lower number counts.")] = 8
    max_active: Annotated[Count, setting("Most calls at a time, of all requests. More fail.")] = 8
    max_results: Annotated[Count, setting("Most results of one search.")] = 8
    max_bytes: Annotated[Size, setting("Most bytes that are read of one answer.")] = 2 * 2**20
    max_tokens: Annotated[
        Count | None,
        setting("Most tokens of one result that the model gets, estimated. Default: 3000, and 8000 for `fetch`."),
    ] = None
    hosts: Annotated[
        tuple[HostPattern, ...],
        setting("The only hosts that results may come from, `*.NAME` for subdomains. Left out: all public ones."),
    ] = ()

    @property
    def answers(self) -> ServerToolKind:
        """What it does for a model."""
        return ServerToolKind.FETCH if self.kind is ToolService.FETCH else ServerToolKind.SEARCH

    @property
    def characters(self) -> int:
        """Of one result, for the model."""
        return 4 * (self.max_tokens or (8000 if self.kind is ToolService.FETCH else 3000))


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
                doc.problem((*here, "kind"), "is missing; use searxng, brave, tavily, exa, ollama or fetch")
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


TOOLS = Section(Tool, "Tools that Stoker runs for models: `[tools.NAME]`.", _check_tools, by_name=True)
LOOP = Section(LoopLimits, "How far one request may go with tools that Stoker runs.")
