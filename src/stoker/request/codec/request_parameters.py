"""Applies a serve's request parameters to a body in the engine's dialect. Fields that are not named keep their bytes.

Each change has a word, which the client sees in `x-stoker-translation`:

set:NAME        the field has the serve's value
default:NAME    the request left the field out, or gave null
dropped:NAME    the field was removed
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.request_parameters import RequestParameters
from stoker.request.codec.body_fields import BodyFields, locate_all
from stoker.request.codec.edits import put, remove

_READ = ("max_tokens", "max_completion_tokens", "max_output_tokens", "stream_options")
"""Fields of `BodyFields` that later steps read, and that parameters may change."""


def apply_parameters(
    body: bytes, fields: BodyFields, parameters: RequestParameters
) -> tuple[bytes, BodyFields, tuple[str, ...]]:
    """The body, its fields (a copy if anything changed), and what was changed. `fields` is what `read_body_fields`
    returned for `body`. A field that the client gave twice is changed in every place.

    The names are ASCII without quotes and backslashes, as the configuration file has them. The client's
    engine-private fields count as missing: they never reach an engine.
    """
    names = parameters.names()
    has_escapes = b"\\u00" in body
    present = [name for name in names if has_escapes or b'"%s"' % name.encode() in body]
    places = locate_all(body, present) if present else []
    changes = dict.fromkeys(names, "")
    done: set[str] = set()
    for name, key, start, end in reversed(places):  # back to front, so that earlier offsets stay valid
        value = _value(name, body[start:end], fields, parameters)
        if value is None or name in done:
            body = remove(body, key, end)
            changes[name] = changes[name] or f"dropped:{name}"
        elif value != body[start:end]:
            body = put(body, start, end, value)
            changes[name] = f"set:{name}" if name in parameters.set else f"default:{name}"
        if value is not None:
            done.add(name)
    added = {**parameters.default, **parameters.set}
    missing = {name: value for name, value in added.items() if name not in done}
    if missing:
        at = body.index(b"{") + 1
        body = put(body, at, at, msgspec.json.encode(missing)[1:-1] + b",")
        changes |= {name: f"set:{name}" if name in parameters.set else f"default:{name}" for name in missing}
    notes = tuple(change for change in changes.values() if change)
    return (body, _copied(fields, parameters), notes) if notes else (body, fields, ())


def _value(name: str, given: bytes, fields: BodyFields, parameters: RequestParameters) -> bytes | None:
    """The field's new value; None: the field is removed."""
    if name in parameters.set:
        return msgspec.json.encode(parameters.set[name])
    is_removed = name in parameters.drop or name in fields.private or given == b"null"
    if name in parameters.default and is_removed:
        return msgspec.json.encode(parameters.default[name])
    return None if name in parameters.drop else given


def _copied(fields: BodyFields, parameters: RequestParameters) -> BodyFields:
    """The fields of the changed body."""
    copied = fields.copy()
    copied.model_at = None
    copied.may_have_options = True
    copied.private = tuple(name for name in fields.private if name not in parameters.names())
    for name in _READ:
        setattr(copied, name, _final(getattr(fields, name), name, parameters))
    return copied


def _final(given: Any, name: str, parameters: RequestParameters) -> Any:
    if name in parameters.set:
        return parameters.set[name]
    left = None if name in parameters.drop else given
    return parameters.default.get(name) if left is None else left
