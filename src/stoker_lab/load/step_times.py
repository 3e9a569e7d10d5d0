"""How long steps of a benchmark take, from what was measured so far. Pure."""

from __future__ import annotations

import math

from stoker_lab.load.presets import BenchmarkStep
from stoker_lab.load.replay import arrivals

_SCALING = 0.5
"""Of a rate, with the clients: between an engine that answers one after the other (0) and all at once (1)."""


class StepTimes:
    """Feed it with the first request and with each step, in order."""

    def __init__(self) -> None:
        self._rates: dict[int, float] = {}
        """Output tokens a second by clients, the steps' own time between requests included."""

    def on_request(self, seconds: float, output: int) -> None:
        """A single request was answered with `output` tokens. A step with one client says more."""
        self._rates.setdefault(1, output / max(seconds, 1e-3))

    def on_step(self, step: BenchmarkStep, requests: int, seconds: float) -> None:
        """A step took so long for its requests, the warm-up included."""
        if requests and not step.is_open:
            self._rates[step.clients] = requests * step.output / max(seconds, 1e-3)

    def expected(self, step: BenchmarkStep, speed: float = 1.0) -> float | None:
        """Seconds; None: nothing was measured. `speed`: of a replay.

        Warm-up, then as long as it has to be, or as its requests take, if that is longer; then the requests that run.
        """
        alone = self._request(step, 1)
        if alone is None:
            return None
        if step.trace:
            return arrivals(step.trace, speed)[-1] + alone
        if step.rate is not None:
            return step.warm_up * alone + max(step.length.seconds, step.length.requests / step.rate) + alone
        each = self._request(step, step.clients) or alone
        rounds = math.ceil(step.warm_up / step.clients)
        measured = max(step.length.seconds, math.ceil(step.length.requests / step.clients) * each)
        return rounds * each + math.ceil(measured / each) * each

    def _request(self, step: BenchmarkStep, clients: int) -> float | None:
        """Seconds that one request takes beside the others, by the nearest number of clients that was measured."""
        if not self._rates:
            return None
        near = min(self._rates, key=lambda known: abs(math.log(known / clients)))
        rate = self._rates[near] * math.pow(clients / near, _SCALING)
        return clients * step.output / rate
