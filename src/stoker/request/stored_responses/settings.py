"""The errors of paths and fields that need stored responses where nothing is stored."""

from __future__ import annotations

from stoker.domain.errors import ClientError

SETTING = "`store = true` under [responses] in the configuration"


def not_stored(path: str) -> ClientError:
    """The error of a path that needs the store."""
    return ClientError(_text(path), code="responses_not_stored", status=404)


def not_stored_field(name: str) -> ClientError:
    """The error of a request whose field `name` needs the store."""
    return ClientError(_text(f"'{name}'"), code="stateful", param=name)


def _text(what: str) -> str:
    return f"{what} needs stored responses, and this Stoker stores none: whoever runs it can set {SETTING}"
