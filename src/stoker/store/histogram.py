"""Histograms as two plain values: counts per bucket, and a sum."""

from __future__ import annotations

from bisect import bisect_left

REQUEST_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds. From a cached embedding to an agent's longest answer; queue waits and TTFT fit the same bounds."""
SWAP_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
"""Seconds. From a tiny model in the page cache to hundreds of gigabytes from a slow disk."""


class Histogram:
    """Not locked: one thread observes. `buckets` may run in another, and then misses at most the newest value."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; one that equals a bound belongs to that bound's bucket."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and cumulative count, the last one `+Inf`: the form that Prometheus wants."""
        counts = self.counts.copy()
        names = [*(str(bound) for bound in self.bounds), "+Inf"]
        total = 0
        made: list[tuple[str, float]] = []
        for name, count in zip(names, counts, strict=True):
            total += count
            made.append((name, float(total)))
        return made
