"""Statistics of pass and fail. Pure; each with its source.

kappa    how far two raters agree beyond chance (Cohen 1960)
wilson   an interval for a rate that was seen (Wilson 1927): for showing, not for deciding while one looks on
Sprt     allow or deny, decided as soon as the data suffice (Wald 1945)
Cusum    the alarm that a rate of failures has risen (Page 1954, Bernoulli form)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from stoker.domain import tier

Z95 = 1.959964
"""Standard deviations around the mean that contain 95 % of a normal distribution."""


class Interval(NamedTuple):
    low: float
    high: float


def wilson(passed: float, n: int, z: float = Z95) -> Interval:
    """Where the true rate lies, two-sided. n = 0: anywhere.

    `passed` may be a sum of scores from 0 to 1: of all with that mean, passes and failures scatter most, so it is too
    wide rather than too narrow.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    rate, zz = passed / n, z * z
    middle = (rate + zz / (2 * n)) / (1 + zz / n)
    half = z * math.sqrt(rate * (1 - rate) / n + zz / (4 * n * n)) / (1 + zz / n)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def kappa(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """(p_o - p_e) / (1 - p_e): p_o is the share of pairs that agree, p_e the share that would by chance, if each rater
    said yes as often as it does. 1: always; 0: as by chance. None: both say only one thing, or there are no pairs.

    Cohen, A Coefficient of Agreement for Nominal Scales, Educational and Psychological Measurement 20 (1960) 37-46.
    """
    n = len(pairs)
    one, other = sum(a for a, _ in pairs), sum(b for _, b in pairs)
    by_chance = one * other + (n - one) * (n - other)  # times n * n: whole numbers are exact
    if by_chance == n * n:
        return None
    agreed = sum(a == b for a, b in pairs)
    return (agreed * n - by_chance) / (n * n - by_chance)


class SprtResult(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    UNDECIDED = "undecided"


ROW_VERDICTS = {
    SprtResult.ALLOW: tier.Verdict.ALLOW, SprtResult.DENY: tier.Verdict.DENY,
    SprtResult.UNDECIDED: tier.Verdict.VERIFY,
}  # fmt: skip
"""What a result of the test means for routing."""


class Sprt:
    """Wald's sequential test of a pass rate: at most `bad` (deny) against at least `good` (allow).

    `error`: the chance of a wrong result, either way. Ends undecided after `most` samples: by default twice what a
    fixed sample of the same errors would take. Each sample is fed once; a result stays.
    """

    __slots__ = ("_fail", "_high", "_low", "_pass", "_sum", "most", "n", "passed", "result")

    def __init__(self, bad: float = 0.85, good: float = 0.95, error: float = 0.05, most: int | None = None) -> None:
        if not 0 < bad < good < 1 or not 0 < error < 0.5:
            raise ValueError("needs 0 < bad < good < 1 and 0 < error < 0.5")
        self._pass = math.log(good / bad)
        self._fail = math.log((1 - good) / (1 - bad))
        self._high = math.log((1 - error) / error)
        self._low = -self._high
        self._sum = 0.0
        self.n = self.passed = 0
        self.most = most if most is not None else 2 * fixed_sample(bad, good, error)
        self.result = SprtResult.UNDECIDED

    def feed(self, passed: bool) -> SprtResult:
        """One more sample."""
        if self.result is not SprtResult.UNDECIDED:
            return self.result
        self.n += 1
        self.passed += passed
        self._sum += self._pass if passed else self._fail
        if self._sum >= self._high:
            self.result = SprtResult.ALLOW
        elif self._sum <= self._low:
            self.result = SprtResult.DENY
        return self.result

    def result_for(self, passed: int, n: int) -> SprtResult:
        """What these counts say, in whatever order they came. Feeds nothing.

        Unlike `feed` it may change its mind with more samples. However often one looks, the chance that it ever says
        `allow` of a bad one, or `deny` of a good one, is at most error / (1 - error) (Ville 1939: under either
        hypothesis the ratio of the likelihoods is a martingale).
        """
        sum = passed * self._pass + (n - passed) * self._fail
        if sum >= self._high:
            return SprtResult.ALLOW
        return SprtResult.DENY if sum <= self._low else SprtResult.UNDECIDED

    @property
    def is_over(self) -> bool:
        """Whether another sample would change nothing: it is decided, or has gone on for long enough."""
        return self.result is not SprtResult.UNDECIDED or self.n >= self.most


def fixed_sample(bad: float, good: float, error: float) -> int:
    """Samples that a test of fixed size takes for the same errors (normal approximation)."""
    z = _quantile(1 - error)
    spread = math.sqrt(bad * (1 - bad)) + math.sqrt(good * (1 - good))
    return math.ceil((z * spread / (good - bad)) ** 2)


class Cusum:
    """Raises an alarm when failures, usually `usual` of all, have come to `worse`. `limit`: how sure it has to be.

    With 0.02, 0.08 and limit 4 it gives one false alarm in about 2,500 and finds 8 % within about 70.
    """

    __slots__ = ("_fail", "_pass", "limit", "n", "value")

    def __init__(self, usual: float = 0.02, worse: float = 0.08, limit: float = 4.0) -> None:
        self._fail = math.log(worse / usual)
        self._pass = math.log((1 - worse) / (1 - usual))
        self.limit = limit
        self.value = 0.0
        self.n = 0

    def feed(self, failed: bool) -> bool:
        """One more; whether the alarm is raised. It stays until `reset`."""
        self.n += 1
        if self.value < self.limit:
            self.value = max(0.0, self.value + (self._fail if failed else self._pass))
        return self.value >= self.limit

    def reset(self) -> None:
        self.value, self.n = 0.0, 0


MIN_SAMPLES = {0.99: 300, 0.95: 60, 0.9: 30}
"""Samples from which on a percentile says more than the maximum does: at n >= 299 the maximum lies above the true p99
with 95 % chance, and so on (1 - p**n >= 0.95)."""


def percentile(values: Sequence[float], share: float) -> float | None:
    """By linear interpolation between closest ranks. None: nothing is there."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percentile_if_enough(values: Sequence[float], share: float) -> float | None:
    """The percentile, where there are samples enough for it; else None."""
    return percentile(values, share) if len(values) >= MIN_SAMPLES.get(share, 1) else None


def _quantile(share: float) -> float:
    """Of the normal distribution, by bisection on the error function."""
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        if 0.5 * (1 + math.erf(middle / math.sqrt(2))) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2
