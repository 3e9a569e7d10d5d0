"""Which tools a client leaves to the server, in each dialect; and the same request with functions in their place.

    Messages    tools `web_search_DATE`, `web_fetch_DATE`; `mcp_servers`, `mcp_toolset`
    Responses   tools `web_search`, `web_search_preview`, with or without a date; `mcp`
    Chat        `web_search_options`

The request stays in its dialect, so everything that reads it goes on to. Its history, too: what an earlier answer says
of a tool that ran becomes a call of the function, and its result. Other tools of vendors stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from stoker.domain.answer import SEALED_BY_TOOLS
from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import RESULTS, SOURCES
from stoker.domain.server_tools import ServerCall, ServerToolKind, WebPage
from stoker.request.codec.server_tools import holds_server_calls, is_clients
from stoker.request.translate.neutral.calls import short_name
from stoker.request.translate.neutral.json_text import loose, shaped
from stoker_tools.mcp_declared import (
    McpFunction,
    McpHistory,
    McpRequest,
    call_of,
    of_messages,
    of_responses,
    read_history,
    said,
)
from stoker_tools.result_text import GONE, MCP_DESCRIPTION, cleaned, shortened

Raw = msgspec.Raw
Fields = dict[str, Any]
ModelText = Callable[[ServerCall], str]
OpenSeal = Callable[[str], dict[str, str] | None]
"""What `ThinkingSigner.open` does."""
_raws = msgspec.json.Decoder(list[Raw])
_MESSAGES_KIND = re.compile(r"(web_search|web_fetch)_\d{8}", re.ASCII)
_RESPONSES_KIND = re.compile(r"web_search(?:_preview)?(?:_\d{4}_\d\d_\d\d)?", re.ASCII)
_RESULTS = {"low": 4, "medium": 8, "high": 12}
"""By `search_context_size`."""
SCHEMAS: Mapping[ServerToolKind, Mapping[str, Any]] = {
    ServerToolKind.SEARCH: {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to search for."}},
        "required": ["query"],
    },
    ServerToolKind.FETCH: {
        "type": "object",
        "properties": {"url": {"type": "string", "description": "A whole address, with https:// or http://."}},
        "required": ["url"],
    },
}
DESCRIPTIONS = {
    ServerToolKind.SEARCH: "Search the web. Returns titles, addresses and excerpts of pages. Use it for what is recent "
    "or what you do not know. State the facts that you found in your answer, with the addresses they are from.",
    ServerToolKind.FETCH: "Fetch one web page as text. Only addresses that the user or an earlier result named.",
}


class DeclaredTool(NamedTuple):
    """One tool that a client leaves to the server."""

    kind: ServerToolKind | None
    """None: an MCP server, by its `name`."""
    name: str
    """As the client calls it."""
    max_uses: int | None = None
    results: int | None = None
    """Of one search."""
    max_tokens: int | None = None
    """Of one page."""
    allowed: tuple[str, ...] = ()
    """Hosts, with or without a path."""
    blocked: tuple[str, ...] = ()
    is_live: bool = True
    """False: the client wants no live access to the web."""
    losses: tuple[str, ...] = ()
    """What of it nobody heeds, as `x-stoker-translation` names it."""
    mcp: McpRequest | None = None
    """What the client says of the MCP server."""


class Declared(NamedTuple):
    """What a request says of tools."""

    tools: tuple[DeclaredTool, ...]
    functions: frozenset[str]
    """The names of the client's own."""
    forced: frozenset[ServerToolKind]
    """The kinds of which the model has to call one at first."""
    other: bool
    """The client has any other tool, its own or a vendor's."""
    fields: dict[str, Raw]
    """The request's fields."""
    max_calls: int | None = None
    """Of all tools, if the client says it."""
    history: McpHistory = McpHistory()
    has_calls: bool = False
    """Its history may have calls of such tools."""


def read_declared(dialect: Dialect, body: bytes) -> Declared:
    """Raises ClientError 400 for settings of such a tool that make no sense."""
    fields: dict[str, Raw] = msgspec.json.decode(body, type=dict[str, Raw])
    given = _decoded(fields.get("tools"))
    tools = [tool for tool in given if isinstance(tool, dict)] if isinstance(given, list) else []
    names = frozenset(name for tool in tools if isinstance(name := _function_name(tool), str))
    found: list[DeclaredTool] = []
    if dialect is Dialect.CHAT:
        options = _decoded(fields.get("web_search_options"))
        if isinstance(options, dict):
            found.append(_search_tool("web_search", options))
        return Declared(tuple(found), names, frozenset(), bool(tools), fields)
    servers = _named_servers(fields) if dialect is Dialect.MESSAGES else {}
    of_dialect = partial(_messages_tool, servers) if dialect is Dialect.MESSAGES else _responses_tool
    for at, tool in enumerate(tools):
        one = of_dialect(tool, f"tools[{at}]")
        found += () if one is None else (one,)
    others = len(tools) > len(found)
    labels = {one.name for one in found if one.mcp is not None}
    for label, server in servers.items():
        if label not in labels:
            mcp, losses = of_messages(server, {}, "mcp_servers")
            found.append(DeclaredTool(None, label, mcp=mcp, losses=losses))
    history = McpHistory()
    has_calls = holds_server_calls(dialect, body)
    if dialect is Dialect.RESPONSES and (has_calls or any(one.mcp is not None for one in found)):
        history = _input_history(fields.get("input"))
        found = [
            one if one.mcp is None else one._replace(mcp=one.mcp._replace(is_listed=one.name in history.listed))
            for one in found
        ]
    forced = _forced(_decoded(fields.get("tool_choice")), found) if found else frozenset()
    most = _count(_decoded(fields.get("max_tool_calls")))
    return Declared(tuple(found), names, forced, others, fields, most, history, has_calls)


def _named_servers(fields: Mapping[str, Raw]) -> dict[str, Fields]:
    servers = _decoded(fields.get("mcp_servers"))
    listed = [one for one in servers if isinstance(one, dict)] if isinstance(servers, list) else []
    return {str(one.get("name", "")): one for one in listed}


def _input_history(raw: Raw | None) -> McpHistory:
    if raw is None or b'"mcp_' not in bytes(raw):
        return McpHistory()
    items = _decoded(raw)
    return read_history(items) if isinstance(items, list) else McpHistory()


def _function_name(tool: Fields) -> object:
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name") if _is_clients(tool) else None


def _is_clients(tool: Fields) -> bool:
    return tool.get("type") is None or is_clients(tool["type"])


def _messages_tool(servers: Mapping[str, Fields], tool: Fields, where: str) -> DeclaredTool | None:
    kind = str(tool.get("type"))
    if kind == "mcp_toolset":
        label = str(tool.get("mcp_server_name", ""))
        mcp, losses = of_messages(servers.get(label, {}), tool, where)
        return DeclaredTool(None, label, mcp=mcp, losses=losses)
    match = _MESSAGES_KIND.fullmatch(kind)
    if match is None:
        return None
    allowed = _hosts(tool.get("allowed_domains"), f"{where}.allowed_domains")
    blocked = _hosts(tool.get("blocked_domains"), f"{where}.blocked_domains")
    if allowed and blocked:
        text = f"'{where}' has both allowed_domains and blocked_domains: give one of them"
        raise ClientError(text, code="bad_field", param=where)
    citations = tool.get("citations")
    asked = {
        "citations": isinstance(citations, dict) and citations.get("enabled") is True,
        "user_location": bool(tool.get("user_location")),
        "tool_fields": bool(tool.get("url_sources") or tool.get("defer_loading")),
    }
    return DeclaredTool(
        ServerToolKind(match.group(1)), str(tool.get("name", match.group(1))), _count(tool.get("max_uses")),
        max_tokens=_count(tool.get("max_content_tokens")), allowed=allowed, blocked=blocked,
        losses=tuple(name for name, is_asked in asked.items() if is_asked),
    )  # fmt: skip


def _responses_tool(tool: Fields, where: str) -> DeclaredTool | None:
    kind = str(tool.get("type"))
    if kind == "mcp":
        mcp, losses = of_responses(tool, where)
        return DeclaredTool(None, str(tool.get("server_label", "")), mcp=mcp, losses=losses)
    if _RESPONSES_KIND.fullmatch(kind) is None:
        return None
    filters = tool.get("filters")
    filters = filters if isinstance(filters, dict) else {}
    allowed = _hosts(filters.get("allowed_domains"), f"{where}.filters.allowed_domains")
    blocked = _hosts(filters.get("blocked_domains"), f"{where}.filters.blocked_domains")
    is_live = tool.get("external_web_access") is not False
    return _search_tool(kind, tool)._replace(allowed=allowed, blocked=blocked, is_live=is_live)


def _search_tool(name: str, options: Fields) -> DeclaredTool:
    losses = ("user_location",) if options.get("user_location") else ()
    results = _RESULTS.get(str(options.get("search_context_size")))
    return DeclaredTool(ServerToolKind.SEARCH, name, results=results, losses=losses)


def _hosts(given: object, where: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ClientError(f"'{where}' must be a list of hosts", code="bad_field", param=where)
    if len(given) > 100:
        raise ClientError(f"'{where}' has {len(given)} hosts: at most 100", code="bad_field", param=where)
    return tuple(re.sub(r"^https?://", "", one.strip().lower(), count=1)[:500] for one in given if one.strip())


def _count(given: object) -> int | None:
    return given if type(given) is int and given >= 0 else None  # 0: none at all


def _forced(choice: Any, found: Sequence[DeclaredTool]) -> frozenset[ServerToolKind]:
    if not isinstance(choice, dict):
        return frozenset()
    name = choice.get("name") if choice.get("type") == "tool" else choice.get("type")
    return frozenset(one.kind for one in found if one.kind is not None and one.name == name)


def _list_of(raw: Raw, where: str) -> list[Raw]:
    return shaped(_raws, raw, where)


def _decoded(raw: Raw | None) -> Any:
    return None if raw is None else loose(raw)


# -- the request with functions in the place of such tools ------------------------------------------------------------


class Written(NamedTuple):
    """What a serve gets instead."""

    body: bytes
    tools: Raw | None
    """The client's own list, which a response repeats; None: it has none."""
    tool_choice: Raw | None
    include: frozenset[str] = frozenset()
    """See `Prompt.include`."""


class FunctionNames(NamedTuple):
    """What the model knows the tools by, that are offered in this request."""

    kinds: Mapping[ServerToolKind, str]
    mcp: Mapping[str, McpFunction] = {}
    """Functions for tools of MCP servers, by their names."""
    servers: frozenset[str] = frozenset()
    """The MCP servers that are used, as the client calls them."""

    def of(self, call: ServerCall) -> str:
        """The name of the function for a call of the past, whose tool may be offered no more."""
        if call.kind is not ServerToolKind.MCP:
            return self.kinds.get(call.kind, call.kind.value)
        return self.of_mcp(call.server, call.name) or short_name(f"{call.server}__{call.name}", 64)

    def of_mcp(self, server: str, name: str) -> str:
        """Empty: it is not offered."""
        return next((own for own, one in self.mcp.items() if one.server == server and one.tool.name == name), "")


def write_functions(
    dialect: Dialect,
    declared: Declared,
    names: FunctionNames,
    text: ModelText,
    open_seal: OpenSeal,
    results: Mapping[str, ServerCall],
) -> Written:
    """`text`: what the model gets to read of an earlier result. `results`: what came of calls that the client has just
    approved.
    """
    fields: dict[str, Any] = dict(declared.fields)
    tools, choice = fields.get("tools"), fields.get("tool_choice")
    include: frozenset[str] = frozenset()
    if dialect is Dialect.CHAT:
        fields.pop("web_search_options", None)
    given = _list_of(tools, "tools") if tools is not None and bytes(tools) != b"null" else []
    listed: list[Any] = []
    written: set[ServerToolKind] = set()
    for raw in given:
        tool = _decoded(raw)
        kind = _kind_of(dialect, tool)
        if _mcp_label(tool) in names.servers:
            continue
        if kind not in names.kinds:
            listed.append(raw)
        elif kind is not None and kind not in written:
            written.add(kind)
            listed.append(_function(dialect, names.kinds[kind], DESCRIPTIONS[kind], SCHEMAS[kind]))
    listed += [
        _function(dialect, name, DESCRIPTIONS[kind], SCHEMAS[kind])
        for kind, name in names.kinds.items()
        if kind not in written
    ]
    for name, mcp in names.mcp.items():
        about = shortened(cleaned(mcp.tool.description), MCP_DESCRIPTION)
        listed.append(_function(dialect, name, about, mcp.tool.input_schema))
    if listed or given:
        fields["tools"] = listed
    if choice is not None:
        fields["tool_choice"] = _choice(dialect, _decoded(choice), declared, names)
    if dialect is Dialect.MESSAGES:
        if names.servers.issuperset(_named_servers(declared.fields)):
            fields.pop("mcp_servers", None)
        if "messages" in fields:
            fields["messages"] = _messages_history(declared.fields["messages"], names, text, open_seal)
    elif dialect is Dialect.RESPONSES:
        if "input" in fields:
            history = declared.history
            fields["input"] = _responses_history(declared.fields["input"], names, text, open_seal, history, results)
        asked = _decoded(fields.get("include"))
        if isinstance(asked, list):
            include = frozenset(one for one in asked if one in (SOURCES, RESULTS))
            fields["include"] = [one for one in asked if one not in (SOURCES, RESULTS)]
        tools = without_secrets(tools)
    return Written(msgspec.json.encode(fields), tools, choice, include)


def _mcp_label(tool: Any) -> str | None:
    """The MCP server that a tool of a request names; None: it names none."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "mcp":
        return str(tool.get("server_label", ""))
    return str(tool.get("mcp_server_name", "")) if kind == "mcp_toolset" else None


def without_secrets(tools: Raw | None) -> Raw | None:
    """As a response repeats the tools, and may be stored: without what opens an MCP server."""
    if tools is None or b'"mcp"' not in bytes(tools):
        return tools
    kept = [
        {name: value for name, value in tool.items() if name not in ("authorization", "headers")}
        if _mcp_label(tool) is not None
        else tool
        for tool in _decoded(tools)
    ]
    return Raw(msgspec.json.encode(kept))


def _kind_of(dialect: Dialect, tool: Any) -> ServerToolKind | None:
    if not isinstance(tool, dict):
        return None
    kind = str(tool.get("type"))
    if dialect is Dialect.MESSAGES:
        match = _MESSAGES_KIND.fullmatch(kind)
        return None if match is None else ServerToolKind(match.group(1))
    is_search = dialect is Dialect.RESPONSES and _RESPONSES_KIND.fullmatch(kind)
    return ServerToolKind.SEARCH if is_search else None


def _function(dialect: Dialect, name: str, description: str, schema: Mapping[str, Any]) -> Fields:
    about: Fields = {"name": name, "description": description}
    if dialect is Dialect.MESSAGES:
        return {**about, "input_schema": schema}
    if dialect is Dialect.RESPONSES:
        return {"type": "function", **about, "parameters": schema, "strict": False}
    return {"type": "function", "function": {**about, "parameters": schema}}


def _choice(dialect: Dialect, choice: Any, declared: Declared, names: FunctionNames) -> Any:
    if not isinstance(choice, dict):
        return choice
    if dialect is Dialect.MESSAGES:
        kind = next((one for one in declared.forced if one in names.kinds), None)
        if kind is not None:
            return {**choice, "name": names.kinds[kind]}
        own = [name for name, one in names.mcp.items() if one.tool.name == choice.get("name")]
        return {**choice, "name": own[0]} if own and choice["name"] not in declared.functions else choice
    if dialect is not Dialect.RESPONSES:
        return choice
    if choice.get("type") == "allowed_tools" and isinstance(choice.get("tools"), list):
        return {**choice, "tools": [other for one in choice["tools"] for other in _chosen(one, names)]}
    chosen = _chosen(choice, names)
    return chosen[0] if len(chosen) == 1 else {"type": "allowed_tools", "mode": "required", "tools": chosen}


def _chosen(choice: Any, names: FunctionNames) -> list[Any]:
    """The functions that a choice means; itself, if it means none of these."""
    label = _mcp_label(choice)
    if label in names.servers:
        name = choice.get("name")
        return [
            {"type": "function", "name": own}
            for own, one in names.mcp.items()
            if one.server == label and name in (None, one.tool.name)
        ] or [choice]
    kind = _kind_of(Dialect.RESPONSES, choice)
    return [choice if kind is None or kind not in names.kinds else {"type": "function", "name": names.kinds[kind]}]


# -- history ----------------------------------------------------------------------------------------------------------


def _messages_history(raw: Raw, names: FunctionNames, text: ModelText, open_seal: OpenSeal) -> list[Raw | Fields]:
    found: list[Raw | Fields] = []
    waiting: list[Fields] = []
    """Results that the next message of the user has to begin with."""
    for message in _list_of(raw, "messages"):
        given = _decoded(message) if waiting or holds_server_calls(Dialect.MESSAGES, bytes(message)) else None
        if not isinstance(given, dict):
            found.append(message)
            continue
        content = given.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list):
            found.append(message)
        elif given.get("role") == "user":
            found.append({**given, "content": [*waiting, *blocks]})
            waiting = []
        else:
            if waiting:
                found.append({"role": "user", "content": waiting})
            turns, waiting = _split(blocks, names, text, open_seal)
            found += [{**given, **turn} if turn["role"] == given.get("role") else turn for turn in turns]
    if waiting:
        found.append({"role": "user", "content": waiting})
    return found


def _split(
    blocks: list[Any], names: FunctionNames, text: ModelText, open_seal: OpenSeal
) -> tuple[list[Fields], list[Fields]]:
    """An assistant's message as turns; and the results that its last turn still waits for."""
    turns: list[Fields] = []
    said_blocks: list[Any] = []
    results: dict[str, Fields] = {}
    calls: dict[str, ServerCall] = {}
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in ("server_tool_use", "mcp_tool_use"):
            call = _call_of(block)
            if call is None:
                said_blocks.append(block)  # of another tool
                continue
            calls[call.id] = call
            results[call.id] = {"type": "tool_result", "tool_use_id": call.id, "content": GONE}
            asked = {"type": "tool_use", "id": call.id, "name": names.of(call), "input": block.get("input") or {}}
            said_blocks.append(asked)
        elif kind in ("web_search_tool_result", "web_fetch_tool_result", "mcp_tool_result"):
            known = calls.get(str(block.get("tool_use_id")))
            if known is not None and _fill(known, block, open_seal):
                results[known.id]["content"] = text(known)
        else:
            if results and kind != "tool_use":
                turns += (
                    {"role": "assistant", "content": said_blocks},
                    {"role": "user", "content": list(results.values())},
                )
                said_blocks, results = [], {}
            said_blocks.append(block)
    if said_blocks:
        turns.append({"role": "assistant", "content": said_blocks})
    return turns, list(results.values())


def _call_of(block: Fields) -> ServerCall | None:
    name = block.get("name")
    if block["type"] == "mcp_tool_use":
        server = str(block.get("server_name"))
        return ServerCall(str(block.get("id")), ServerToolKind.MCP, "{}", server=server, name=str(name))
    if name not in (ServerToolKind.SEARCH.value, ServerToolKind.FETCH.value):
        return None
    return ServerCall(str(block.get("id")), ServerToolKind(name), "{}")


def _fill(call: ServerCall, result: Fields, open_seal: OpenSeal) -> bool:
    """False: what the tool brought cannot be read here."""
    content = result.get("content")
    if call.kind is ServerToolKind.MCP:
        blocks = [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else []
        said(call, "\n".join(str(one.get("text", "")) for one in blocks if isinstance(one, dict)))
        call.error = "failed" if result.get("is_error") is True else ""
        return True
    if isinstance(content, dict) and isinstance(content.get("error_code"), str):
        call.error = content["error_code"]
        return True
    if call.kind is ServerToolKind.FETCH:
        page = content if isinstance(content, dict) else {}
        document = page["content"] if isinstance(page.get("content"), dict) else {}
        source = document["source"] if isinstance(document.get("source"), dict) else {}
        if source.get("type") != "text" or not isinstance(source.get("data"), str):
            return False
        call.pages = [WebPage(str(page.get("url", "")), str(document.get("title") or ""), source["data"])]
        return True
    for one in content if isinstance(content, list) else ():
        opened = open_seal(str(one.get("encrypted_content"))) if isinstance(one, dict) else None
        if opened is not None:
            age = str(one.get("page_age") or "")
            call.pages.append(WebPage(str(one.get("url")), str(one.get("title", "")), opened.get("text", ""), age))
    return bool(call.pages) or content == []


class _SealedCall(msgspec.Struct):
    call: str
    pages: list[WebPage] = []
    error: str = ""


def _responses_history(
    raw: Raw,
    names: FunctionNames,
    text: ModelText,
    open_seal: OpenSeal,
    history: McpHistory,
    results: Mapping[str, ServerCall],
) -> Raw | list[Raw | Fields]:
    """Calls that stand together stay together, and their results follow."""
    if bytes(raw)[:1] != b"[":
        return raw
    items = _list_of(raw, "input")
    found: list[Raw | Fields] = []
    calls: dict[str, ServerCall] = {}
    for item in items:
        text_of_item = bytes(item)
        may_concern = (
            b"web_search_call" in text_of_item or b'"mcp_' in text_of_item or (calls and b'"reasoning"' in text_of_item)
        )
        read = _decoded(item) if may_concern else None
        given: Fields = read if isinstance(read, dict) else {}
        kind = given.get("type")
        if kind in ("mcp_list_tools", "mcp_approval_response"):
            continue
        if kind in ("web_search_call", "mcp_call", "mcp_approval_request"):
            call = _searched(given) if kind == "web_search_call" else call_of(given, history, results)
            if call is not None:
                calls[call.id] = call
                found.append({"type": "function_call", "call_id": call.id, "name": names.of(call),
                              "arguments": call.arguments})  # fmt: skip
            continue
        sealed = _sealed_in(given, open_seal) if kind == "reasoning" else None
        if sealed is not None:
            known = calls.get(f"ws_{sealed.call}")
            if known is not None:
                known.pages, known.error = sealed.pages, sealed.error
            continue
        found += _outputs(calls, text)
        found.append(item)
    return [*found, *_outputs(calls, text)]


def _outputs(calls: dict[str, ServerCall], text: ModelText) -> list[Fields]:
    """The results of these calls, which are over then."""
    done = [
        {"type": "function_call_output", "call_id": call.id, "output": text(call) if call.pages or call.error else GONE}
        for call in calls.values()
    ]
    calls.clear()
    return done


def _searched(item: Fields) -> ServerCall:
    action = item.get("action")
    action = action if isinstance(action, dict) else {}
    is_page = action.get("type") == "open_page"
    kind = ServerToolKind.FETCH if is_page else ServerToolKind.SEARCH
    given = {"url": str(action.get("url", ""))} if is_page else {"query": str(action.get("query", ""))}
    return ServerCall(str(item.get("id")), kind, msgspec.json.encode(given).decode())


def _sealed_in(item: Fields, open_seal: OpenSeal) -> _SealedCall | None:
    """What a tool brought; None: the item is the model's thinking, or not ours."""
    opened = open_seal(str(item.get("encrypted_content")))
    if opened is None or opened.get("maker") != SEALED_BY_TOOLS:
        return None
    return msgspec.json.decode(opened.get("redacted", ""), type=_SealedCall)
