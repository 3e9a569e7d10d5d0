"""The states of an orchestrated request and of one block, as two tables. docs/how-it-works/orchestrator.md draws them.

An event that a table does not list for a state is illegal: it raises, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class RunState(Enum):
    """Where a request is."""

    PLANNED = "planned"
    RUNNING = "running"
    FINISHED = "finished"
    """Every block passed."""
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunEvent(Enum):
    STARTED = "started"
    ALL_BLOCKS_PASSED = "all_blocks_passed"
    GAVE_UP = "gave_up"
    """A block did not pass or could not be written, or the worker failed."""
    CANCELLED = "cancelled"


class BlockState(Enum):
    """Where a block is."""

    GENERATING = "generating"
    COMPLETE = "complete"
    """It waits for its check."""
    CHECKING = "checking"
    PASSED = "passed"
    """It is committed: recorded, and sent to the client."""
    FAILED = "failed"
    """The worker writes it again, unless it has failed too often."""


class BlockEvent(Enum):
    ENDED = "ended"
    """The worker wrote its end."""
    OVERRAN = "overran"
    """It became too long, or took too long."""
    CHECK_STARTED = "check_started"
    LAYER_PASSED = "layer_passed"
    CHECK_REPEATED = "check_repeated"
    """The validator's answer could not be read."""
    ALL_LAYERS_PASSED = "all_layers_passed"
    CHECK_FAILED = "check_failed"
    WRITTEN_AGAIN = "written_again"
    DISCARDED = "discarded"
    """The block before it failed, so what followed is written again."""


RUN_TABLE: Mapping[RunState, Mapping[RunEvent, RunState]] = {
    RunState.PLANNED: {RunEvent.STARTED: RunState.RUNNING, RunEvent.CANCELLED: RunState.CANCELLED},
    RunState.RUNNING: {
        RunEvent.ALL_BLOCKS_PASSED: RunState.FINISHED,
        RunEvent.GAVE_UP: RunState.FAILED,
        RunEvent.CANCELLED: RunState.CANCELLED,
    },
    RunState.FINISHED: {RunEvent.GAVE_UP: RunState.FAILED},  # the last block could not be written
    RunState.FAILED: {},
    RunState.CANCELLED: {},
}
BLOCK_TABLE: Mapping[BlockState, Mapping[BlockEvent, BlockState]] = {
    BlockState.GENERATING: {
        BlockEvent.ENDED: BlockState.COMPLETE,
        BlockEvent.OVERRAN: BlockState.FAILED,
        BlockEvent.DISCARDED: BlockState.GENERATING,
    },
    BlockState.COMPLETE: {
        BlockEvent.CHECK_STARTED: BlockState.CHECKING,
        BlockEvent.DISCARDED: BlockState.GENERATING,
    },
    BlockState.CHECKING: {
        BlockEvent.LAYER_PASSED: BlockState.CHECKING,
        BlockEvent.CHECK_REPEATED: BlockState.CHECKING,
        BlockEvent.ALL_LAYERS_PASSED: BlockState.PASSED,
        BlockEvent.CHECK_FAILED: BlockState.FAILED,
    },
    BlockState.FAILED: {BlockEvent.WRITTEN_AGAIN: BlockState.GENERATING},
    BlockState.PASSED: {},
}


class IllegalOrchestrationEvent(ValueError):
    """A bug in Stoker: this must not happen in that state."""


def next_run_state(state: RunState, event: RunEvent) -> RunState:
    """The state after `event`. Raises IllegalOrchestrationEvent."""
    try:
        return RUN_TABLE[state][event]
    except KeyError:
        raise IllegalOrchestrationEvent(f"a request that is {state.value} cannot have '{event.value}'") from None


def next_block_state(state: BlockState, event: BlockEvent) -> BlockState:
    """The state after `event`. Raises IllegalOrchestrationEvent."""
    try:
        return BLOCK_TABLE[state][event]
    except KeyError:
        raise IllegalOrchestrationEvent(f"a block that is {state.value} cannot have '{event.value}'") from None
