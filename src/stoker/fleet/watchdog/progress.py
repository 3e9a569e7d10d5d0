"""Whether work in flight moves. Pure.

Only work causes progress: bytes from the serve, tokens and steps that the engine counted, a KV cache that
fills. New arrivals and a longer queue are no progress: a wedged engine has them too.
"""

from __future__ import annotations

from dataclasses import dataclass

UNCERTAIN_FACTOR = 3.0
"""How many times longer to wait for an engine that does not show its progress on a long prompt."""
MEDIA_FACTOR = 15.0
"""The same for an engine of audio or images: it sends nothing until it has finished, which may take minutes."""


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """The counters of an engine; None: it has no such counter. A change is progress, except of the last two."""

    steps: float | None = None
    """llama.cpp's decode calls: they also move during a long prompt."""
    kv_use: float | None = None
    """Share of the KV cache in use, which fills during a long prompt."""
    prompt_tokens: float | None = None
    generated_tokens: float | None = None
    running: float | None = None
    queued: float | None = None

    def progress_values(self) -> tuple[float | None, ...]:
        return (self.steps, self.kv_use, self.prompt_tokens, self.generated_tokens)

    def shows_prompt_progress(self) -> bool:
        """Whether an engine that is busy with a long prompt would show it."""
        return self.steps is not None or self.kv_use is not None


NO_COUNTERS = EngineCounters()


@dataclass(frozen=True, slots=True)
class WorkSample:
    """One sample. `in_flight` counts requests that wait for the serve, not those whose client does not read."""

    in_flight: int
    relayed: int | None
    """Bytes that the serve has sent since it started; None: not counted."""
    counters: EngineCounters = NO_COUNTERS


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """The result of the samples so far. `since`: the clock's time of the last progress, or of the start of the work."""

    work: WorkSample
    since: float
    moved: bool = False


def advance(before: WorkProgress | None, work: WorkSample, now: float) -> WorkProgress:
    """1 the first sample, or no work: the time starts again  2 progress  3 no progress"""
    if before is None or work.in_flight == 0 or before.work.in_flight == 0:  # 1
        return WorkProgress(work, now, before is not None and _moved(before.work, work))
    if _moved(before.work, work):  # 2
        return WorkProgress(work, now, True)
    return WorkProgress(_last_known(before.work, work), before.since)  # 3


def without_progress(progress: WorkProgress, now: float) -> float | None:
    """Seconds; None: there is no work."""
    return now - progress.since if progress.work.in_flight else None


def stall_limit(stall: float, counters: EngineCounters, makes_media: bool = False) -> float:
    """Seconds without progress that are too long.

    MEDIA_FACTOR times `stall` if all that the serve makes is audio or images. Otherwise `stall` if the engine reports
    that it has work, and would show progress on a long prompt. Else UNCERTAIN_FACTOR times that: an engine that reads a
    long prompt sends nothing.
    """
    if makes_media:
        return MEDIA_FACTOR * stall
    has_work = bool(counters.running) or bool(counters.queued)
    return stall if has_work and counters.shows_prompt_progress() else UNCERTAIN_FACTOR * stall


def _moved(before: WorkSample, now: WorkSample) -> bool:
    if before.relayed is not None and now.relayed is not None and before.relayed != now.relayed:
        return True
    pairs = zip(before.counters.progress_values(), now.counters.progress_values(), strict=True)
    return any(old is not None and new is not None and old != new for old, new in pairs)


def _last_known(before: WorkSample, now: WorkSample) -> WorkSample:
    """Keep the last known counters, so that the sample after one without counters can still be compared."""
    return WorkSample(
        now.in_flight,
        before.relayed if now.relayed is None else now.relayed,
        before.counters if now.counters == NO_COUNTERS else now.counters,
    )
