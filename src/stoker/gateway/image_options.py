"""POST /sdapi/v1/options: clients of the Stable Diffusion web UI (Open WebUI among them) choose a model with it.

Stoker keeps no options between requests, because they would be everybody's. It answers a choice that changes nothing:
of the only serve with the dialect `image`, which also answers requests without a `model`.
"""

from __future__ import annotations

import msgspec

from stoker.access.caller import Caller
from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.request.decide.names import Names

DONE = b"null"
"""The answer of the web UI."""


class _Options(msgspec.Struct):
    sd_model_checkpoint: str | None = None


_decode = msgspec.json.Decoder(_Options).decode


def check_options(body: bytes, caller: Caller, names: Names) -> None:
    """Raises ClientError 400: the options would have to be kept, or are no JSON object."""
    try:
        wanted = _decode(body).sd_model_checkpoint
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError(f"the options cannot be read: {error}", code="bad_json") from None
    usable = [one for one in names.serves if Dialect.IMAGE in one.dialects and caller.may_use(one)]
    chosen = None if wanted is None else names.find(wanted, caller.may_use)
    if chosen is not None and [one.name for one in usable] == [chosen.name]:
        return
    known = ", ".join(one.name for one in usable) or "none"
    text = (
        "Stoker keeps no options between requests: send the 'model' with each request, and other options in its "
        f"'override_settings'; the models for images are: {known}"
    )
    raise ClientError(text, code="options_not_kept", param="sd_model_checkpoint")
