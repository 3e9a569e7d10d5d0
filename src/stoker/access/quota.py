"""What a key, or all keys of an application together, may use, and what one request reserves of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.access.limits import Account, Amounts
from stoker.domain.errors import ClientError
from stoker.domain.figures import counted
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

    __slots__ = ("_has_changed", "account", "active", "max_active")

    def __init__(self, account: Account, max_active: int | None = None) -> None:
        self.account = account
        self.active = 0
        self.max_active = max_active
        self._has_changed = False

    def configure(self, limits: UsageLimits, max_active: int | None) -> None:
        """What was used, and requests under way, go on counting."""
        self.account.configure(limits)
        self.max_active = max_active

    @property
    def is_limited(self) -> bool:
        return self.max_active is not None or self.account.has_limits

    def check(self, at: float) -> None:
        """Raises ClientError 429 if no further request may begin."""
        if self.max_active is not None and self.active >= self.max_active:
            running = counted(self.max_active, "request")
            text = f"{self.account.owner} already runs {running}, its max_active"
            raise ClientError(text, code="key_limit", status=429, retry_after=1.0)
        self.account.check_request(at)

    def enter(self) -> None:
        self.active += 1
        self._has_changed = True
        self.account.add_request()

    def leave(self) -> None:
        self.active -= 1
        self._has_changed = True

    def changes(self) -> dict[str, tuple[float, float]]:
        """The account's `snapshot`, if anything has changed since the last call; else empty."""
        has_changed, self._has_changed = self._has_changed, False
        return self.account.snapshot() if has_changed else {}


class Charge:
    """What one request has reserved. `settle` has to be called once, however the request ends."""

    __slots__ = ("_at", "_cost", "_now", "_output", "_prompt", "_quotas")

    def __init__(self, quotas: Sequence[Quota], now: Callable[[], float]) -> None:
        """Count the request in. Raises ClientError 429, and counts nothing then."""
        self._quotas = quotas
        self._now = now
        self._at = at = now()
        self._prompt = self._output = 0
        self._cost = 0.0
        for quota in quotas:
            quota.check(at)
        for quota in quotas:
            quota.enter()

    def reserve_tokens(self, body_bytes: int, output_budget: int | None) -> None:
        """Reserve tokens for the prompt, by its size, and for the answer: its ceiling, or what is left if that is less.

        Raises ClientError 429, or 413 if the request can never fit; nothing is reserved then.
        """
        prompt = body_bytes // BYTES_PER_TOKEN
        output = ASSUMED_OUTPUT if output_budget is None else max(output_budget, 1)
        for quota in self._quotas:
            left = quota.account.output_left(prompt, self._at)
            if left < output:
                output = int(left)
        for quota in self._quotas:
            quota.account.add_tokens(prompt, output)
        self._prompt, self._output = prompt, output

    def reserve_round(self, used: Amounts, body_bytes: int, output_budget: int | None, must_fit: bool = True) -> bool:
        """The same request goes on with another round: put what the earlier ones used in the place of what was
        reserved, and reserve for this one as `reserve_tokens`. False: it does not fit, and nothing is reserved for it.
        """
        prompt = body_bytes // BYTES_PER_TOKEN
        output = ASSUMED_OUTPUT if output_budget is None else max(output_budget, 1)
        self._correct(used.input, used.output)
        try:
            for quota in self._quotas:
                output = int(min(output, quota.account.output_left(prompt, self._now())))
        except ClientError:
            if must_fit:
                return False
        self._correct(used.input + prompt, used.output + output)
        return True

    def _correct(self, prompt: int, output: int) -> None:
        for quota in self._quotas:
            quota.account.correct(prompt - self._prompt, output - self._output, 0.0, self._at)
        self._prompt, self._output = prompt, output

    def reserve_cost(self, amount: float) -> None:
        """Reserve money for a cloud. Raises as `reserve_tokens`."""
        self.spend(amount)
        self._cost += amount

    def spend(self, amount: float) -> float:
        """Money for a call of a tool, which no serve counts, and when that was. Raises as `reserve_tokens`."""
        at = self._now()
        for quota in self._quotas:
            quota.account.check_cost(amount, at)
        for quota in self._quotas:
            quota.account.add_cost(amount)
        return at

    def refund(self, amount: float, spent_at: float) -> None:
        """The call costs nothing. A window that began since it was spent stays as it is."""
        for quota in self._quotas:
            quota.account.correct(0, 0, -amount, spent_at)

    def settle(self, used: Amounts) -> None:
        """Replace everything that was reserved by what was used, and count the request out. What was spent stays."""
        prompt, output, cost = used.input - self._prompt, used.output - self._output, used.cost - self._cost
        for quota in self._quotas:
            quota.leave()
            quota.account.correct(prompt, output, cost, self._at)
