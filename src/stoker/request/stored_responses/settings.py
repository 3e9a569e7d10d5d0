"""What a client is told that uses stored responses where nothing is stored."""

from __future__ import annotations

from stoker.domain.errors import ClientError

SETTING = "`store = true` under [responses] in the configuration"


def not_stored(what: str, status: int = 404) -> ClientError:
    """The error for a path or a field that needs the store. `what` begins the message."""
    text = f"{what} needs stored responses, and this Stoker stores none: whoever runs it can set {SETTING}"
    return ClientError(text, code="responses_not_stored", status=status)
