"""What a request says of MCP servers, in Messages and in Responses.

A client names a server; which program or address that is, the configuration says. Nothing that the client gives as an
address or a header is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from stoker.domain.errors import ClientError
from stoker.domain.server_tools import McpTool, ServerCall, ServerToolKind, WebPage

Fields = dict[str, Any]
_FILTER = "a list of names, or an object with tool_names and read_only"


class ToolFilter(NamedTuple):
    """A choice among the tools of a server."""

    names: frozenset[str] | None = None
    """None: all."""
    only_reading: bool = False

    def has(self, tool: McpTool) -> bool:
        return (self.names is None or tool.name in self.names) and (tool.read_only or not self.only_reading)


class Approval(NamedTuple):
    """Which calls the client has to approve. What both filters have, and what none has, needs it."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None

    def is_needed(self, tool: McpTool) -> bool:
        if self.always is not None and self.always.has(tool):
            return True
        return self.never is None or not self.never.has(tool)


NO_APPROVAL = Approval(never=ToolFilter())


class McpRequest(NamedTuple):
    """What a request says of one server."""

    url: str = ""
    """Only to find the server of the configuration. Never dialled."""
    allowed: ToolFilter = ToolFilter()
    disabled: frozenset[str] = frozenset()
    approval: Approval = NO_APPROVAL
    is_listed: bool = False
    """The client has the list of its tools already."""

    def offers(self, tool: McpTool) -> bool:
        return self.allowed.has(tool) and tool.name not in self.disabled


class McpFunction(NamedTuple):
    """A function that the model gets for a tool of a server."""

    server: str
    """As the client calls it."""
    tool: McpTool


class McpAnswer(NamedTuple):
    """What the client said to a request for approval, and has no result yet."""

    id: str
    server: str
    name: str
    arguments: str
    is_granted: bool


NONCE = 16
"""Characters of the id of a request for approval before what proves whose it is."""


def approval_text(nonce: str, caller: str, server: str, name: str, arguments: str) -> str:
    """What is signed of a request for approval: who asked for which call."""
    return msgspec.json.encode([nonce, caller, server, name, object_of(arguments)], order="sorted").decode()


def of_responses(tool: Fields, where: str) -> tuple[McpRequest, tuple[str, ...]]:
    """And what nobody heeds. Raises ClientError 400."""
    approval = tool.get("require_approval")
    if approval is None or approval == "always":
        needed = Approval()
    elif approval == "never":
        needed = NO_APPROVAL
    elif isinstance(approval, dict):
        place = f"{where}.require_approval"
        always, never = (
            None if approval.get(name) is None else _filter(approval[name], f"{place}.{name}")
            for name in ("always", "never")
        )
        needed = Approval(always, never)
    else:
        text = f"'{where}.require_approval' must be always, never, or an object with one of them"
        raise ClientError(text, code="bad_field", param=where)
    allowed = tool.get("allowed_tools")
    chosen = ToolFilter() if allowed is None else _filter(allowed, f"{where}.allowed_tools")
    losses = ("mcp_headers",) if tool.get("headers") or tool.get("authorization") else ()
    return McpRequest(str(tool.get("server_url") or ""), chosen, approval=needed), losses


def _filter(given: object, where: str) -> ToolFilter:
    named: object = given
    only_reading = False
    if isinstance(given, dict):
        named, only_reading = given.get("tool_names"), given.get("read_only") is True
    if named is None and isinstance(given, dict):
        return ToolFilter(None, only_reading)
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise ClientError(f"'{where}' must be {_FILTER}", code="bad_field", param=where)
    return ToolFilter(frozenset(named), only_reading)


def of_messages(server: Fields, toolset: Fields, where: str) -> tuple[McpRequest, tuple[str, ...]]:
    """`server`: of `mcp_servers`; `toolset`: the tool that names it. Either may be empty. Raises ClientError 400."""
    old, default = server.get("tool_configuration"), toolset.get("default_config")
    configs = toolset.get("configs")
    enabled = {
        name: one["enabled"]
        for name, one in (configs if isinstance(configs, dict) else {}).items()
        if isinstance(one, dict) and isinstance(one.get("enabled"), bool)
    }
    names: frozenset[str] | None = None
    if isinstance(default, dict) and default.get("enabled") is False:
        names = frozenset(name for name, is_on in enabled.items() if is_on)
    elif isinstance(old, dict) and not toolset:
        listed = old.get("allowed_tools")
        chosen = ToolFilter() if listed is None else _filter(listed, f"{where}.tool_configuration.allowed_tools")
        names = frozenset() if old.get("enabled") is False else chosen.names
    disabled = frozenset(name for name, is_on in enabled.items() if not is_on)
    losses = ("mcp_headers",) if server.get("authorization_token") else ()
    return McpRequest(str(server.get("url") or ""), ToolFilter(names), disabled), losses


# -- history ----------------------------------------------------------------------------------------------------------


class McpHistory(NamedTuple):
    """What the input of a response holds of MCP servers."""

    listed: frozenset[str] = frozenset()
    """Servers whose tools the client has already."""
    answers: Mapping[str, McpAnswer] = {}
    """By the request's id: those that no call has come of yet."""
    done: frozenset[str] = frozenset()
    """Requests for approval of which the call is in the input, too."""
    unknown: str = ""
    """The id of a request for approval that the client answers, and that the input does not hold."""


def read_history(items: list[Any]) -> McpHistory:
    of_kind: dict[str, list[Fields]] = {}
    for item in items:
        if isinstance(item, dict) and str(item.get("type")).startswith("mcp_"):
            of_kind.setdefault(str(item["type"]), []).append(item)
    done = frozenset(str(one.get("approval_request_id")) for one in of_kind.get("mcp_call", ()))
    requests = {str(one.get("id")): one for one in of_kind.get("mcp_approval_request", ())}
    answers: dict[str, McpAnswer] = {}
    unknown = ""
    for given in of_kind.get("mcp_approval_response", ()):
        id = str(given.get("approval_request_id"))
        if id in done:
            continue
        asked = requests.get(id)
        if asked is None:
            unknown = unknown or id
            continue
        server, name = str(asked.get("server_label")), str(asked.get("name"))
        answers[id] = McpAnswer(id, server, name, str(asked.get("arguments") or "{}"), given.get("approve") is True)
    listed = frozenset(str(one.get("server_label")) for one in of_kind.get("mcp_list_tools", ()))
    return McpHistory(listed, answers, done, unknown)


def approval_not_found(id: str) -> ClientError:
    return ClientError(f"MCP approval request '{id[:100]}' not found", code="approval_not_found", param="input")


def call_of(item: Fields, history: McpHistory, results: Mapping[str, ServerCall]) -> ServerCall | None:
    """The call of an `mcp_call`, or of a request for approval; None: another item has it. `results`: what came of those
    that were approved, by the requests' ids.
    """
    id = str(item.get("id"))
    if item.get("type") == "mcp_approval_request":
        if id in history.done:
            return None
        run, answer = results.get(id), history.answers.get(id)
        call = ServerCall(id, ServerToolKind.MCP, _arguments(item))
        if run is not None:
            call.pages, call.error = run.pages, run.error
        else:  # of those that were approved, it is one that this request does not offer
            call.error = "unavailable" if answer is not None and answer.is_granted else "not_approved"
    else:
        call = ServerCall(id, ServerToolKind.MCP, _arguments(item))
        output, error = item.get("output"), item.get("error")
        said(call, output if isinstance(output, str) else "" if error is None else _error_text(error))
        call.error = "" if error is None else "failed"
    call.server, call.name = str(item.get("server_label")), str(item.get("name"))
    return call


def said(call: ServerCall, text: str) -> None:
    """The text is what the tool of an MCP server brought."""
    call.pages = [WebPage("", "", text)]


def _arguments(item: Fields) -> str:
    given = item.get("arguments")
    return given if isinstance(given, str) and given else "{}"


def _error_text(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)
    content = error.get("content")
    if isinstance(content, list):
        return "\n".join(str(one.get("text", "")) for one in content if isinstance(one, dict))
    return str(error.get("message", ""))


def object_of(arguments: str) -> Fields | None:
    """None: the arguments are no JSON object. No arguments are an empty one."""
    if not arguments.strip():
        return {}
    try:
        given = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):  # half a character is no JSON either
        return None
    return given if isinstance(given, dict) else None
