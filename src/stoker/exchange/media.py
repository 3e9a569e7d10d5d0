"""Makes upstream requests of audio and images whose body is no JSON object."""

from __future__ import annotations

from stoker.domain.lease import Target
from stoker.exchange.formatter import EncodedRequest, UpstreamRequest
from stoker.request.accept.wire import Wire
from stoker.request.codec.model_query import with_model
from stoker.request.relay.headers import request_head


def encode_media(request: UpstreamRequest, target: Target, wire: Wire) -> EncodedRequest:
    """The request as it came; only the model's name becomes the serve's own."""
    is_renamed = request.fields.model != target.served_name
    query = with_model(wire.query, target.served_name) if is_renamed else wire.query
    path = f"{request.endpoint.path}?{query.decode('latin-1')}"
    head = request_head(b"GET", path, target, wire.raw_headers, 0, plain=False)
    return EncodedRequest(head, b"", False, ("model",) if is_renamed else (), None)
