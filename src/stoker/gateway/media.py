"""Reads requests for audio and images whose body is no JSON object."""

from __future__ import annotations

from stoker.domain.dialect import Endpoint
from stoker.domain.errors import ClientError
from stoker.exchange.call import Call
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.model_query import model_of_query


async def read_media_fields(call: Call, endpoint: Endpoint) -> BodyFields:
    """What the request says. Raises ClientError 400."""
    headers = call.wire.headers
    if b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0":
        raise ClientError(f"GET {endpoint.path} takes no body", code="unexpected_body")
    return BodyFields(model=model_of_query(call.wire.query), stream=False)
