"""Which requests leave tools to the server, and what is done around each attempt of one.

    prepare    the tools of a request that the caller may use become functions; who cannot go on without is refused;
               what such tools did in earlier turns becomes calls of functions, and their results
    reading    each round is read by a `RoundReader`, which keeps calls of these functions from the client
    repair     a round that calls them is over: they run while no lease is held, and the model goes on

The first serve that begins to answer goes on to the end: the history holds its calls, and tools may have acted.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stoker.access.caller import Caller
from stoker.access.limits import Amounts
from stoker.access.quota import ASSUMED_OUTPUT, Charge
from stoker.domain.answer import (
    Answer,
    AnswerBlock,
    Began,
    Counted,
    Ended,
    Event,
    Finished,
    StopReason,
    ToolBegan,
    ToolEnded,
    ToolsListed,
)
from stoker.domain.decision import Attempt, Candidate, Decision, ToolRecord
from stoker.domain.dialect import Dialect, Endpoint
from stoker.domain.errors import ClientError, StokerError, UpstreamError
from stoker.domain.key import Key
from stoker.domain.prompt import Block, Choice, Prompt, Role, Text, ToolCall, ToolChoice, ToolResult, Turn
from stoker.domain.serve import Serve
from stoker.domain.server_tools import McpListing, ServerCall, ServerToolKind, WebPage
from stoker.exchange.attempts import AttemptHooks
from stoker.exchange.formatter import UpstreamRequest
from stoker.exchange.planner import Answer as PlannedAnswer
from stoker.exchange.planner import Candidates, PlannedRequest, PreparedRequest, ToolPlanner
from stoker.exchange.request_context import RequestContext
from stoker.exchange.upstream_client import PASSED_ON, AnswerReading, UpstreamClient
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.codec.own_replies import failed_response
from stoker.request.decide.plan import PlanCandidate
from stoker.request.relay.relay import Relay
from stoker.request.relay.reply import Reply
from stoker.request.translate.neutral.calls import short_name
from stoker.request.translate.neutral.protocols import AnswerWriter, position_of
from stoker.request.translate.translate import AnswerTranslator, read_prompt
from stoker_tools.declared import (
    Declared,
    DeclaredTool,
    FunctionNames,
    Written,
    read_declared,
    without_secrets,
    write_functions,
)
from stoker_tools.fetch import addresses_in, same_address
from stoker_tools.loop import (
    LONGEST,
    TOO_LONG,
    Ask,
    Begin,
    Command,
    End,
    Finish,
    LoopBounds,
    OfferedTool,
    Run,
    ToolLoop,
)
from stoker_tools.mcp_declared import NONCE, McpAnswer, McpFunction, approval_not_found, approval_text, object_of
from stoker_tools.paying import paid, paid_if_possible
from stoker_tools.reading import AnswerSoFar, RoundReader, visible
from stoker_tools.result_text import ARGUMENT, cut_results, model_text
from stoker_tools.running import CallResult, ToolRunner
from stoker_tools.search import SearchQuery, ToolFailed, off_the_loop
from stoker_tools.tables import LoopLimits, Missing, Tool

_DIALECTS = frozenset((Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES))
_STATUS = {"url_not_allowed": 400, "too_many_requests": 429}
"""Of calls that fail without a model. Others are 502."""
MOST_APPROVED = 100
"""Calls that one request may approve."""
_LEAST_RESULT = 400
"""Characters of a result that are still worth reading."""


def _least(declared: int | None, configured: int) -> int:
    return configured if declared is None else min(declared, configured)


class Offer(NamedTuple):
    """A tool of the configuration for one that a request has."""

    tool: Tool
    declared: DeclaredTool
    mcp: McpFunction | None = None
    """The tool of an MCP server."""

    @property
    def needs_approval(self) -> bool:
        asked = self.declared.mcp
        return self.mcp is not None and asked is not None and asked.approval.is_needed(self.mcp.tool)

    def query(self, text: str) -> SearchQuery:
        results = _least(self.declared.results, self.tool.max_results)
        # A client's list narrows the operator's: what either of them leaves out does not come.
        return SearchQuery(text, results, self.declared.allowed, self.declared.blocked, self.tool.hosts)


class ServerTools(ToolPlanner):
    """Of one configuration."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        limits: LoopLimits,
        runner: ToolRunner,
        upstream_client: UpstreamClient,
        keep_alive: float,
    ) -> None:
        """`keep_alive`: seconds between pings while a tool runs."""
        self.tools = tools
        self.limits = limits
        self.runner = runner
        self.upstream_client = upstream_client
        self.keep_alive = keep_alive

    async def prepare(self, request: PlannedRequest, candidates: Candidates) -> PreparedRequest | PlannedAnswer | None:
        """See the base. Raises ClientError 400 `server_tool_missing`, `mcp_server_unknown`, `tool_name_taken`."""
        context, endpoint = request.call, request.endpoint
        dialect = endpoint.dialect
        if dialect not in _DIALECTS:
            return None
        formatter, plan = self.upstream_client.formatter, candidates.plan
        runs_them = frozenset(one.serve.name for one in plan if self._runs_them(one.serve, endpoint))
        if len(runs_them) == len(plan):
            return None
        declared = await context.process(read_declared, dialect, request.body)
        if not declared.tools and not declared.has_calls:
            return None
        able = tuple(one for one in plan if one.serve.name in runs_them)
        for_able = PreparedRequest(request.fields, request.body, Candidates(able, candidates.hooks))
        asks_servers = any(one.mcp is not None for one in declared.tools)
        approved = [answer for answer in declared.history.answers.values() if asks_servers and answer.is_granted]
        unknown = declared.history.unknown
        if approved or unknown:
            # A cloud of the plan gets what it may have asked for itself. Where there is none, the client may bring its
            # own pair of request and approval: it can have each of these tools called without asking anybody.
            if able and (unknown or not await context.process(self._asked_for_all, approved, request.caller)):
                return for_able
            if unknown:
                not_found = approval_not_found(unknown)
                return await self._failed(request, declared, not_found, not_found)
            if len(approved) > MOST_APPROVED:
                text = f"'input' approves {len(approved)} calls that have not run: at most {MOST_APPROVED} at once"
                raise ClientError(text, code="too_many_approvals", param="input")
            plan = tuple(one for one in plan if one.serve.name not in runs_them)
            runs_them = frozenset()
        offers = self._offers(request.caller, declared)
        servers = self._servers(request.caller, declared)
        taken = declared.functions
        try:
            self._check_missing(request.caller, dialect, declared, offers, servers)
            by_name = {_function_name(kind, dialect, taken): offer for kind, offer in offers.items()}
            listed: dict[str, Offer] = {}
            if servers:
                listed = await context.run_cancellable(self._mcp_functions(servers, taken | by_name.keys()))
        except ClientError as error:
            if plan[0].serve.name not in runs_them:
                if not isinstance(error, McpUnavailable):
                    raise
                failure = UpstreamError(error.message, code=error.code)
                listing = McpListing(_new_id(), error.server, [], error.message)
                return await self._failed(request, declared, error, failure, [ToolsListed(0, listing)])
            # Who cannot run them and would be asked next would invent what they say.
            return for_able
        context.raise_if_ended()
        is_offered = bool(offers or servers)
        if not is_offered and not declared.has_calls:
            return None
        names = FunctionNames({offer.tool.answers: name for name, offer in by_name.items()})
        if servers:
            by_name |= listed
            mcp = {name: offer.mcp for name, offer in listed.items() if offer.mcp is not None}
            names = FunctionNames(names.kinds, mcp, frozenset(one.declared.name for one in servers))
        begun = BegunAnswer(self._listings(dialect, servers, names))
        usage = ToolUsage(context.decision)
        max_calls = _least(declared.max_calls, self.limits.max_calls)
        bounds = LoopBounds(self.limits.max_rounds, max_calls, self.limits.max_time)
        loop = ToolLoop({name: _offered(offer) for name, offer in by_name.items()}, bounds, _new_id)
        if approved and endpoint.generates:
            writer = await self._client_writer(request, declared)  # nothing runs for a request that cannot be read
            if request.fields.stream:
                begun.send_with(writer, context.reply, self.keep_alive)
            await context.run_cancellable(
                self._run_approved(request.caller, context, approved, by_name, loop, begun, usage)
            )
            context.raise_if_ended()
        results = {call.approval: call for call in begun.calls}
        written: Written = await context.process(
            write_functions, dialect, declared, names, self.text_of, formatter.signer.open, results
        )
        # Only what is read anew is new: the model's name may be another one than the body's, which a planner has given.
        fields = await context.process(read_body_fields, written.body, endpoint.streams_unasked)
        fields.model, fields.model_at = request.fields.model, None
        used_offers = [*offers.values(), *servers]
        losses = [f"lossy:{loss}" for offer in used_offers for loss in offer.declared.losses]
        used = "+".join(sorted({offer.tool.name for offer in used_offers}))
        notes = (*dict.fromkeys(losses), f"tools:{used}") if is_offered else ()
        as_sent = request.fields, request.body
        rewritten = (fields, written.body) if runs_them else None
        plan = tuple(
            replace(one, request=as_sent)
            if one.serve.name in runs_them
            else replace(one, must_read=one.must_read or is_offered, request=rewritten)
            for one in plan
        )
        first = plan[0].request or (fields, written.body)
        if not endpoint.generates or not is_offered:
            context.notes += () if first is as_sent else notes
            return PreparedRequest(*first, Candidates(plan, candidates.hooks))
        hooks = ToolAttempts(self, context, by_name, loop, written, bool(fields.stream), candidates.hooks, begun,
                             usage)  # fmt: skip
        hooks.runs_them, hooks.notes, hooks.caller = runs_them, notes, request.caller
        return PreparedRequest(*first, Candidates(plan, hooks))

    async def _failed(
        self, request: PlannedRequest, declared: Declared, error: ClientError, cause: StokerError,
        events: Sequence[Event] = (),
    ) -> PlannedAnswer:  # fmt: skip
        """A response that failed, after these events. `cause`: as the decision has it. Raises `error` where the client
        expects no response.
        """
        context, endpoint = request.call, request.endpoint
        if endpoint.dialect is not Dialect.RESPONSES or not endpoint.generates:
            raise error
        writer = await self._client_writer(request, declared)
        is_streamed = bool(request.fields.stream)
        return PlannedAnswer(partial(_tell_failed, context, writer, error, cause, events, is_streamed))

    async def _client_writer(self, request: PlannedRequest, declared: Declared) -> AnswerWriter:
        """Writes an answer of Stoker's own, which says of the request what the client wrote."""
        context = request.call
        prompt, _ = await context.process(read_prompt, request.endpoint.dialect, request.body)
        prompt.stream = bool(request.fields.stream)
        tools = without_secrets(declared.fields.get("tools"))
        prompt.echoed["tools"] = [] if tools is None or bytes(tools) == b"null" else tools
        return self.upstream_client.formatter.answer_writer(prompt, context.decision.id, request.fields.model)

    def _runs_them(self, serve: Serve, endpoint: Endpoint) -> bool:
        target = self.upstream_client.target(serve.name)
        return self.upstream_client.formatter.runs_server_tools(serve, target, endpoint)

    async def run_tool(
        self, caller: Caller, charge: Charge | None, kind: ServerToolKind, argument: str, results: int,
        on_cost: Callable[[float], None],
    ) -> list[WebPage]:  # fmt: skip
        """See the base. The client names the address itself, so a page may be any public one."""
        tool = next((one for one in self.tools.values() if one.answers is kind and may_use(caller.key, one)), None)
        if tool is None:
            raise _missing(DeclaredTool(kind, kind.value), caller,
                           [one for one in self.tools.values() if one.answers is kind])  # fmt: skip
        if len(argument) > LONGEST[kind]:
            raise ClientError(f"'{ARGUMENT[kind]}' is too long: at most {LONGEST[kind]} characters",
                              code=TOO_LONG[kind], param=ARGUMENT[kind])  # fmt: skip
        query = SearchQuery(argument, min(results, tool.max_results), hosts=tool.hosts)

        def note(tool: Tool, result: CallResult) -> None:
            if result.is_paid and tool.cost:
                on_cost(tool.cost)

        result = await paid(charge, tool, partial(self.runner.run, tool, query), note)
        if result.error:
            status = _STATUS.get(result.error, 502)
            text = f"{kind.value} failed ({result.error}); `stoker tools try {tool.name} ARG` shows the operator why"
            raise StokerError(text, code=result.error, status=status, retry_after=1.0 if status == 429 else None)
        return result.pages

    def _servers(self, caller: Caller, declared: Declared) -> list[Offer]:
        """The MCP servers that the request names, and the caller may use. Raises ClientError 400: the name is that of
        one, and the address that of another.
        """
        mcp_servers = [tool for tool in self.tools.values() if tool.answers is ServerToolKind.MCP]
        usable = [tool for tool in mcp_servers if may_use(caller.key, tool)]
        found: list[Offer] = []
        for one in declared.tools:
            if one.mcp is None or any(one.name == offer.declared.name for offer in found):
                continue
            url = same_address(one.mcp.url)
            named = next((tool for tool in usable if tool.name == one.name), None)
            at_url = next((tool for tool in usable if tool.url is not None and same_address(tool.url) == url), None)
            if named is not None and url and named.url is not None and at_url is not named:
                raise ClientError(
                    f"the MCP server '{one.name[:64]}' of this Stoker has another address than the request says: leave "
                    "the address to the operator, or use another label",
                    code="mcp_server_mismatch", param="tools",
                )  # fmt: skip
            tool = named or at_url
            if tool is not None:
                found.append(Offer(tool, one))
        return found

    async def _mcp_functions(self, servers: Sequence[Offer], taken: Collection[str]) -> dict[str, Offer]:
        """Raises McpUnavailable: a server does not answer. Without its tools a model would invent what they say."""
        found: dict[str, Offer] = {}
        for offer in servers:
            try:
                tools = await self.runner.mcp_servers.tools(offer.tool)
            except ToolFailed as error:
                raise McpUnavailable(offer.declared.name, error.why) from None
            for tool in tools:
                if offer.declared.mcp is None or not offer.declared.mcp.offers(tool):
                    continue
                name = short_name(f"{offer.tool.name}__{tool.name}", 64)
                while name in taken or name in found:
                    name = short_name(f"stoker_{name}", 64)
                found[name] = offer._replace(mcp=McpFunction(offer.declared.name, tool))
        return found

    def _listings(self, dialect: Dialect, servers: Sequence[Offer], names: FunctionNames) -> list[McpListing]:
        """What a client of Responses is told first, unless it knows it."""
        if dialect is not Dialect.RESPONSES:
            return []
        return [
            McpListing(_new_id(), label, [one.tool for one in names.mcp.values() if one.server == label])
            for offer in servers
            if offer.declared.mcp is not None and not offer.declared.mcp.is_listed
            for label in (offer.declared.name,)
        ]

    async def _run_approved(
        self,
        caller: Caller,
        context: RequestContext,
        approved: Sequence[McpAnswer],
        by_name: Mapping[str, Offer],
        loop: ToolLoop,
        begun: BegunAnswer,
        usage: ToolUsage,
    ) -> None:
        """The calls that the client has approved, of tools that this request offers: so of those that the caller may
        use. One runs once: to the same request sent again, its result is given again.
        """
        functions = {(one.mcp.server, one.mcp.tool.name): name for name, one in by_name.items() if one.mcp is not None}
        calls = [
            ToolCall(answer.id, functions[answer.server, answer.name], answer.arguments)
            for answer in approved
            if (answer.server, answer.name) in functions
        ]
        limit = asyncio.Semaphore(self.limits.parallel)

        async def run(command: Run, tool: Tool) -> None:
            call = command.call
            async with limit:
                names = [
                    approval_text(one.approval, caller.name, call.server, call.name, command.argument)
                    for one in loop.waiting_for(call.id)
                ]
                run_it = partial(self.runner.call, tool, call.name, object_of(command.argument) or {})
                result = await self.runner.once(
                    caller.name, names, partial(paid_if_possible, context.charge, tool, run_it, usage.note)
                )
            for following in loop.on_result(call.id, result.pages, result.error, result.seconds):
                begun.note(following)

        commands = await context.process(loop.on_approved, calls)
        async with asyncio.TaskGroup() as group:
            for command in commands:
                begun.note(command)
                if isinstance(command, Run):
                    name = functions[command.call.server, command.call.name]
                    group.create_task(run(command, by_name[name].tool))
        begun.calls += [call for _, call in loop.results]

    def approval_id(self, call: ServerCall, caller: Caller) -> str:
        """Of a request for approval, without its prefix. It says itself that Stoker made it, for this call and caller;
        with the prefix it has the 64 characters that an id may have.
        """
        nonce = call.id[:NONCE]
        text = approval_text(nonce, caller.name, call.server, call.name, call.arguments)
        return nonce + self.upstream_client.formatter.signer.sign("approval", text).rpartition(".")[2].rstrip("=")

    def _asked_for_all(self, answers: Sequence[McpAnswer], caller: Caller) -> bool:
        return all(self._asked_for(answer, caller) for answer in answers)

    def _asked_for(self, answer: McpAnswer, caller: Caller) -> bool:
        """Whether Stoker asked this caller to approve this call."""
        signer, (prefix, _, id) = self.upstream_client.formatter.signer, answer.id.partition("_")
        if prefix != "mcpr":  # one id for each: what runs once is known by it
            return False
        text = approval_text(id[:NONCE], caller.name, answer.server, answer.name, answer.arguments)
        return signer.fits(f"{signer.sign('approval', '').rpartition('.')[0]}.{id[NONCE:]}=", text)

    def text_of(self, call: ServerCall) -> str:
        """What the model reads of a call: the same each time, so that engines find it in their caches."""
        id = call.id.rpartition("_")[2]
        mark = self.upstream_client.formatter.signer.sign("tools", id).rpartition(".")[2]
        return model_text(call, f"content-{''.join(one for one in mark if one.isalnum())[:16]}")

    def _offers(self, caller: Caller, declared: Declared) -> dict[ServerToolKind, Offer]:
        """By kind: the first tool of the configuration that the caller may use."""
        usable = [tool for tool in self.tools.values() if may_use(caller.key, tool)]
        found: dict[ServerToolKind, Offer] = {}
        for one in declared.tools:
            if one.kind is None or one.kind in found or not one.is_live:
                continue
            tool = next((tool for tool in usable if tool.answers is one.kind), None)
            if tool is not None:
                found[one.kind] = Offer(tool, one)
        return found

    def _check_missing(
        self,
        caller: Caller,
        dialect: Dialect,
        declared: Declared,
        offers: Mapping[ServerToolKind, Offer],
        servers: Sequence[Offer],
    ) -> None:
        """Raises ClientError 400 for a tool that is not there, if `missing` has it refused."""
        if self.limits.missing is Missing.DROP:
            return
        is_refused = self.limits.missing is Missing.REFUSE
        for one in declared.tools:
            if one.kind is None:
                if all(one.name != offer.declared.name for offer in servers):
                    raise _no_mcp(one.name, caller, [tool for tool in self.tools.values() if may_use(caller.key, tool)])
                continue
            if one.kind in offers:
                continue
            is_alone = dialect is Dialect.CHAT or (not declared.other and not offers and not servers)
            if is_refused or is_alone or one.kind in declared.forced:
                raise _missing(one, caller, [tool for tool in self.tools.values() if tool.answers is one.kind])


def may_use(key: Key, tool: Tool) -> bool:
    """A key that names no tools may use those that only read; who needs no key, all."""
    tools = key.tools
    if tools is None:
        return not tool.acts or not key.name
    return "*" in tools or tool.name in tools


def _function_name(kind: ServerToolKind, dialect: Dialect, taken: frozenset[str]) -> str:
    name = kind.value
    if name not in taken:
        return name
    if dialect is Dialect.MESSAGES:
        text = f"two tools are called '{name}': names of tools must be unique"
        raise ClientError(text, code="tool_name_taken", param="tools")
    return next(other for at in range(len(taken) + 1) if (other := f"stoker_{name}{at or ''}") not in taken)


def _missing(one: DeclaredTool, caller: Caller, configured: Sequence[Tool]) -> ClientError:
    assert one.kind is not None
    name = one.kind.value
    if not one.is_live:
        text = f"{one.name} without access to the web is not possible here: Stoker keeps no copy of the web"
    elif configured:
        text = f"key '{caller.name}' may not use {name} on this Stoker; the operator can add it to `tools` of the key"
    else:
        what = "a search service" if one.kind is ServerToolKind.SEARCH else 'kind = "fetch"'
        text = f"{name} is not set up on this Stoker; the operator can add [tools.NAME] with {what}"
    return ClientError(text, code="server_tool_missing", param="tools")


def _no_mcp(name: str, caller: Caller, usable: Sequence[Tool]) -> ClientError:
    known = ", ".join(tool.name for tool in usable if tool.answers is ServerToolKind.MCP)
    who = f"key '{caller.name}'" if caller.name else "requests"
    help = f"{who} may use these: {known}" if known else 'the operator can add [tools.NAME] with kind = "mcp"'
    if not known and caller.name:
        help += f", and NAME to `tools` of key '{caller.name}'"
    return ClientError(
        f"the MCP server '{name[:64]}' is not available on this Stoker, which connects to no address that a request "
        f"gives; {help}",
        code="mcp_server_unknown", param="tools",
    )  # fmt: skip


class McpUnavailable(ClientError):
    """An MCP server does not say which tools it has."""

    def __init__(self, server: str, why: str) -> None:
        """`server`: as the client calls it."""
        text = f"the MCP server '{server[:64]}' is not available: {why}"
        super().__init__(text, code="mcp_server_unavailable", param="tools")
        self.server = server


async def _tell_failed(
    context: RequestContext, writer: AnswerWriter, error: ClientError, cause: StokerError, events: Sequence[Event],
    is_streamed: bool,
) -> None:  # fmt: skip
    """See `ServerTools._failed`. Clients know `server_error` alone for it."""
    failure = UpstreamError(error.message, code=error.code)
    begun = b"".join(writer.write(event) for event in (Began("", ""), *events))
    reply = context.reply
    reply.error = cause
    if is_streamed:
        reply.go_on(begun + writer.fail(failure), 0.0)
        reply.finish()
        return
    response = position_of(writer).response
    assert response is not None
    reply.begin()
    body = msgspec.json.encode(failed_response(failure, response))
    reply.send_whole(200, [(b"content-type", b"application/json")], body)


class BegunAnswer:
    """What a client gets before the model has said anything."""

    def __init__(self, listings: Sequence[McpListing] = ()) -> None:
        self.listings = listings
        self.calls: list[ServerCall] = []
        """That the client approved."""
        self.events: list[Event] = [ToolsListed(at, listing) for at, listing in enumerate(listings)]
        """Of a stream, in order."""
        self.told: list[Event] = []
        """Those that were sent already, with the beginning of the answer before them."""
        self._send: Callable[[Event], None] | None = None

    def blocks(self) -> list[AnswerBlock]:
        return [*self.listings, *self.calls]

    def send_with(self, writer: AnswerWriter, reply: Reply, keep_alive: float) -> None:
        """Send the events as they come, from the first call on, with pings between them."""

        def send(event: Event) -> None:
            unsent = [event] if self.told else [Began("", ""), *self.events]
            self.told += unsent
            data = b"".join(map(writer.write, unsent))
            reply.tell(data, position_of(writer), keep_alive)

        self._send = send

    def note(self, command: Command) -> None:
        """A call that was approved begins, or has ended."""
        if not isinstance(command, Begin | End):
            return
        event = (ToolBegan if isinstance(command, Begin) else ToolEnded)(len(self.events), command.call)
        self.events.append(event)
        if self._send is not None:
            self._send(event)


class ToolUsage:
    """What one request did with tools, call by call, as its decision has it."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        self._records: dict[str, ToolRecord] = {}

    def note(self, tool: Tool, result: CallResult) -> None:
        record = self._records.setdefault(tool.name, ToolRecord(tool.name, tool.answers.value))
        record.calls += 1
        record.failed += bool(result.error)
        record.seconds += result.seconds
        record.bytes += result.bytes
        record.cost += tool.cost if result.is_paid else 0.0
        self._decision.tools = list(self._records.values())


class ToolAttempts:
    """The attempts of one request whose tools Stoker runs. `inner`: the hooks of the plan's maker, which hear of each
    attempt; what they would check of the answer is not checked.
    """

    def __init__(
        self,
        tools: ServerTools,
        context: RequestContext,
        offers: Mapping[str, Offer],
        loop: ToolLoop,
        written: Written,
        is_streamed: bool,
        inner: AttemptHooks | None,
        begun: BegunAnswer,
        usage: ToolUsage,
    ) -> None:
        """`offers`: by the names that the model knows. `loop`: after the calls that were approved."""
        self.attempts: list[Attempt] = [] if inner is None else inner.attempts
        self.excluded: Sequence[Candidate] = () if inner is None else inner.excluded
        self.is_pinned = False
        self.runs_them: frozenset[str] = frozenset()
        """The serves that get the tools as the client declared them. Their answers are passed on as without Stoker."""
        self.notes: tuple[str, ...] = ()
        """What is said of the requests to all others."""
        self.caller: Caller | None = None
        self._is_passed_on = False
        """To one of `runs_them`."""
        self._other_notes = context.notes
        self._tools = tools
        self._context = context
        self._offers = offers
        self._written = written
        self._is_streamed = is_streamed
        self._inner = inner
        self._loop = loop
        self._answer = AnswerSoFar()
        self._answer.blocks += begun.blocks()
        self._first, self._told = begun.events, begun.told
        self._answer.next_number = len(self._first)
        self._reader: RoundReader | None = None
        self._translator: AnswerTranslator | None = None
        """Of the last round that called tools."""
        self._base: Prompt | None = None
        """What the client asked, with the functions."""
        self._turns: list[Turn] = []
        """What was said since."""
        self._fetches = any(offer.tool.answers is ServerToolKind.FETCH for offer in offers.values())
        self._known: set[str] = set()
        """The addresses that may be fetched."""
        self._unsent = b""
        self._cuts = 0
        """How often the newest results were cut."""
        self._serve_context: int | None = None
        self._usage = usage

    # -- the plan ------------------------------------------------------------------------------------------------------

    def begin(self, candidate: PlanCandidate, attempt: Attempt) -> None:
        self._serve_context = candidate.serve.context
        self._is_passed_on = candidate.serve.name in self.runs_them
        self._context.notes = self._other_notes if self._is_passed_on else (*self._other_notes, *self.notes)
        if self._inner is None and len(self.attempts) > 1:
            failed = self.attempts[-2]
            self._context.reply.set_header(b"x-stoker-fallback", f"{failed.serve}: {failed.outcome}".encode())
        if self._inner is not None:
            self._inner.begin(candidate, attempt)

    def end(self, error: StokerError | None, retry_after: float | None) -> None:
        if self._inner is not None:
            self._inner.end(error, retry_after)
        elif len(self.attempts) > 1:
            self._context.decision.tried = self.attempts
        if self._loop.rounds:
            decision, attempt = self._context.decision, self.attempts[-1]
            decision.input_tokens, decision.output_tokens = attempt.input_tokens, attempt.output_tokens
            decision.cached_tokens, decision.cache_write_tokens = attempt.cached_tokens, attempt.cache_write_tokens
            decision.rounds = self._loop.rounds

    async def reading(self, request: UpstreamRequest) -> AnswerReading:
        if self._is_passed_on:
            return PASSED_ON if self._inner is None else await self._inner.reading(request)
        assert request.written is not None
        prompt = request.written.prompt
        if self._base is None or not self.is_pinned:
            self._base = prompt
        for name, value in (("tools", self._written.tools), ("tool_choice", self._written.tool_choice)):
            if value is not None:
                prompt.echoed[name] = value
        prompt.include = self._written.include
        follows = self._translator if self._is_streamed else None
        has_beginning = self.is_pinned or bool(self._told)
        self._reader = RoundReader(self._loop, self._answer, None if has_beginning else self._first)
        return AnswerReading(self._reader, follows=follows, told=() if self.is_pinned else self._told)

    def can_repair(self, request: UpstreamRequest, has_begun: bool) -> bool:
        """The round called tools. What it wrote for the client and is not sent yet goes out when the tools begin."""
        if self._is_passed_on:
            return self._inner is not None and self._inner.can_repair(request, has_begun)
        relay = self._context.relay
        if self._reader is None or not self._reader.is_failed:
            return self.is_pinned and self._cuts < 2
        if not isinstance(relay, Relay):
            return False
        if isinstance(relay.translator, AnswerTranslator):
            self._translator = relay.translator
        self._unsent = relay.take_unsent() if self._is_streamed else b""
        return True

    # -- a round is over -----------------------------------------------------------------------------------------------

    async def repair(self, request: UpstreamRequest) -> UpstreamRequest | None:
        """Run the tools; then the request with their results, or None, if the client has to go on. If that exceeds the
        context, `repair` is asked again, and cuts the results. If it exceeds a limit of the key, it is the last round.
        """
        if self._is_passed_on and self._inner is not None:
            return await self._inner.repair(request)
        reader, context = self._reader, self._context
        if reader is None or not reader.is_failed:
            return await self._shorten(request)
        self._reader = None
        self.is_pinned = True
        reader.keep()
        if not self._is_streamed:
            self._answer.blocks += visible(reader.blocks, self._loop)
        unsent, self._unsent = self._unsent, b""
        if self._is_streamed:
            context.reply.go_on(unsent, self._tools.keep_alive)
        if self._fetches and self._loop.rounds == 0:
            self._known = await context.process(_addresses, self._base)
        following = await context.run_cancellable(self._run(self._loop.on_round(reader.calls, reader.has_client_calls)))
        context.raise_if_ended()
        self._say_results(reader)
        if isinstance(following, Finish):
            self._finish(following.stop)
            return None
        return await self._ask_again(request, following.is_last)

    async def _shorten(self, request: UpstreamRequest) -> UpstreamRequest | None:
        """The last round, with as much of the newest results as fits: at first by the tokens that are too many, or half
        of them if nobody counted; then errors in their place.
        """
        self._cuts += 1
        self._loop.stop()
        said = [self._tools.text_of(call) for _, call in self._loop.results]
        most = sum(map(len, said)) // 2
        if request.tokens is not None and (limit := self._max_context) is not None:
            budget = request.fields.output_budget()
            room = min(ASSUMED_OUTPUT if budget is None else budget, limit // 4)
            excess = request.tokens + room - limit
            most = sum(map(len, said)) - int(1.1 * excess * len(request.body) / max(1, request.tokens))
        if self._cuts == 1 and most >= _LEAST_RESULT * len(said):
            said = cut_results(said, most)
        else:
            said = [self._tools.text_of(_too_large(call)) for _, call in self._loop.results]
        results: list[Block] = [
            ToolResult(asked.id, [Text(text)]) for (asked, _), text in zip(self._loop.results, said, strict=True)
        ]
        self._turns[-1] = Turn(Role.USER, results)
        return await self._ask_again(request, is_last=True)

    async def _ask_again(self, request: UpstreamRequest, is_last: bool) -> UpstreamRequest | None:
        prompt = self._next_prompt(is_last)
        if prompt is None:
            self._finish(StopReason.LENGTH)
            return None
        context = self._context
        context.token_count = "", None
        following = await context.process(self._tools.upstream_client.formatter.with_prompt, request, prompt)
        if context.charge is not None:
            used = Amounts(self._answer.tokens.input or 0, self._answer.tokens.output or 0)
            budget = following.fields.output_budget()
            if not context.charge.reserve_round(used, len(following.body), budget, must_fit=not is_last):
                self._loop.stop()
                return await self._ask_again(request, is_last=True)
        return following

    @property
    def _max_context(self) -> int | None:
        """In tokens."""
        limits = [one for one in (self._serve_context, self._context.max_context) if one is not None]
        return min(limits, default=None)

    async def _run(self, commands: list[Command]) -> Ask | Finish:
        """Carry out what the loop says, until all calls have ended. On cancel nothing runs any more."""
        ended: list[ServerCall] = []
        following = self._tell_all(commands, ended)
        runs = [command for command in commands if isinstance(command, Run)]
        if len(runs) == 1:  # the usual case; a task would cost turns of the event loop
            following = self._tell_all(await self._call(runs[0]), ended)
        elif runs:
            limit = asyncio.Semaphore(self._tools.limits.parallel)

            async def call(run: Run) -> None:
                nonlocal following
                async with limit:
                    following = self._tell_all(await self._call(run), ended) or following

            async with asyncio.TaskGroup() as group:
                for run in runs:
                    group.create_task(call(run), name=f"tool-{run.call.id}")
        assert following is not None
        if not self._is_streamed:  # in the order of the calls, not in that of their ends
            order = [call.id for _, call in self._loop.results]
            ended.sort(key=lambda one: order.index(one.id))
            self._answer.blocks += ended
        return following

    def _tell_all(self, commands: Sequence[Command], ended: list[ServerCall]) -> Ask | Finish | None:
        """What has begun or `ended`; and what follows, if all calls have."""
        following: Ask | Finish | None = None
        for command in commands:
            match command:
                case Begin(call=shown):
                    self._tell(ToolBegan(self._answer.next_number, shown, self._answer.said))
                case End(call=shown):
                    if shown.is_waiting:
                        assert self.caller is not None
                        shown.id = self._tools.approval_id(shown, self.caller)
                    self._tell(ToolEnded(self._answer.next_number, shown))
                    ended.append(shown)
                case Ask() | Finish():
                    following = command
        return following

    async def _call(self, run: Run) -> list[Command]:
        name = next(asked.name for asked, call in self._loop.results if call.id == run.call.id)
        offer = self._offers[name]
        tool = offer.tool
        if tool.answers is ServerToolKind.FETCH and same_address(run.argument) not in self._known:
            result = CallResult([], "url_not_in_prior_context", 0.0, 0)
            self._usage.note(tool, result)
        else:
            call = partial(self._result_of, offer, run.argument)
            result = await paid_if_possible(self._context.charge, tool, call, self._usage.note)
        if self._fetches:
            size = sum(len(page.text) for page in result.pages)
            self._known |= await off_the_loop(size, _addresses_of, result.pages)
        return self._loop.on_result(run.call.id, result.pages, result.error, result.seconds)

    async def _result_of(self, offer: Offer, argument: str) -> CallResult:
        runner = self._tools.runner
        if offer.mcp is not None:
            return await runner.call(offer.tool, offer.mcp.tool.name, object_of(argument) or {})
        most = None if offer.declared.max_tokens is None else 4 * offer.declared.max_tokens
        return await runner.run(offer.tool, offer.query(argument), most)

    def _say_results(self, reader: RoundReader) -> None:
        """What the model is told next: its own answer, and what came of its calls."""
        results: list[Block] = []
        for asked, call in self._loop.results:
            results.append(ToolResult(asked.id, [Text(self._tools.text_of(call))]))
        said: list[Block] = [
            self._shortened(block) for block in reader.blocks if not isinstance(block, ServerCall | McpListing)
        ]
        self._turns += (Turn(Role.ASSISTANT, said), Turn(Role.USER, results))

    def _shortened(self, block: Block) -> Block:
        """A call that was too long to run goes back to the model without its arguments."""
        if not isinstance(block, ToolCall) or block.name not in self._offers:
            return block
        is_too_long = self._loop.is_too_long(block.name, len(block.arguments))
        return replace(block, arguments="{}") if is_too_long else block

    def _next_prompt(self, is_last: bool) -> Prompt | None:
        """None: no token of output is left."""
        base = self._base
        assert base is not None
        left = base.max_tokens
        if left is not None and self._answer.tokens.output is not None:
            left -= self._answer.tokens.output
            if left <= 0:
                return None
        tools = [tool for tool in base.tools if not (is_last and tool.name in self._offers)]
        choice = base.tool_choice
        is_forced = choice is not None and (
            choice.mode is Choice.REQUIRED or (choice.mode is Choice.NAMED and choice.name in self._offers)
        )
        if choice is not None and is_forced:  # else the loop would never end
            choice = ToolChoice(Choice.AUTO, allowed=choice.allowed)
        if not tools:
            choice = None
        return replace(base, turns=[*base.turns, *self._turns], tools=tools, tool_choice=choice, max_tokens=left,
                       continues=False)  # fmt: skip

    # -- the client ----------------------------------------------------------------------------------------------------

    def _tell(self, event: ToolBegan | ToolEnded) -> None:
        if self._is_streamed:
            self._answer.next_number += 1
            self._write([event])

    def _write(self, events: list[Event]) -> None:
        assert self._translator is not None
        if data := self._translator.insert(events):
            self._context.reply.exchange.write(data)

    def _finish(self, stop: StopReason) -> None:
        """The answer ends here: the client has to answer its own calls first, or no output is left."""
        context, translator = self._context, self._translator
        assert translator is not None
        if self._is_streamed:
            self._write([Finished(stop), Counted(self._answer.tokens), Ended()])
            context.reply.finish()
        else:
            answer = Answer("", "", self._answer.blocks, stop, tokens=self._answer.tokens)
            context.reply.begin()
            body = translator.write_answer(answer)
            context.reply.send_whole(200, [(b"content-type", b"application/json")], body)
        context.was_answered = True


def _offered(offer: Offer) -> OfferedTool:
    most = _least(offer.declared.max_uses, offer.tool.max_uses)
    if offer.mcp is None:
        return OfferedTool(offer.tool.answers, most, offer.tool.name)
    return OfferedTool(
        ServerToolKind.MCP, most, offer.tool.name, offer.mcp.server, offer.mcp.tool.name, offer.needs_approval
    )


def _too_large(call: ServerCall) -> ServerCall:
    """What the model reads in place of a result without room. The client has the result: the tool did run."""
    error = "content_too_large" if call.kind is ServerToolKind.FETCH else "request_too_large"
    return replace(call, pages=[], error=call.error or error)


def _new_id() -> str:
    return secrets.token_hex(12)


def _addresses(prompt: Prompt) -> set[str]:
    """Those that stand in what users, clients' tools and earlier results said: nobody but them chose them, so a page
    cannot have a secret put into one.
    """
    said = (block for turn in prompt.turns if turn.role is Role.USER for block in turn.blocks)
    return {address for block in said for text in _texts(block) for address in addresses_in(text)}


def _addresses_of(pages: Sequence[WebPage]) -> set[str]:
    """Those of the pages, and those that stand in them."""
    return {address for page in pages for address in (same_address(page.url), *addresses_in(page.text))}


def _texts(block: Block) -> list[str]:
    match block:
        case Text(text=text):
            return [text]
        case ToolResult(content=content):
            return [text for one in content for text in _texts(one)]
    return []
