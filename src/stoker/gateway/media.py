"""Reads requests for audio and images whose body is no JSON object."""

from __future__ import annotations

from stoker.domain.dialect import Endpoint, RequestForm
from stoker.domain.errors import ClientError
from stoker.domain.usage import MediaUnits
from stoker.exchange.call import Call
from stoker.gateway.settings import FlowSettings
from stoker.request.accept.upload import Upload
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.media_units import units_of_body, units_of_form
from stoker.request.codec.model_query import model_of_query


async def read_media_fields(call: Call, endpoint: Endpoint, settings: FlowSettings) -> BodyFields:
    """What the request says. Raises ClientError 400, 413 or 415, CapacityError 503, or ClientLeft. If it is a form, it
    is `call.upload` from here on, which the caller has to close.
    """
    if endpoint.form is RequestForm.MULTIPART:
        call.upload = upload = Upload(settings.spool)
        await upload.receive(call.wire, settings.front_door.upload_limit, call.run_blocking)
        call.raise_if_ended()
        stream = upload.fields.get("stream")
        is_stream = stream is not None and stream.text.lower() in ("true", "1")
        return BodyFields(model=upload.fields["model"].text, stream=is_stream)
    headers = call.wire.headers
    if b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0":
        raise ClientError(f"GET {endpoint.path} takes no body", code="unexpected_body")
    return BodyFields(model=model_of_query(call.wire.query), stream=False)


def requested_units(call: Call, endpoint: Endpoint, body: bytes) -> MediaUnits | None:
    """What the request asks for; None: it makes nothing."""
    if not endpoint.generates:
        return None
    if call.upload is not None:
        return units_of_form(endpoint.dialect, {name: field.text for name, field in call.upload.fields.items()})
    return units_of_body(endpoint.dialect, body)
