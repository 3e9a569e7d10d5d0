"""The tables of an orchestrated request and of a block: every state with every event, legal or refused."""

from __future__ import annotations

import pytest

from stoker_orchestrator.loop.states import (
    BLOCK_TABLE,
    RUN_TABLE,
    BlockEvent,
    BlockState,
    IllegalOrchestrationEvent,
    RunEvent,
    RunState,
    next_block_state,
    next_run_state,
)

RUN = {
    (RunState.PLANNED, RunEvent.STARTED): RunState.RUNNING,
    (RunState.PLANNED, RunEvent.CANCELLED): RunState.CANCELLED,
    (RunState.RUNNING, RunEvent.ALL_BLOCKS_PASSED): RunState.FINISHED,
    (RunState.RUNNING, RunEvent.GAVE_UP): RunState.FAILED,
    (RunState.RUNNING, RunEvent.CANCELLED): RunState.CANCELLED,
    (RunState.FINISHED, RunEvent.GAVE_UP): RunState.FAILED,
}
BLOCK = {
    (BlockState.GENERATING, BlockEvent.ENDED): BlockState.COMPLETE,
    (BlockState.GENERATING, BlockEvent.OVERRAN): BlockState.FAILED,
    (BlockState.GENERATING, BlockEvent.DISCARDED): BlockState.GENERATING,
    (BlockState.COMPLETE, BlockEvent.CHECK_STARTED): BlockState.CHECKING,
    (BlockState.COMPLETE, BlockEvent.DISCARDED): BlockState.GENERATING,
    (BlockState.CHECKING, BlockEvent.LAYER_PASSED): BlockState.CHECKING,
    (BlockState.CHECKING, BlockEvent.CHECK_REPEATED): BlockState.CHECKING,
    (BlockState.CHECKING, BlockEvent.ALL_LAYERS_PASSED): BlockState.PASSED,
    (BlockState.CHECKING, BlockEvent.CHECK_FAILED): BlockState.FAILED,
    (BlockState.FAILED, BlockEvent.WRITTEN_AGAIN): BlockState.GENERATING,
}


@pytest.mark.parametrize("event", RunEvent, ids=lambda event: event.value)
@pytest.mark.parametrize("state", RunState, ids=lambda state: state.value)
def test_a_request_takes_each_event_or_refuses_it(state: RunState, event: RunEvent) -> None:
    if (state, event) in RUN:
        assert next_run_state(state, event) is RUN[state, event]
    else:
        with pytest.raises(IllegalOrchestrationEvent, match=f"{state.value} cannot have '{event.value}'"):
            next_run_state(state, event)


@pytest.mark.parametrize("event", BlockEvent, ids=lambda event: event.value)
@pytest.mark.parametrize("state", BlockState, ids=lambda state: state.value)
def test_a_block_takes_each_event_or_refuses_it(state: BlockState, event: BlockEvent) -> None:
    if (state, event) in BLOCK:
        assert next_block_state(state, event) is BLOCK[state, event]
    else:
        with pytest.raises(IllegalOrchestrationEvent, match=f"{state.value} cannot have '{event.value}'"):
            next_block_state(state, event)


def test_every_state_has_a_row() -> None:
    assert set(RUN_TABLE) == set(RunState)
    assert set(BLOCK_TABLE) == set(BlockState)
