"""What becomes of a model's calls. A state machine without IO: what happened goes in, what is to be done comes out.

A round is one answer of the model. Of its calls, in order:

1. the arguments are no JSON object with what the tool needs  -> the model is told; it counts as a use
2. the tool's uses, or all calls, or the time, are used up     -> the model is told
3. the same call has already brought something                 -> that again, and nothing runs
4. the same call runs already                                  -> it waits for that one
5. else                                                        -> it runs

When all have ended:

6. the answer called tools of the client, too  -> it ends: the client has to answer first
7. rounds, calls or time are used up           -> the model is asked once more, without tools
8. else                                        -> the model is asked once more

So a request has at most `max_rounds` + 1 rounds, and `max_calls` calls that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.domain.answer import StopReason
from stoker.domain.prompt import ToolCall
from stoker.domain.server_tools import ServerCall, ServerToolKind, WebPage

ARGUMENT = {ServerToolKind.SEARCH: "query", ServerToolKind.FETCH: "url"}
"""What a call of each kind needs."""
LONGEST = {ServerToolKind.SEARCH: 1000, ServerToolKind.FETCH: 8192}
"""Characters of it."""
TOO_LONG = {ServerToolKind.SEARCH: "query_too_long", ServerToolKind.FETCH: "url_too_long"}
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


class Begin(NamedTuple):
    """Tell the client of the call."""

    call: ServerCall


class Run(NamedTuple):
    """Run it, and report `on_result`."""

    call: ServerCall
    argument: str
    """The query, or the address."""


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
        self._uses = dict.fromkeys(offered, 0)
        self._calls = 0
        self._seconds = 0.0
        self._results: dict[tuple[str, str], list[WebPage]] = {}
        """What calls brought, by function and argument."""
        self._running: dict[str, list[ServerCall]] = {}
        """The calls that wait for one, itself included, by its id."""
        self._keys: dict[str, tuple[str, str]] = {}
        self._has_client_calls = False

    def is_offered(self, name: str) -> bool:
        """Whether a call of this name is for Stoker to run, or was: after the last round it never leaves Stoker."""
        return name in self._offered

    def on_round(self, calls: Sequence[ToolCall], has_client_calls: bool) -> list[Command]:
        """The model has answered with these calls of the functions offered: at least one."""
        assert not self._running
        assert not self.is_last
        self.rounds += 1
        self.results = []
        self._has_client_calls = has_client_calls
        commands: list[Command] = []
        running: dict[tuple[str, str], str] = {}
        for asked in calls:
            tool = self._offered[asked.name]
            given = _object(asked.arguments)
            argument = given.get(ARGUMENT[tool.kind])
            shown = msgspec.json.encode(given).decode()
            call = ServerCall(self._make_id(), tool.kind, shown)
            self.results.append((asked, call))
            commands.append(Begin(call))
            key = asked.name, argument if isinstance(argument, str) else ""
            if call_error := self._refusal(tool, asked.name, argument):
                call.error = call_error  # 1, 2
                commands.append(End(call))
            elif key in self._results:
                call.pages = self._results[key]  # 3
                commands.append(End(call))
            elif key in running:
                self._running[running[key]].append(call)  # 4
            else:
                running[key] = call.id  # 5
                self._calls += 1
                self._running[call.id], self._keys[call.id] = [call], key
                commands.append(Run(call, key[1]))
            self._uses[asked.name] += 1
        return commands if self._running else [*commands, self._follow()]

    def on_result(self, id: str, pages: list[WebPage], error: str, seconds: float) -> list[Command]:
        """A call has run. `error`: empty if it worked."""
        waiting, key = self._running.pop(id), self._keys.pop(id)
        self._seconds += seconds
        if not error:
            self._results[key] = pages
        for call in waiting:
            call.pages, call.error = ([], error) if error else (pages, "")
        commands: list[Command] = [End(call) for call in waiting]
        return commands if self._running else [*commands, self._follow()]

    def stop(self) -> None:
        """What the model is asked next is the last."""
        self.is_last = True

    def _refusal(self, tool: OfferedTool, name: str, argument: object) -> str:
        if not isinstance(argument, str) or not argument.strip():
            return INVALID
        if len(argument) > LONGEST[tool.kind]:
            return TOO_LONG[tool.kind]
        if self._uses[name] >= tool.max_uses or self._calls >= self._bounds.max_calls:
            return USED_UP
        return UNAVAILABLE if self._seconds >= self._bounds.max_time else ""

    def _follow(self) -> Command:
        if self._has_client_calls:
            return Finish(StopReason.CALLS)  # 6
        bounds = self._bounds
        self.is_last = (
            self.rounds >= bounds.max_rounds
            or self._calls >= bounds.max_calls
            or self._seconds >= bounds.max_time
            or all(self._uses[name] >= tool.max_uses for name, tool in self._offered.items())
        )
        return Ask(self.is_last)  # 7, 8


def _object(arguments: str) -> dict[str, Any]:
    """The object that the arguments are; empty, if they are none."""
    try:
        given = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):  # also half of a character
        return {}
    return given if isinstance(given, dict) else {}
