"""Applies a serve's request parameters to a form. Parts that are not named keep their bytes, and files theirs.

A parameter replaces every part of its name, a file too. New parts stand at the front, before any file.
The words for each change are those of `request_parameters`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from stoker.domain.errors import ClientError
from stoker.domain.request_parameters import RequestParameters
from stoker.request.codec.multipart import FormPart


class FormEdit(NamedTuple):
    """These bytes of the form, and what stands there instead."""

    start: int
    end: int
    replacement: bytes


def edit_form(
    parts: Iterable[FormPart], boundary: bytes, parameters: RequestParameters
) -> tuple[list[FormEdit], tuple[str, ...]]:
    """The edits, by their offsets, and what they change. Raises ClientError 400 if a value holds the boundary."""
    removed = {*parameters.drop, *parameters.set}
    found = list(parts)
    edits = [FormEdit(part.begin, part.end, b"") for part in found if part.name in removed]
    present = {part.name for part in found}
    left = present.difference(removed)
    added = {name: value for name, value in parameters.default.items() if name not in left} | dict(parameters.set)
    if added:
        edits.insert(0, FormEdit(0, 0, b"".join(_part(name, value, boundary) for name, value in added.items())))
    return edits, tuple(
        f"set:{name}" if name in parameters.set else f"default:{name}" if name in added else f"dropped:{name}"
        for name in parameters.names()
        if name in added or (name in present and name in removed)
    )


def _part(name: str, value: Any, boundary: bytes) -> bytes:
    """The name is ASCII without quotes and backslashes, as the configuration file has it."""
    content = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    if b"--" + boundary in content:
        text = f"the boundary of the form occurs in the value that the serve has for '{name}': use another boundary"
        raise ClientError(text, code="bad_form")
    return b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (boundary, name.encode(), content)
