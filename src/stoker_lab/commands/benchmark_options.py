"""From the options of `eval benchmark` to what they mean. Each raises UsageError that shows what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stoker.cli.console.errors import UsageError
from stoker_lab.load.presets import BenchmarkOptions, BenchmarkPlan, Preset, plan_benchmark, token_sizes
from stoker_lab.load.prompts import PromptSharing
from stoker_lab.load.replay import Arrival, BadTrace, read_trace

T = TypeVar("T")


def preset_of(given: str | None, has_trace: bool) -> Preset:
    chosen = _one_of(given or ("replay" if has_trace else "ladder"), [one.value for one in Preset], "--preset")
    if (chosen == "replay") is not has_trace:
        raise UsageError("--preset replay needs --replay FILE, and --replay works with no other preset")
    return Preset(chosen)


def modes_of(given: str) -> tuple[PromptSharing, ...]:
    known = [each.value for each in PromptSharing]
    return tuple(PromptSharing(_one_of(one, known, "--mode")) for one in dict.fromkeys(given.split(",")))


def clients_of(given: str | None) -> tuple[int, ...] | None:
    return _numbers(given, int, "--concurrency", "1,2,4")


def rates_of(given: str | None) -> tuple[float, ...] | None:
    return _numbers(given, float, "--rate", "0.5,2")


def trace_of(path: Path, limit: int | None = None) -> list[Arrival]:
    try:
        with path.open("rb") as file:
            return read_trace(file, limit)
    except OSError as error:
        raise UsageError(f"--replay {path}: {error.strerror}") from error
    except BadTrace as error:
        raise UsageError(f"--replay {path}: {error}") from error


def plan_of(
    wanted: BenchmarkOptions, context: int | None, trace: list[Arrival]
) -> tuple[BenchmarkPlan, tuple[int, int]]:
    """What is measured, and the (prompt, output) tokens of one request."""
    try:
        return plan_benchmark(wanted, context, trace), token_sizes(wanted, context)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _one_of(given: str, known: list[str], option: str) -> str:
    if given not in known:
        raise UsageError(f"{option} {given}: unknown; known: {', '.join(known)}")
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
