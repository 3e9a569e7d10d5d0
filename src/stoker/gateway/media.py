"""Reads requests for audio and images: JSON, forms with files, and listings without a body.

A key's defaults are for text and do not apply here.
"""

from __future__ import annotations

from functools import partial

from stoker.access.caller import Caller
from stoker.domain.decision import Decision
from stoker.domain.dialect import Endpoint, RequestForm
from stoker.domain.errors import ClientError
from stoker.domain.usage import MediaUnits
from stoker.exchange.request_context import RequestContext
from stoker.gateway.settings import FlowSettings
from stoker.request.accept.connection import wait_for_body
from stoker.request.accept.upload import Upload
from stoker.request.codec.body_fields import BodyFields, read_body_fields
from stoker.request.codec.bounds import HEAVY, is_heavy
from stoker.request.codec.edits import with_model_field
from stoker.request.codec.media import units_of_body, units_of_form
from stoker.request.codec.model_query import model_of_query


async def read_media(
    context: RequestContext, caller: Caller, endpoint: Endpoint, settings: FlowSettings
) -> tuple[BodyFields, bytes]:
    """The fields of the request, and its body if that is JSON, else an empty one. A form is then in `call.upload`,
    which the caller has to close.

    Raises ClientError 400, 413 or 415, CapacityError 503, or ClientLeft.
    """
    match endpoint.form:
        case RequestForm.MULTIPART:
            return await _read_form(context, caller, settings), b""
        case RequestForm.QUERY:
            return _read_query(context, caller, endpoint, settings), b""
        case RequestForm.JSON:
            return await _read_json(context, caller, endpoint, settings)


def requested_units(context: RequestContext, endpoint: Endpoint, body: bytes) -> MediaUnits | None:
    """How much the request asks for; None if it generates nothing."""
    if not endpoint.generates:
        return None
    if context.upload is not None:
        return units_of_form(endpoint.dialect, {name: field.text for name, field in context.upload.fields.items()})
    return units_of_body(endpoint.dialect, body)


async def _read_form(context: RequestContext, caller: Caller, settings: FlowSettings) -> BodyFields:
    context.upload = upload = Upload(settings.spool)
    check = partial(_check_model, context, caller, settings)
    await upload.receive(context.exchange, settings.front_door.upload_limit, context.run_blocking, check)
    context.raise_if_ended()
    stream = upload.fields.get("stream")
    is_stream = stream is not None and stream.text.lower() in ("true", "1")
    return BodyFields(model=upload.fields["model"].text, stream=is_stream)


def _check_model(context: RequestContext, caller: Caller, settings: FlowSettings, model: str) -> None:
    """Refuses a model that this caller may not use, without waiting for the rest of the form."""
    if context.exchange.is_whole or model == "":
        return
    try:
        settings.names.resolve(model, caller.may_use)
    except ClientError:
        decision: Decision = context.decision
        decision.model = model[:200]
        context.exchange.close_after()  # the rest is not read
        raise


def _read_query(context: RequestContext, caller: Caller, endpoint: Endpoint, settings: FlowSettings) -> BodyFields:
    headers = context.exchange.headers
    if b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0":
        raise ClientError(f"GET {endpoint.path} takes no body", code="unexpected_body")
    model = model_of_query(context.exchange.query, needs_model=not endpoint.may_lack_model)
    return BodyFields(model=model or _only_serve(caller, endpoint, settings), stream=False)


async def _read_json(
    context: RequestContext, caller: Caller, endpoint: Endpoint, settings: FlowSettings
) -> tuple[BodyFields, bytes]:
    limit = settings.front_door.body_limit
    body = context.exchange.take_whole_body(limit)
    if not body:
        await wait_for_body(context.exchange, limit)
        context.is_heavy = context.exchange.received >= HEAVY
        body = await context.process(context.exchange.take_body)
    context.is_heavy = is_heavy(body)
    fields = await context.process(read_body_fields, body, False, settings.front_door, not endpoint.may_lack_model)
    if not fields.model:
        fields.model = _only_serve(caller, endpoint, settings)
        fields.model_at = None
        body = await context.process(with_model_field, body, fields.model)
        context.notes = ("default_model",)
    return fields, body


def _only_serve(caller: Caller, endpoint: Endpoint, settings: FlowSettings) -> str:
    """The name of the one serve that a request without a model can mean. Raises ClientError 400."""
    dialect = endpoint.dialect
    found = [serve.name for serve in settings.names.serves if dialect in serve.dialects and caller.may_use(serve)]
    if len(found) != 1:
        listed = f": {', '.join(found)}" if found else ""
        text = f"'model' is missing, and {len(found)} serves have the dialect {dialect}{listed}"
        raise ClientError(f"{text}; see GET /v1/models for the names", code="bad_model", param="model")
    return found[0]
