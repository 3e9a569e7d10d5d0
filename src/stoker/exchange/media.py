"""Makes upstream requests of audio and images whose body is no JSON object."""

from __future__ import annotations

import msgspec

from stoker.domain.lease import Target
from stoker.exchange.call import Call
from stoker.exchange.formatter import UpstreamRequest
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


def encode_media(call: Call, request: UpstreamRequest, target: Target) -> EncodedMedia:
    """The request as it came, but for the model's name, which becomes the serve's own, and the serve's parameters in a
    form.
    """
    is_renamed = request.fields.model != target.served_name
    notes = (*request.notes, *(("model",) if is_renamed else ()))
    path, headers = request.endpoint.path, call.sent_headers
    if call.upload is not None:
        body, changes = call.upload.edited(target.served_name if is_renamed else None, request.parameters)
        head = request_head(b"POST", path, target, headers, body.size, plain=False)
        return EncodedMedia(head, body, (*notes, *changes))
    query = with_model(call.wire.query, target.served_name) if is_renamed else call.wire.query
    path = f"{path}?{query.decode('latin-1')}" if query else path
    return EncodedMedia(request_head(b"GET", path, target, headers, 0, plain=False), b"", notes)
