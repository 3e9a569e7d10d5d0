"""Makes upstream requests of audio and images whose body is no JSON object."""

from __future__ import annotations

import msgspec

from stoker.domain.lease import Target
from stoker.exchange.formatter import UpstreamRequest
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.model_query import with_model
from stoker.request.relay.headers import request_head
from stoker.request.relay.pool import StreamedBody


class EncodedMedia(msgspec.Struct, frozen=True):
    """One upstream request, as `formatter.EncodedRequest`. The answer passes through."""

    head: bytes
    body: bytes | StreamedBody
    notes: tuple[str, ...]
    remove_usage: bool = False
    translator: None = None


def encode_media(context: RequestContext, request: UpstreamRequest, target: Target) -> EncodedMedia:
    """The request as it came, but for the model's name, which becomes the serve's own, and the serve's parameters in a
    form.
    """
    is_renamed = request.fields.model != target.served_name
    notes = (*request.notes, *(("model",) if is_renamed else ()))
    path, headers = request.endpoint.path, context.sent_headers
    if context.upload is not None:
        body, changes = context.upload.edited(target.served_name if is_renamed else None, request.parameters)
        head = request_head(b"POST", path, target, headers, body.size, plain=False)
        return EncodedMedia(head, body, (*notes, *changes))
    query = with_model(context.exchange.query, target.served_name) if is_renamed else context.exchange.query
    path = f"{path}?{query.decode('latin-1')}" if query else path
    return EncodedMedia(request_head(b"GET", path, target, headers, 0, plain=False), b"", notes)
