"""A caller at run time: its key, what it may use, and what runs with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from stoker.access.limits import Account, Amounts, Headers, LimitState, RateHeaders
from stoker.access.quota import Charge, Quota
from stoker.domain.errors import ClientError
from stoker.domain.key import Key, Priority, Scope
from stoker.domain.lease import FairShare
from stoker.domain.serve import Serve


class Caller:
    """A key at run time. `quotas`: what it counts against, its own and its application's."""

    __slots__ = ("_may_use_all", "_may_use_any", "_now", "_quotas", "_rate_headers", "active", "has_defaults",
                 "has_rules", "key", "name", "needs_model", "share")  # fmt: skip

    def __init__(self, key: Key, quotas: Sequence[Quota] | None = None, now: Callable[[], float] = time.time) -> None:
        """`now`: Unix seconds by which limits count."""
        if quotas is None:
            quotas = (Quota(Account(f"key '{key.name}'", key.limits), key.max_active),)
        self.key = key
        self.name = key.name
        """The key's."""
        self.needs_model = key.defaults.model is None
        """Whether its requests have to name a model."""
        self.active = 0
        self.share = FairShare(key.name, key.priority, key.weight)
        self.has_defaults = key.defaults.any() or key.max_output is not None
        """Whether its requests have to be edited."""
        self._may_use_all = "*" in key.models
        """Whether its list of models does not limit it."""
        self._may_use_any = self._may_use_all and key.cloud
        """Whether it may use every serve."""
        self._quotas = tuple(quota for quota in quotas if quota.is_limited)
        self.has_rules = bool(self._quotas) or key.context is not None or key.priority is Priority.BACKGROUND
        """Whether its requests reserve anything, have a smaller context, or stay in the background."""
        self._now = now
        self._rate_headers = RateHeaders(quota.account for quota in self._quotas)

    def enter(self) -> Charge | None:
        """Count one request in; None: nothing limits it. Raises ClientError 429 when a limit is reached."""
        charge = Charge(self._quotas, self._now) if self._quotas else None
        self.active += 1
        return charge

    def leave(self, charge: Charge | None, used: Amounts | None = None) -> None:
        """Count a request out. `used`: what it used instead of what was reserved; None: nothing."""
        self.active -= 1
        if charge is not None:
            charge.settle(used or Amounts())

    def limits(self) -> list[LimitState]:
        """Its limits now, and those of its application."""
        at = self._now() if self._quotas else 0.0
        return [state for quota in self._quotas for state in quota.account.states(at)]

    def rate_headers(self, is_messages: bool) -> Headers:
        """What clients are shown of its limits; see `RateHeaders`."""
        return self._rate_headers.at(self._now(), is_messages) if self._quotas else []

    def may_use_cloud(self) -> bool:
        """Whether `auto` may go to clouds: the key allows it, and has money left."""
        if not self.key.cloud:
            return False
        at = self._now() if self._quotas else 0.0
        return all(quota.account.has_money(at) for quota in self._quotas)

    def may_use(self, serve: Serve) -> bool:
        """Whether the key's list has a name or alias of the serve; and the key allows the cloud, if it is one."""
        if self._may_use_any:
            return True
        if serve.translation.cloud and not self.key.cloud:
            return False
        return self._may_use_all or not set(serve.names()).union(serve.alias_patterns).isdisjoint(self.key.models)

    def may_use_task(self, model: str) -> bool:
        """Whether a request may name a task: `auto`, `auto:CLASS`, or an alias of one. `auto` on the key's
        list allows all of them."""
        return self._may_use_all or "auto" in self.key.models or model in self.key.models

    def may_use_name(self, name: str) -> bool:
        """Whether a name that is no serve is on the key's list: an orchestrator."""
        return self._may_use_all or name in self.key.models

    def check_class(self, name: str) -> None:
        """Raises ClientError 403 if requests of this class may not be routed with the key."""
        if "*" not in self.key.classes and name not in self.key.classes:
            text = f"key '{self.key.name}' may not be used for work of class '{name}'; ask who runs this Stoker"
            raise ClientError(text, code="class_not_allowed", status=403)


def require(caller: Caller, scope: Scope) -> None:
    """Raises ClientError 403 when the key's scope is too small."""
    if caller.key.scope < scope:
        held, needed = caller.key.scope.name.lower(), scope.name.lower()
        text = f"key '{caller.key.name}' has scope {held}; this request needs {needed}"
        raise ClientError(text, code="scope", status=403)
