"""What goes into the loop (events) and what comes out of it (commands)."""

from __future__ import annotations

import msgspec

from stoker.domain.answer import StopReason
from stoker.domain.errors import StokerError
from stoker_orchestrator.loop.blocks import Correction, LayerResult, WorkerBlock
from stoker_orchestrator.orchestrator import CheckLayer

# -- events ------------------------------------------------------------------------------------------------------------


class TextArrived(msgspec.Struct, frozen=True):
    """A piece of the worker's text."""

    generation: int
    text: str


class GenerationEnded(msgspec.Struct, frozen=True):
    """The worker ended its answer itself."""

    generation: int
    stop: StopReason


class GenerationFailed(msgspec.Struct, frozen=True):
    """The worker cannot be asked, died, or broke off its answer."""

    generation: int
    error: StokerError
    is_replaced: bool = False
    """Another worker takes over: the request goes on."""


class Checked(msgspec.Struct, frozen=True):
    """One layer has judged one version of a block."""

    check: int
    result: LayerResult


class CommitFailed(msgspec.Struct, frozen=True):
    """A block that passed could not be written."""

    error: StokerError


class TimePassed(msgspec.Struct, frozen=True):
    """The loop's `deadline` may have come."""


class Cancelled(msgspec.Struct, frozen=True):
    """The client has left, or the request was ended."""


LoopEvent = TextArrived | GenerationEnded | GenerationFailed | Checked | CommitFailed | TimePassed | Cancelled

# -- commands ----------------------------------------------------------------------------------------------------------


class Generate(msgspec.Struct, frozen=True):
    """Ask the worker to go on after `blocks`. At most one generation runs at a time."""

    generation: int
    blocks: tuple[WorkerBlock, ...]
    correction: Correction | None = None
    """A block that it has to write again first."""


class StopGeneration(msgspec.Struct, frozen=True):
    """End it now, and give back its lease."""

    generation: int


class CheckBlock(msgspec.Struct, frozen=True):
    """Let one layer judge a block; the answer is `Checked` with the same number. At most one check runs at a time."""

    check: int
    layer: CheckLayer
    number: int
    """Of the block, from 1."""
    block: WorkerBlock


class StopCheck(msgspec.Struct, frozen=True):
    check: int


class Commit(msgspec.Struct, frozen=True):
    """A block has passed every layer: record it, write it, then send it. Its result is not awaited by the loop unless
    it fails."""

    number: int
    attempt: int
    block: WorkerBlock


class RecordBlock(msgspec.Struct, frozen=True):
    """For the scratchpad: the worker has written this version of a block."""

    number: int
    attempt: int
    block: WorkerBlock


class RecordCheck(msgspec.Struct, frozen=True):
    """For the scratchpad: a layer's result; `attempt` counts from 1."""

    number: int
    attempt: int
    result: LayerResult


class Finish(msgspec.Struct, frozen=True):
    """Every block passed. Nothing follows."""

    stop: StopReason


class Fail(msgspec.Struct, frozen=True):
    """The request is over without a complete answer. Nothing follows."""

    error: StokerError


LoopCommand = Generate | StopGeneration | CheckBlock | StopCheck | Commit | RecordBlock | RecordCheck | Finish | Fail
