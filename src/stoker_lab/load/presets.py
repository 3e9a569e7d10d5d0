"""What is measured: steps, and the presets that name them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from stoker_lab.load.generator import StepLength
from stoker_lab.load.ladder import TOP
from stoker_lab.load.prompts import PromptSharing
from stoker_lab.load.replay import Arrival


class Preset(StrEnum):
    LADDER = "ladder"
    """More and more clients until it no longer pays, then three fixed rates."""
    USERS = "users"
    """Several users at once, 256 tokens each."""
    SHORT = "short"
    """One client, short prompts, 16 tokens: the time to the first token."""
    LONG = "long"
    """One client, a long prompt: whether it works, and the time to the first token."""
    DECODE = "decode"
    """One client, 256, 512 and 1,024 tokens each."""
    REPLAY = "replay"
    """Recorded traffic: its lengths, at its times."""


class BenchmarkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; None: the preset's own. It is kept with the result."""

    preset: Preset = Preset.LADDER
    concurrency: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    requests: int | None = None
    repeats: int | None = None
    rates: tuple[float, ...] | None = None
    """Requests per second, open loop. None: by the knee (in a ladder)."""
    modes: tuple[PromptSharing, ...] = (PromptSharing.WARM,)
    slo_ttft: float | None = None
    slo_tpot: float | None = None
    """Seconds."""
    speed: float = 1.0
    quick: bool = False
    seed: int | None = None
    """The seed of the prompts; None: a new seed for each run, stored with the result."""


class BenchmarkStep(NamedTuple):
    """One row of the result."""

    name: str
    """`c4`, `r2.5`, `512-tokens`; another mode than warm stands before it: `prefix-cached.c4`."""
    prompt: int
    output: int
    mode: PromptSharing
    length: StepLength
    clients: int = 1
    rate: float | None = None
    """Requests per second; None: closed loop."""
    trace: tuple[Arrival, ...] = ()

    @property
    def warm_up(self) -> int:
        """Requests before, that do not count."""
        return 0 if self.mode is PromptSharing.COLD else max(2 * self.clients, 2)

    @property
    def is_open(self) -> bool:
        return self.rate is not None or bool(self.trace)


class BenchmarkPlan(NamedTuple):
    """The steps that are known beforehand, and whether a ladder is run."""

    steps: list[BenchmarkStep]
    climbs: bool
    """Whether a ladder is run; then `steps` is empty, since its rungs are chosen while it runs."""
    repeats: int
    top: int
    rates_by_knee: bool


_SIZES = {
    Preset.LADDER: (256, 128), Preset.USERS: (256, 256), Preset.SHORT: (64, 16), Preset.LONG: (16_384, 64),
    Preset.DECODE: (64, 1024), Preset.REPLAY: (256, 128),
}  # fmt: skip
_SECONDS = {Preset.SHORT: 10.0, Preset.LONG: 0.0, Preset.DECODE: 0.0}
_QUICK_SECONDS = 3.0
_QUICK_TOP = 8
USERS = 8
DECODES = (256, 512, 1024)
SLACK = 16
"""Tokens of a context that a long prompt leaves free: templates add some behind."""


def token_sizes(wanted: BenchmarkOptions, context: int | None) -> tuple[int, int]:
    """(prompt, output) tokens of one request. Raises ValueError where they were asked for and do not fit."""
    prompt, output = _SIZES[wanted.preset]
    output = wanted.output_tokens or (min(output, context // 4) if context else output)
    if wanted.prompt_tokens is None:
        fits = prompt if context is None else max(1, min(prompt, context - output - SLACK))
        return fits, output
    if context is not None and wanted.prompt_tokens + output > context:
        raise ValueError(
            f"{wanted.prompt_tokens} tokens of prompt and {output} of output do not fit into its context of {context}: "
            "ask for less with --prompt-tokens or --output-tokens"
        )
    return wanted.prompt_tokens, output


def plan_benchmark(
    wanted: BenchmarkOptions, context: int | None = None, trace: Sequence[Arrival] = ()
) -> BenchmarkPlan:
    """`context`: tokens that a request may use; None: not known. Raises ValueError as `token_sizes` does."""
    prompt, output = token_sizes(wanted, context)
    repeats = wanted.repeats or (1 if wanted.quick or trace else 3)
    climbs = wanted.preset is Preset.LADDER and wanted.concurrency is None and wanted.rates is None
    steps: list[BenchmarkStep] = []
    if trace:
        steps = [BenchmarkStep("replay", prompt, output, PromptSharing.WARM, StepLength(0.0, 1), trace=tuple(trace))]
    elif not climbs:
        for mode in wanted.modes:
            steps += _steps(wanted, prompt, output, mode, context)
    top = _QUICK_TOP if wanted.quick else TOP
    return BenchmarkPlan(steps, climbs, repeats, top, climbs and not wanted.quick)


def clients_step(
    wanted: BenchmarkOptions, clients: int, prompt: int, output: int, mode: PromptSharing
) -> BenchmarkStep:
    return BenchmarkStep(_name(mode, f"c{clients}"), prompt, output, mode, step_length(wanted, clients), clients)


def rate_step(wanted: BenchmarkOptions, rate: float, prompt: int, output: int, mode: PromptSharing) -> BenchmarkStep:
    return BenchmarkStep(_name(mode, f"r{rate:g}"), prompt, output, mode, step_length(wanted, 1), rate=rate)


def step_length(wanted: BenchmarkOptions, clients: int) -> StepLength:
    """At least the seconds, and ten requests for each client (quick: two; long and decode: three in all)."""
    seconds = wanted.seconds
    if seconds is None:
        seconds = _SECONDS.get(wanted.preset, 30.0)
        seconds = min(seconds, _QUICK_SECONDS) if wanted.quick else seconds
    if wanted.requests is not None:
        return StepLength(seconds, wanted.requests)
    if wanted.preset in (Preset.LONG, Preset.DECODE):
        return StepLength(seconds, 1 if wanted.quick else 3)
    return StepLength(seconds, (2 if wanted.quick else 10) * clients)


def _steps(
    wanted: BenchmarkOptions, prompt: int, output: int, mode: PromptSharing, context: int | None
) -> list[BenchmarkStep]:
    found: list[BenchmarkStep] = []
    if wanted.preset is Preset.DECODE and wanted.output_tokens is None:
        fitting = [n for n in DECODES if context is None or prompt + n + SLACK <= context] or [output]
        found = [BenchmarkStep(_name(mode, f"{n}-tokens"), prompt, n, mode, step_length(wanted, 1)) for n in fitting]
    elif wanted.concurrency is not None or wanted.rates is None:
        usual = (USERS,) if wanted.preset is Preset.USERS else (1,)
        found = [clients_step(wanted, clients, prompt, output, mode) for clients in wanted.concurrency or usual]
    return found + [rate_step(wanted, rate, prompt, output, mode) for rate in wanted.rates or ()]


def _name(mode: PromptSharing, name: str) -> str:
    return name if mode is PromptSharing.WARM else f"{mode.value}.{name}"
