"""From the options of `eval benchmark` to what is wanted. Raises UsageError that shows what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stoker.cli import options
from stoker.cli.failure import UsageError
from stoker.measure.presets import Preset, Wanted
from stoker.measure.prompts import Mode
from stoker.measure.replay import Arrival, BadTrace, read

T = TypeVar("T")


def wanted(
    preset: str | None, concurrency: str | None, prompt: int | None, output: int | None, seconds: float | None,
    repeats: int | None, rate: str | None, mode: str, slo_ttft: str | None, slo_tpot: str | None, speed: float,
    quick: bool, replays: bool,
) -> Wanted:  # fmt: skip
    """The record that is kept with the result."""
    chosen = _one_of(preset or ("replay" if replays else "ladder"), [one.value for one in Preset], "--preset")
    if (chosen == "replay") is not replays:
        raise UsageError("--preset replay goes with --replay FILE, and no other preset does")
    if replays and (concurrency is not None or rate is not None):
        raise UsageError("a replay has its own times: leave --concurrency and --rate out (--speed makes it faster)")
    modes = [_one_of(one, [each.value for each in Mode], "--mode") for one in mode.split(",")]
    return Wanted(
        preset=Preset(chosen),
        concurrency=_numbers(concurrency, int, "--concurrency", "1,2,4"),
        prompt_tokens=prompt,
        output_tokens=output,
        seconds=seconds,
        repeats=repeats,
        rates=_numbers(rate, float, "--rate", "0.5,2"),
        modes=tuple(Mode(one) for one in dict.fromkeys(modes)),
        slo_ttft=options.duration(slo_ttft, "--slo-ttft"),
        slo_tpot=options.duration(slo_tpot, "--slo-tpot"),
        speed=speed,
        quick=quick,
    )


def trace_of(path: Path, limit: int | None = None) -> list[Arrival]:
    try:
        with path.open("rb") as file:
            return read(file, limit)
    except OSError as error:
        raise UsageError(f"--replay {path}: {error.strerror}") from error
    except BadTrace as error:
        raise UsageError(f"--replay {path}: {error}") from error


def _one_of(given: str, known: list[str], option: str) -> str:
    if given not in known:
        raise UsageError(f"{option} {given}: there are {', '.join(known)}")
    return given


def _numbers(text: str | None, kind: Callable[[str], T], option: str, example: str) -> tuple[T, ...] | None:
    if text is None:
        return None
    try:
        found = tuple(kind(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(float(str(one)) <= 0 for one in found):
        raise UsageError(f"{option} {text}: give numbers above 0 with commas between, as {example}")
    return found
