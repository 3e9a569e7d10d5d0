"""What becomes of a model's calls. A state machine without IO: what happened goes in, what is to be done comes out.

A round is one answer of the model. Of its calls, in order:

1. the arguments are no JSON object with what the tool needs,
   or too long                                                -> the model is told; it counts as a use
2. the tool's uses, or all calls, or the time, are used up     -> the model is told
3. the client wants to approve it                              -> the client is asked, and nothing runs
4. the same call has already brought something                 -> that again, and nothing runs
5. the same call runs already                                  -> it waits for that one
6. else                                                        -> it runs

When all have ended:

7. the answer called tools of the client, too  -> it ends: the client has to answer first
8. the client was asked for approval           -> it ends
9. rounds, calls or time are used up           -> the model is asked once more, without tools
10. else                                       -> the model is asked once more

So a request has at most `max_rounds` + 1 rounds, and `max_calls` calls that run. What the client has approved runs
before the first round, by 1, 2 and 4 to 6, and counts as uses and calls of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.domain.answer import StopReason
from stoker.domain.prompt import ToolCall
from stoker.domain.server_tools import ServerCall, ServerToolKind, WebPage
from stoker_tools.mcp_declared import object_of
from stoker_tools.result_text import ARGUMENT

LONGEST = {ServerToolKind.SEARCH: 1000, ServerToolKind.FETCH: 8192, ServerToolKind.MCP: 100_000}
"""Characters of it."""
TOO_LONG = {
    ServerToolKind.SEARCH: "query_too_long",
    ServerToolKind.FETCH: "url_too_long",
    ServerToolKind.MCP: "request_too_large",
}
INVALID, USED_UP, UNAVAILABLE = "invalid_tool_input", "max_uses_exceeded", "unavailable"


class LoopBounds(NamedTuple):
    """What one request may use."""

    max_rounds: int
    max_calls: int
    max_time: float
    """Seconds of all calls together."""


class OfferedTool(NamedTuple):
    """A function that the model was offered."""

    kind: ServerToolKind
    max_uses: int
    """Of all functions that have the same `group`."""
    group: str = ""
    """The tool of the configuration; empty: the function alone."""
    server: str = ""
    """The MCP server, as the client calls it."""
    name: str = ""
    """The tool of that server."""
    needs_approval: bool = False


class Begin(NamedTuple):
    """Tell the client of the call."""

    call: ServerCall


class Run(NamedTuple):
    """Run it, and report `on_result`."""

    call: ServerCall
    argument: str
    """The query, the address, or the JSON object for a tool of an MCP server."""


class End(NamedTuple):
    """Tell the client what came of the call."""

    call: ServerCall


class Ask(NamedTuple):
    """Ask the model again, with the results. `is_last`: without these tools."""

    is_last: bool


class Finish(NamedTuple):
    """The answer is complete."""

    stop: StopReason


Command = Begin | Run | End | Ask | Finish


class ToolLoop:
    """Of one request."""

    def __init__(self, offered: Mapping[str, OfferedTool], bounds: LoopBounds, make_id: Callable[[], str]) -> None:
        """`offered`: the functions, by the names that the model knows. `make_id`: always other 24 letters or digits."""
        self.is_last = False
        """The model has been asked for an answer in words."""
        self.rounds = 0
        """That called tools."""
        self.results: list[tuple[ToolCall, ServerCall]] = []
        """The calls of the last round, in order, and what came of them."""
        self._offered = offered
        self._bounds = bounds
        self._make_id = make_id
        self._uses = {tool.group or name: 0 for name, tool in offered.items()}
        self._calls = 0
        self._seconds = 0.0
        self._results: dict[tuple[str, str], list[WebPage]] = {}
        """What calls brought, by function and argument."""
        self._running: dict[str, list[ServerCall]] = {}
        """The calls that wait for one, itself included, by its id."""
        self._keys: dict[str, tuple[str, str]] = {}
        self._has_client_calls = False
        self._waits_for_approval = False

    def is_offered(self, name: str) -> bool:
        """Whether a call of this name is for Stoker to run, or was: after the last round it never leaves Stoker."""
        return name in self._offered

    def is_too_long(self, name: str, size: int) -> bool:
        """Whether so many characters of arguments are more than a call of this function can have that runs: JSON writes
        one in up to six.
        """
        return size > 6 * LONGEST[self._offered[name].kind] + 1000

    def on_round(self, calls: Sequence[ToolCall], has_client_calls: bool) -> list[Command]:
        """The model has answered with these calls of the functions offered: at least one."""
        assert not self.is_last
        self.rounds += 1
        self._has_client_calls = has_client_calls
        return self._start(calls, are_approved=False)

    def on_approved(self, calls: Sequence[ToolCall]) -> list[Command]:
        """Before the model is asked: the client has approved these calls. Their ids are those of its approvals."""
        assert not self.rounds
        return self._start(calls, are_approved=True)

    def _start(self, calls: Sequence[ToolCall], are_approved: bool) -> list[Command]:
        assert not self._running
        self.results = []
        commands: list[Command] = []
        running: dict[tuple[str, str], str] = {}
        for asked in calls:
            tool = self._offered[asked.name]
            is_too_long = self.is_too_long(asked.name, len(asked.arguments))
            given = None if is_too_long else object_of(asked.arguments)
            argument = _argument(tool.kind, given)
            is_too_long = is_too_long or len(argument or "") > LONGEST[tool.kind]
            shown = msgspec.json.encode({} if given is None or is_too_long else given).decode()
            call = ServerCall(self._make_id(), tool.kind, shown, server=tool.server, name=tool.name)
            self.results.append((asked, call))
            key = asked.name, argument or ""
            refusal = TOO_LONG[tool.kind] if is_too_long else self._refusal(tool, self._group(asked.name), argument)
            call.is_waiting = tool.needs_approval and not refusal and not are_approved
            call.approval = asked.id if are_approved else ""
            if not call.is_waiting:
                commands.append(Begin(call))
            if refusal:
                call.error = refusal  # 1, 2
                commands.append(End(call))
            elif call.is_waiting:
                self._waits_for_approval = True  # 3
                commands.append(End(call))
            elif key in self._results:
                call.pages = self._results[key]  # 4
                commands.append(End(call))
            elif key in running:
                self._running[running[key]].append(call)  # 5
            else:
                running[key] = call.id  # 6
                self._calls += 1
                self._running[call.id], self._keys[call.id] = [call], key
                commands.append(Run(call, key[1]))
            self._uses[self._group(asked.name)] += 1
        return commands if self._running else [*commands, self._follow()]

    def on_result(self, id: str, pages: list[WebPage], error: str, seconds: float) -> list[Command]:
        """A call has run. `error`: empty if it worked; `pages` may then say why it did not."""
        waiting, key = self._running.pop(id), self._keys.pop(id)
        self._seconds += seconds
        if not error:
            self._results[key] = pages
        for call in waiting:
            call.pages, call.error = pages, error
        commands: list[Command] = [End(call) for call in waiting]
        return commands if self._running else [*commands, self._follow()]

    def waiting_for(self, id: str) -> list[ServerCall]:
        """The calls that wait for one that runs, itself included."""
        return list(self._running[id])

    def stop(self) -> None:
        """What the model is asked next is the last."""
        self.is_last = True

    def _group(self, name: str) -> str:
        return self._offered[name].group or name

    def _refusal(self, tool: OfferedTool, group: str, argument: str | None) -> str:
        if argument is None or not argument.strip():
            return INVALID
        if len(argument) > LONGEST[tool.kind]:
            return TOO_LONG[tool.kind]
        if self._uses[group] >= tool.max_uses or self._calls >= self._bounds.max_calls:
            return USED_UP
        return UNAVAILABLE if self._seconds >= self._bounds.max_time else ""

    def _follow(self) -> Command:
        if not self.rounds:
            return Ask(is_last=False)
        if self._has_client_calls:
            return Finish(StopReason.CALLS)  # 7
        if self._waits_for_approval:
            return Finish(StopReason.END)  # 8
        bounds = self._bounds
        self.is_last = (
            self.rounds >= bounds.max_rounds
            or self._calls >= bounds.max_calls
            or self._seconds >= bounds.max_time
            or all(self._uses[self._group(name)] >= tool.max_uses for name, tool in self._offered.items())
        )
        return Ask(self.is_last)  # 9, 10


def _argument(kind: ServerToolKind, given: dict[str, Any] | None) -> str | None:
    """What the tool is to do; None: the call does not say it."""
    if given is None:
        return None
    if kind is ServerToolKind.MCP:
        return msgspec.json.encode(given, order="sorted").decode()
    argument = given.get(ARGUMENT[kind])
    return argument if isinstance(argument, str) else None
