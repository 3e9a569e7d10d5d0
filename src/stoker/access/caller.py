"""A caller at run time: its key, and what runs with it."""

from __future__ import annotations

from stoker.domain.errors import ClientError
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Serve


class Caller:
    """A key at run time."""

    __slots__ = ("_may_use_all", "active", "key")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.active = 0
        self._may_use_all = "*" in key.models

    def enter(self) -> None:
        """Count one request in. Raises ClientError 429 when the key's own limit is reached."""
        limit = self.key.max_active
        if limit is not None and self.active >= limit:
            text = f"key '{self.key.name}' already runs {limit} requests, its max_active"
            raise ClientError(text, code="key_limit", status=429, retry_after=1.0)
        self.active += 1

    def leave(self) -> None:
        self.active -= 1

    def may_use(self, serve: Serve) -> bool:
        """Whether the key's list has one of the serve's names; and the key allows the cloud, if it is one."""
        if serve.translation.cloud and not self.key.cloud:
            return False
        return self._may_use_all or not set(serve.names()).isdisjoint(self.key.models)

    def may_use_task(self, model: str) -> bool:
        """Whether a request may name a task: `auto`, `auto:CLASS`, or an alias of one. `auto` on the key's
        list allows all of them."""
        return self._may_use_all or "auto" in self.key.models or model in self.key.models

    def may_use_name(self, name: str) -> bool:
        """Whether a name that is no serve is on the key's list: an orchestrator."""
        return self._may_use_all or name in self.key.models


def require(caller: Caller, scope: Scope) -> None:
    """Raises ClientError 403 when the key's scope is too small."""
    if caller.key.scope < scope:
        held, needed = caller.key.scope.name.lower(), scope.name.lower()
        text = f"key '{caller.key.name}' has scope {held}; this request needs {needed}"
        raise ClientError(text, code="scope", status=403)
