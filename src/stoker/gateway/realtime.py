"""`GET /v1/realtime`: a WebSocket session with a serve, relayed both ways. It holds a lease while it is open."""

from __future__ import annotations

from urllib.parse import quote

from stoker.access.caller import Caller
from stoker.domain.decision import Candidate
from stoker.domain.errors import ClientError
from stoker.domain.lease import Target
from stoker.exchange.request_context import RequestContext
from stoker.gateway.flow import Flow
from stoker.request.codec.model_query import model_of_query, with_model


class RealtimeSessions:
    """Opens sessions."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    async def handle(self, context: RequestContext, caller: Caller) -> None:
        """Serve one session to its end. Raises ClientError 426 (no handshake), 400 (no model), 404 (unknown model)."""
        if not context.exchange.offers_websocket:
            text = "/v1/realtime is a WebSocket: open it with an Upgrade handshake, over HTTP/1.1"
            raise ClientError(text, code="upgrade_required", status=426, headers={"upgrade": "websocket"})
        query, default = context.exchange.query, caller.key.defaults.model
        named = model_of_query(query, needs_model=default is None)
        model = named or str(default)
        serve = self._flow.settings.names.resolve(model, caller.may_use)
        context.share = caller.share
        context.decision.model = model
        context.decision.candidates = [Candidate(serve.name)]
        context.decision.serve = serve.name
        context.reply.set_header(b"x-stoker-serve", serve.name.encode())

        def path(target: Target) -> str:
            own = target.served_name or serve.served_name or model
            asked = with_model(query, own) if named else b"&".join((b"model=" + quote(own).encode(), query))
            return f"/v1/realtime?{asked.decode('latin-1')}"

        await self._flow.tunnel(context, caller, serve, path)
