"""What a key, or all keys of an application together, may use, and what one request reserves of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.access.limits import Account, Amounts, Reservation, check_all
from stoker.domain.errors import ClientError
from stoker.domain.key import UsageLimits
from stoker.domain.tier import Cost

BYTES_PER_TOKEN = 4
"""Of a prompt that nobody has counted yet."""
ASSUMED_OUTPUT = 1024
"""Tokens reserved for an answer without a ceiling."""


def expected_cost(price: Cost, body_bytes: int, output_budget: int | None) -> float:
    """Money for a cloud, by the size of the request and its ceiling for output."""
    return price.of(body_bytes // BYTES_PER_TOKEN, ASSUMED_OUTPUT if output_budget is None else max(output_budget, 1))


class Quota:
    """The counters of one key or one application, and its requests under way. It outlives a reload."""

    __slots__ = ("account", "active", "max_active")

    def __init__(self, account: Account, max_active: int | None = None) -> None:
        self.account = account
        self.active = 0
        self.max_active = max_active

    def configure(self, limits: UsageLimits, max_active: int | None) -> None:
        """What was used, and requests under way, go on counting."""
        self.account.configure(limits)
        self.max_active = max_active

    def enter(self) -> None:
        self.active += 1

    def leave(self) -> None:
        self.active -= 1

    @property
    def is_limited(self) -> bool:
        return self.max_active is not None or self.account.has_limits

    def check_active(self) -> None:
        """Raises ClientError 429 if as many requests run as may."""
        if self.max_active is not None and self.active >= self.max_active:
            text = f"{self.account.owner} already runs {self.max_active} requests, its max_active"
            raise ClientError(text, code="key_limit", status=429, retry_after=1.0)


class Charge:
    """What one request has reserved. `settle` has to be called once, however the request ends."""

    __slots__ = ("_now", "_quotas", "_reserved")

    def __init__(self, quotas: Sequence[Quota], now: Callable[[], float]) -> None:
        """Count the request in. Raises ClientError 429 (413 if it can never fit), and counts nothing then."""
        self._quotas = quotas
        self._now = now
        at = now()
        for quota in quotas:
            quota.check_active()
        request = Amounts(requests=1)
        check_all((quota.account for quota in quotas), request, at)
        for quota in quotas:
            quota.enter()
        self._reserved = [self._reserve(request, at)]

    def reserve_tokens(self, body_bytes: int, output_budget: int | None) -> None:
        """Reserve tokens for the prompt, by its size, and for the answer: its ceiling, or what is left if that is less.

        Raises as the constructor.
        """
        at = self._now()
        prompt = body_bytes // BYTES_PER_TOKEN
        left = min((quota.account.output_left(prompt, at) for quota in self._quotas), default=float("inf"))
        wanted = ASSUMED_OUTPUT if output_budget is None else max(output_budget, 1)
        self._add(Amounts(input=prompt, output=max(1, int(min(wanted, left)))), at)

    def reserve_cost(self, amount: float) -> None:
        """Reserve money for a cloud. Raises as the constructor."""
        self._add(Amounts(cost=amount), self._now())

    def settle(self, used: Amounts) -> None:
        """Replace everything that was reserved by what was used, and count the request out."""
        for quota in self._quotas:
            quota.leave()
        whole, rest = self._reserved[0], self._reserved[1:]
        for reservations in rest:
            for quota, reservation in zip(self._quotas, reservations, strict=True):
                quota.account.settle(reservation, Amounts())
        for quota, reservation in zip(self._quotas, whole, strict=True):
            quota.account.settle(reservation, used._replace(requests=1))

    def _add(self, need: Amounts, at: float) -> None:
        check_all((quota.account for quota in self._quotas), need, at)
        self._reserved.append(self._reserve(need, at))

    def _reserve(self, need: Amounts, at: float) -> list[Reservation]:
        return [quota.account.reserve(need, at) for quota in self._quotas]
