"""Requests that go to an engine's own path unchanged: `/upstream/SERVE/PATH`, and llama.cpp's at the top level."""

from __future__ import annotations

import re

from stoker.access.caller import Caller, require
from stoker.domain.decision import Candidate
from stoker.domain.errors import ClientError
from stoker.domain.key import Scope
from stoker.domain.serve import Serve
from stoker.engines.registry import engine_of
from stoker.exchange.request_context import RequestContext
from stoker.gateway.flow import Flow
from stoker.request.accept.connection import read_body


class UpstreamRequests:
    """Passes requests on to engines."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    async def handle(self, context: RequestContext, caller: Caller, rest: str) -> None:
        """`rest`: the path after `/upstream/`. Raises as `pass_on`, and ClientError 404 for an unknown serve."""
        settings = self._flow.settings
        is_open = settings.compat.any_upstream_path and caller.key.scope >= Scope.ADMIN
        name, path = self._split(caller, rest) if is_open else rest.partition("/")[::2]
        serve = settings.names.resolve(name, caller.may_use)
        if is_open and not path and not context.exchange.path.endswith("/"):
            # An engine's page has relative links: the path has to end with a slash, so llama-swap redirects, too.
            status, query = (301 if context.exchange.method in ("GET", "HEAD") else 308), context.exchange.query
            location = context.exchange.raw_path + b"/" + (b"?" + query if query else b"")
            context.exchange.close_after()
            context.reply.send_whole(status, [(b"location", location)], b"")
            return
        if not settings.names.is_loaded(serve) and any(
            re.search(pattern, f"/{path}") for pattern in settings.compat.upstream_ignore
        ):
            text = f"'{serve.name}' is not loaded, and [compat] upstream_ignore has a pattern for this path"
            raise ClientError(text, code="not_loaded", status=409)
        has_slash = is_open and path and context.exchange.path.endswith("/")
        await self.pass_on(context, caller, serve, f"{path}/" if has_slash else path, is_open)

    def _split(self, caller: Caller, rest: str) -> tuple[str, str]:
        """The name and the path. A name may contain slashes: the shortest that means a serve counts."""
        parts = rest.split("/")
        for count in range(1, len(parts)):
            name = "/".join(parts[:count])
            if self._flow.settings.names.means(name, caller.may_use):
                return name, "/".join(parts[count:])
        if self._flow.settings.names.means(rest, caller.may_use):
            return rest, ""
        return parts[0], "/".join(parts[1:])

    async def pass_on(
        self,
        context: RequestContext,
        caller: Caller,
        serve: Serve,
        path: str,
        is_open: bool = False,
        body: bytes | None = None,
    ) -> None:
        """Pass the request on to `path` of the serve, without a leading slash, and answer with its reply.

        `is_open`: also a path that is not listed. `body`: the request's, if it was read. Raises ClientError 404 for a
        path that is not passed on, 403 for a GET without scope observe, and what reading the body raises.
        """
        method = context.exchange.method
        allowed = engine_of(serve.engine).paths
        takes_place = allowed.get((method, path), method == "POST" if is_open else None)
        if takes_place is None:
            listed = ", ".join(f"{m} /{p}" for m, p in allowed)
            text = f"{method} /{path[:100]} is not passed on to serve '{serve.name}'; these requests are: {listed}"
            raise ClientError(text, code="not_listed", status=404)
        if takes_place and serve.keep_conversations:
            text = f"POST /{path} is not passed on to serve '{serve.name}', which keeps conversations: use /v1/..."
            raise ClientError(text, code="not_listed", status=404)
        if method == "GET":
            require(caller, Scope.OBSERVE)
        if body is None:
            body = await read_body(context.exchange, self._flow.settings.front_door.body_limit)
        if (method, path) not in allowed and is_open:
            context.decision.endpoint = f"/upstream/{serve.name}/*"  # a path may hold what is nobody's business
        context.decision.candidates = [Candidate(serve.name)]
        context.decision.serve = serve.name
        query = context.exchange.query.decode("latin-1")
        full = f"/{path}?{query}" if query else f"/{path}"
        await self._flow.pass_through(context, caller, serve, takes_place, method, full, body)
