"""Whether work in flight moves. Pure.

Progress is anything that only work brings about: bytes that the serve sent, tokens and steps that the engine counted,
KV cache that filled. A new arrival is none, nor is a longer queue: both come to a wedged engine too.
"""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE = 3.0
"""How many times longer we wait where nothing tells that a long prompt is being worked on."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What an engine counts, as far as it says so; None: it does not. Any change is progress, but for the last two."""

    steps: float | None = None
    """llama.cpp's decode calls: these move during a long prompt too."""
    kv_use: float | None = None
    """Share of the KV cache in use, which fills during a long prompt."""
    prompt_tokens: float | None = None
    generated_tokens: float | None = None
    running: float | None = None
    queued: float | None = None

    def marks(self) -> tuple[float | None, ...]:
        return (self.steps, self.kv_use, self.prompt_tokens, self.generated_tokens)

    def tells_of_prompts(self) -> bool:
        """Whether an engine that is busy with a long prompt would show it."""
        return self.steps is not None or self.kv_use is not None


NO_COUNTERS = Counters()


@dataclass(frozen=True, slots=True)
class Work:
    """One look. `in_flight` counts requests that wait for the serve, not those whose client does not read."""

    in_flight: int
    relayed: int | None
    """Bytes that the serve has sent since it started; None: not counted."""
    counters: Counters = NO_COUNTERS


@dataclass(frozen=True, slots=True)
class Progress:
    """What the looks so far come to. `since` is the clock's time of the last progress, or of the work's beginning."""

    work: Work
    since: float
    moved: bool = False
    """Whether the last look saw progress."""


def advance(before: Progress | None, work: Work, now: float) -> Progress:
    """1 the first look, or no work: the time starts anew  2 something moved  3 nothing did"""
    if before is None or work.in_flight == 0 or before.work.in_flight == 0:  # 1
        return Progress(work, now, before is not None and _moved(before.work, work))
    if _moved(before.work, work):  # 2
        return Progress(work, now, True)
    return Progress(_last_known(before.work, work), before.since)  # 3


def without_progress(progress: Progress, now: float) -> float | None:
    """Seconds; None: there is no work."""
    return now - progress.since if progress.work.in_flight else None


def patience(stall: float, counters: Counters) -> float:
    """Seconds without progress that are too long.

    `stall` where the engine itself says that it has work and would show progress with a long prompt. PATIENCE times
    that where it does not say: an engine that prefills sends nothing.
    """
    has_work = bool(counters.running) or bool(counters.queued)
    return stall if has_work and counters.tells_of_prompts() else PATIENCE * stall


def _moved(before: Work, now: Work) -> bool:
    if before.relayed is not None and now.relayed is not None and before.relayed != now.relayed:
        return True
    pairs = zip(before.counters.marks(), now.counters.marks(), strict=True)
    return any(old is not None and new is not None and old != new for old, new in pairs)


def _last_known(before: Work, now: Work) -> Work:
    """A look without counters must not hide what the next one shows: the older ones are kept to compare with."""
    return Work(
        now.in_flight,
        before.relayed if now.relayed is None else now.relayed,
        before.counters if now.counters == NO_COUNTERS else now.counters,
    )
