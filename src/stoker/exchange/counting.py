"""Counts the tokens of a prompt with the serve's own counter."""

from __future__ import annotations

from stoker.access.quota import BYTES_PER_TOKEN
from stoker.domain.dialect import Dialect, Endpoint
from stoker.domain.errors import StokerError, UpstreamError
from stoker.domain.lease import Lease
from stoker.domain.protocols import Leases
from stoker.domain.serve import Serve
from stoker.domain.usage import ServeUsage
from stoker.exchange.formatter import Formatter, UpstreamRequest
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.body_fields import BodyFields
from stoker.request.decide.context import check_context
from stoker.request.relay.pool import ConnectionPool
from stoker.request.relay.tokens import count, count_by_asking

EDITS = b"x-stoker-edits"
"""Fields of the request whose value was lowered, with the new one."""


async def lower_output_limit(context: RequestContext, request: UpstreamRequest, room: int) -> bool:
    """Let the request ask for at most `room` tokens of output, and tell the client. False: it does not ask for more."""
    lowered = await context.process(request.lower_output_limit, room)
    if lowered:
        context.reply.set_header(
            EDITS, b",".join(b"%b=%d" % (name.encode(), room) for name in lowered if name != "thinking")
        )
    return bool(lowered)


class TokenCounter:
    """When the request ends or is cancelled, its count is stopped, and the lease for it released."""

    def __init__(self, leases: Leases, pool: ConnectionPool, formatter: Formatter) -> None:
        self._leases = leases
        self._pool = pool
        self._formatter = formatter

    async def check_context(self, context: RequestContext, serve: Serve, request: UpstreamRequest) -> None:
        """Raise ClientError 400 if the prompt exceeds the serve's context; lower the output limit to what is left. An
        unknown count passes.

        Counting takes none of the serve's places; a serve that is not loaded is loaded first.
        """
        request.tokens = tokens = await self._count(context, serve, request)
        budget = request.fields.output_budget()
        room = budget or 0
        if tokens is not None and serve.context is not None:
            room = min(room, check_context(f"serve '{serve.name}'", serve.context, tokens, budget))
        if context.max_context is not None:  # where the engine has no counter, the size of the body has to do
            estimate = len(request.body) // BYTES_PER_TOKEN if tokens is None else tokens
            room = min(room, check_context(f"key '{context.decision.key}'", context.max_context, estimate, budget))
        if budget is not None and budget > room:
            await lower_output_limit(context, request, room)

    async def count_if_ready(
        self, context: RequestContext, serve: Serve, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> int | None:
        """Prompt tokens, if that neither loads a model nor waits; None: unknown."""
        target = self._leases.target(serve.name)
        if target is None:
            return None
        try:
            request = await context.process(self._formatter.format, serve, target, endpoint, fields, body)
            lease = context.lease_now(self._leases, serve.name, takes_place=False)
            if lease is None:
                context.stop_waiting()
                return None
            tokens = await self._ask(context, lease, request)
        except StokerError:
            context.raise_if_ended()
            return None
        if tokens is not None:
            context.token_count = serve.name, tokens
        return tokens

    async def reply_with_count(self, context: RequestContext, serve: Serve, request: UpstreamRequest) -> None:
        """Answer a client that wants its tokens counted by a serve without an endpoint for that.

        The engine's own counter counts the request as it would be sent. An engine without one counts when it generates
        one token. Raises UpstreamError 501 if neither gives a number.
        """
        source, tokens = "engine", await self._count(context, serve, request)
        if tokens is None:
            source, request = "generation", await context.process(self._formatter.with_one_token, request)
            lease = context.lease_now(self._leases, serve.name) or await context.wait_for_lease()
            body = (await context.process(request.edited, lease.target.served_name)).whole()
            tokens = await context.run_cancellable(
                count_by_asking(self._pool, lease.target, request.endpoint.path, body)
            )
            context.usages.append(ServeUsage(serve.name, tokens, 1))
        context.raise_if_ended()
        if tokens is None:
            text = (
                f"serve '{serve.name}' cannot count tokens: its engine has no counter, and its answers report no usage"
            )
            raise UpstreamError(text, code="not_counted", status=501)
        context.reply.set_header(b"x-stoker-token-count", source.encode())
        kind = b'"object":"response.input_tokens",' if request.client.dialect is Dialect.RESPONSES else b""
        context.reply.send_whole(
            200, [(b"content-type", b"application/json")], b'{%b"input_tokens":%d}' % (kind, tokens)
        )

    async def _count(self, context: RequestContext, serve: Serve, request: UpstreamRequest) -> int | None:
        """Prompt tokens; None: the engine has no counter. Takes none of the serve's places."""
        if context.token_count[0] == serve.name:
            return context.token_count[1]
        lease = context.lease_now(self._leases, serve.name, takes_place=False) or await context.wait_for_lease()
        return await self._ask(context, lease, request)

    async def _ask(self, context: RequestContext, lease: Lease, request: UpstreamRequest) -> int | None:
        try:
            body = (await context.process(request.edited, lease.target.served_name)).whole()
            tokens = await context.run_cancellable(
                count(self._pool, lease.target, request.endpoint.dialect, body, context.process)
            )
        finally:
            lease.release()
            context.lease = None
        context.raise_if_ended()
        return tokens
