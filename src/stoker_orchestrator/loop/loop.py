"""Generate, check, commit: the loop of one orchestrated request, as a pure state machine.

Events and the time go in, commands come out; it does no IO and knows no dialect. `loop.states` has the tables.

- Blocks pass in order. The first block that waits is checked, layer by layer, cheapest first.
- With `overlap`, the worker writes at most one block ahead of the one that is being checked; without, none. Once
  it is that far, it is stopped only after a `PAUSE`, because most checks end before that.
- With `batch` it writes everything before the validator is asked: for two that cannot be loaded together.
- A block that fails ends the generation. What was written after it is thrown away, and the worker writes the block
  again, with the one finding as its correction, and goes on from there.
- At the end of the answer the names layer judges all of it (END_OF_ANSWER). What is missing the worker adds.
- Only a passed block is committed; only what is committed reaches the client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from stoker.domain.answer import StopReason
from stoker.domain.errors import StokerError, UpstreamError
from stoker_orchestrator.loop.blocks import END_OF_ANSWER, Correction, LayerResult, WorkerBlock
from stoker_orchestrator.loop.cutter import MAX_LINES, Cutter, IsComplete
from stoker_orchestrator.loop.messages import (
    Cancelled,
    CheckBlock,
    Checked,
    Commit,
    CommitFailed,
    Fail,
    Finish,
    Generate,
    GenerationEnded,
    GenerationFailed,
    LoopCommand,
    LoopEvent,
    RecordBlock,
    RecordCheck,
    StopCheck,
    StopGeneration,
    TextArrived,
    TimePassed,
)
from stoker_orchestrator.loop.states import (
    BlockEvent,
    BlockState,
    RunEvent,
    RunState,
    next_block_state,
    next_run_state,
)
from stoker_orchestrator.orchestrator import CheckLayer

MAX_BLOCKS = 500
"""Blocks of one answer. A worker that never stops is ended there."""
PAUSE = 0.25
"""Seconds for which a worker that is far enough ahead may go on before its generation is ended. What it writes
meanwhile is kept if the check ends first, and thrown away if not.
"""
_TOO_LONG = f"the block is longer than {MAX_LINES} lines or 4,000 tokens"


class LoopRules(msgspec.Struct, frozen=True):
    """What the loop goes by. Times are seconds."""

    layers: tuple[CheckLayer, ...] = (CheckLayer.STRUCTURE,)
    """Of a block of code, in this order. Prose gets the first one only."""
    retries: int = 3
    overlap: bool = True
    batch: bool = False
    block_timeout: float = 300.0
    judges_end: bool = False
    """Whether the end of the answer is judged, by the names layer."""
    is_bounded: bool = False
    """The client set a limit of tokens: an answer that reaches it is over, and not wrong."""


class ValidationFailed(StokerError):
    """A block failed as often as it may. 422: clients do not repeat such a request by themselves."""

    status = 422
    code = "validation_failed"

    def __init__(self, number: int, attempts: int, result: LayerResult) -> None:
        times = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(
            f"block {number} failed its {result.layer.value} check {times}; the last time: {result.reason}"
        )
        self.number = number
        self.result = result


class LoopCounts(msgspec.Struct):
    """What happened so far."""

    blocks: int = 0
    """Committed."""
    failures: dict[str, int] = {}
    """By layer: blocks that failed there. `unreadable`: answers of the validator that could not be read."""
    discarded: int = 0
    """Blocks that were thrown away because one before them failed."""


class _Pending:
    """A block that the worker has ended and that has not passed yet."""

    __slots__ = ("block", "layers", "state", "unreadable")

    def __init__(self, block: WorkerBlock, layers: tuple[CheckLayer, ...]) -> None:
        self.block = block
        self.layers = layers
        """Those that it has still to pass."""
        self.state = next_block_state(BlockState.GENERATING, BlockEvent.ENDED)
        self.unreadable = 0


class Loop:
    """Of one request. `on` raises only for bugs: an illegal change of state."""

    def __init__(
        self, rules: LoopRules, is_complete: IsComplete, committed: Iterable[WorkerBlock] = (), has_ended: bool = False
    ) -> None:
        """`committed`: blocks that an earlier run of this request has committed; it goes on after them. `has_ended`:
        they are the whole answer.
        """
        self.state = RunState.PLANNED
        self.committed = list(committed)
        self.counts = LoopCounts()
        self._rules = rules
        self._is_complete = is_complete
        self._pending: deque[_Pending] = deque()
        self._ready: deque[WorkerBlock] = deque()
        """Blocks beyond those that the worker may be ahead."""
        self._attempt = 1
        """Of the first block that has not passed."""
        self._cutter = Cutter(is_complete)
        self._generation = 0
        self._is_generating = False
        self._has_ended = has_ended
        """The worker has said all it wanted to say after the blocks that are there."""
        self._ended_after = -1
        """Blocks after which the end was judged last."""
        self._end_attempt = 0
        self._stop = StopReason.END
        self._failure: StokerError | None = None
        """Why the worker broke off its answer."""
        self._correction: Correction | None = None
        """What the block that is written now has to mend."""
        self._repeats = 0
        self._check = 0
        self._is_checking = False
        self._block_began = 0.0
        self._heard_at = 0.0
        """When the worker wrote something last, or its generation began."""
        self._at_limit_since: float | None = None
        """Since when the worker has been as far ahead as it may be; None: it is not."""
        self._is_late = False
        """The last generation was ended because a block took too long while others wait for their checks."""
        last = self.committed[-1] if self.committed else None
        self._fence_at_pause: str | None = last.fence if last is not None and last.is_fenced else None
        """The fence that was open when the last generation was ended for being too far ahead."""

    @property
    def deadline(self) -> float | None:
        """When `TimePassed` has to come in; None: nothing is waited for."""
        if not self._is_generating:
            return None
        if self._at_limit_since is not None:
            return self._at_limit_since + PAUSE
        return self._block_began + self._rules.block_timeout

    @property
    def number(self) -> int:
        """The first block that has not passed, from 1."""
        return len(self.committed) + 1

    def start(self, now: float) -> list[LoopCommand]:
        self.state = next_run_state(self.state, RunEvent.STARTED)
        return self._next_commands(now)

    def on(self, event: LoopEvent, now: float) -> list[LoopCommand]:
        """The commands that follow, in order. What comes late, after the end or for something stopped, gives none."""
        if self.state is RunState.FINISHED and isinstance(event, CommitFailed):
            return self._on_not_written(event.error)
        if self.state is not RunState.RUNNING:
            if isinstance(event, Cancelled) and self.state is RunState.PLANNED:
                self.state = next_run_state(self.state, RunEvent.CANCELLED)
            return []
        match event:
            case TextArrived(generation=generation, text=text):
                return self._on_text(text, now) if self._is_current(generation) else []
            case GenerationEnded(generation=generation, stop=stop):
                return self._on_ended(stop, now) if self._is_current(generation) else []
            case GenerationFailed(generation=generation, is_replaced=True):
                return self._on_replaced(now) if self._is_current(generation) else []
            case GenerationFailed(generation=generation, error=error):
                return self._on_broken(error, now) if self._is_current(generation) else []
            case Checked(check=check, result=result):
                return self._on_checked(result, now) if self._is_checking and check == self._check else []
            case CommitFailed(error=error):
                return self._on_not_written(error)
            case TimePassed():
                return self._on_time(now)
            case Cancelled():
                self.state = next_run_state(self.state, RunEvent.CANCELLED)
                return self._stop_all()

    # -- the worker ------------------------------------------------------------------------------------------------

    def _is_current(self, generation: int) -> bool:
        return self._is_generating and generation == self._generation

    def _generate(self, now: float) -> list[LoopCommand]:
        blocks = (*self.committed, *(pending.block for pending in self._pending))
        self._generation += 1
        self._is_generating = True
        self._block_began = self._heard_at = now
        self._at_limit_since = None
        self._is_late = False
        self._cutter = Cutter(self._is_complete)
        return [Generate(self._generation, blocks, self._correction)]

    def _stop_generation(self) -> list[LoopCommand]:
        if not self._is_generating:
            return []
        self._is_generating = False
        return [StopGeneration(self._generation)]

    def _on_text(self, text: str, now: float) -> list[LoopCommand]:
        self._heard_at = now
        cut = self._cutter.feed(text)
        if not cut:
            return []
        self._ready += cut
        return self._accept_blocks(now)

    def _on_ended(self, stop: StopReason, now: float) -> list[LoopCommand]:
        rest = self._cutter.finish()
        self._is_generating = False
        self._has_ended = True
        if stop is StopReason.LENGTH and rest and not self._rules.is_bounded:
            rest[-1] = msgspec.structs.replace(rest[-1], is_too_long=True)
        elif stop is not StopReason.SEQUENCE:
            self._stop = stop
        if self._stop in (StopReason.LENGTH, StopReason.CONTEXT):
            rest.clear()  # the last block is not complete: nobody may see it
        self._ready += rest
        return self._accept_blocks(now)

    def _on_broken(self, error: StokerError, now: float) -> list[LoopCommand]:
        """Blocks that are complete are still checked, and committed if they pass; then the request fails."""
        self._is_generating = False
        self._has_ended, self._failure = True, error
        return self._accept_blocks(now)

    def _on_replaced(self, now: float) -> list[LoopCommand]:
        """The next worker goes on after the last complete block; what was written of the one after it is lost."""
        self._is_generating = False
        self._interrupt()
        return self._next_commands(now)

    def _interrupt(self) -> None:
        """The generation ends here, and another one will go on after the blocks that wait for their checks."""
        self._fence_at_pause = self._cutter.open_fence or self._fence_at_pause
        self.counts.discarded += len(self._ready)
        self._ready.clear()

    def _on_time(self, now: float) -> list[LoopCommand]:
        if self.deadline is None or now < self.deadline:
            return []
        if self._at_limit_since is not None:
            self._interrupt()
            return self._stop_generation()
        commands = self._stop_generation()
        if self._pending:
            self._is_late = True  # those before the late block come first; then it is begun anew
            return [*commands, *self._next_commands(now)]
        silent = now - self._heard_at
        if silent >= self._rules.block_timeout / 2:  # it hangs, and would again
            text = f"the worker wrote nothing for {silent:.3g} s"
            result = LayerResult(CheckLayer.STRUCTURE, False, text)
            return [*commands, *self._give_up(ValidationFailed(self.number, self._attempt, result))]
        text = f"the worker did not end the block within {self._rules.block_timeout:g} s"
        result = LayerResult(CheckLayer.STRUCTURE, False, text, f"{text}: write one short function or class.")
        return [*commands, *self._fail(WorkerBlock(""), BlockState.GENERATING, BlockEvent.OVERRAN, result, now)]

    # -- blocks that the worker has ended ----------------------------------------------------------------------------

    def _accept_blocks(self, now: float) -> list[LoopCommand]:
        """Take in what is ready, as far as the worker may be ahead, and see what there is to do."""
        commands: list[LoopCommand] = []
        while self._ready and not self._is_at_limit():
            cut = self._ready.popleft()
            if self._is_preface(cut):
                continue
            block = self._in_place(cut)
            if self._is_repeated(block):
                self._repeats += 1
                if self._repeats > 1:  # it goes round in circles
                    commands += self._end_answer(StopReason.END)
                continue
            if len(self.committed) + len(self._pending) >= MAX_BLOCKS:
                commands += self._end_answer(StopReason.LENGTH)
                break
            self._repeats = 0
            self._block_began = now
            layers = self._rules.layers if block.is_code else self._rules.layers[:1]
            attempt = 1 if self._pending else self._attempt
            self._pending.append(_Pending(block, layers))
            commands.append(RecordBlock(len(self.committed) + len(self._pending), attempt, block))
            if block.is_too_long:
                commands += self._stop_generation()
        self._at_limit_since = (self._at_limit_since or now) if self._is_at_limit() else None
        return [*commands, *self._next_commands(now)]

    def _end_answer(self, stop: StopReason) -> list[LoopCommand]:
        self._ready.clear()
        self._has_ended, self._stop = True, stop
        return self._stop_generation()

    def _is_preface(self, block: WorkerBlock) -> bool:
        """Whether the worker only talks about the code that it has to write again."""
        return self._correction is not None and self._correction.block.is_code and not block.is_code

    def _in_place(self, block: WorkerBlock) -> WorkerBlock:
        """A block that is written again stands where the failed one stood; one after a pause goes on in its fence."""
        correction, self._correction = self._correction, None
        open_fence, self._fence_at_pause = self._fence_at_pause, None
        if correction is not None and correction.block.is_fenced and block.is_code:
            failed, path = correction.block, block.path or correction.block.path
            return msgspec.structs.replace(failed, text=block.text, path=path, is_too_long=block.is_too_long)
        before = self._pending[-1].block if self._pending else self.committed[-1] if self.committed else None
        if before is None or not before.is_fenced:
            return msgspec.structs.replace(block, opens_fence=block.is_fenced)
        goes_on = open_fence == before.fence and (block.fence == open_fence or not block.is_fenced)
        if goes_on and block.is_code and block.path in ("", before.path):
            return msgspec.structs.replace(before, text=block.text, opens_fence=False, is_too_long=block.is_too_long)
        if block.follows_in_same_fence(before) and not block.path:
            return msgspec.structs.replace(block, path=before.path)
        return block

    def _is_repeated(self, block: WorkerBlock) -> bool:
        return block.is_code and any(
            block.text == one.text and block.path == one.path
            for one in (*self.committed, *(pending.block for pending in self._pending))
        )

    def _is_at_limit(self) -> bool:
        return not self._rules.batch and len(self._pending) > (1 if self._rules.overlap else 0)

    def _next_commands(self, now: float) -> list[LoopCommand]:
        """Check the first block, let the worker go on if there is room, finish if there is nothing left to do."""
        if self.state is not RunState.RUNNING or self._is_checking:
            return self._resume_worker(now)
        if self._pending:
            return [*self._check_first(now), *self._resume_worker(now)]
        if self._is_generating or self._ready or not self._has_ended:
            return self._resume_worker(now)
        if self._failure is not None:
            return self._give_up(self._failure)
        if self._correction is not None and self._stop is StopReason.END:
            return self._on_refused(self._correction, now)
        if not self.committed and self._stop is StopReason.END:
            return self._give_up(UpstreamError("the worker's answer is empty", code="upstream_empty"))
        if self._rules.judges_end and self._stop is StopReason.END and self._ended_after < len(self.committed):
            self._ended_after = len(self.committed)
            self._pending.append(_Pending(END_OF_ANSWER, (CheckLayer.NAMES,)))
            return self._check_first(now)
        self.state = next_run_state(self.state, RunEvent.ALL_BLOCKS_PASSED)
        return [Finish(self._stop)]

    def _on_refused(self, correction: Correction, now: float) -> list[LoopCommand]:
        text = "the worker did not write the block again"
        result = LayerResult(correction.layer, False, f"{correction.text}; {text}", correction.text)
        return self._fail(correction.block, BlockState.GENERATING, BlockEvent.OVERRAN, result, now)

    def _resume_worker(self, now: float) -> list[LoopCommand]:
        """Ask the worker again after a pause."""
        if self.state is not RunState.RUNNING or self._is_generating or self._has_ended or self._is_at_limit():
            return []
        return [] if self._is_late and self._pending else self._generate(now)

    # -- the checks ------------------------------------------------------------------------------------------------

    def _check_first(self, now: float) -> list[LoopCommand]:
        """Let the next layer judge the first block."""
        first = self._pending[0]
        if first.block.is_too_long:
            result = LayerResult(CheckLayer.STRUCTURE, False, _TOO_LONG, f"{_TOO_LONG}: write one function or class.")
            self._pending.popleft()
            return self._fail(first.block, BlockState.GENERATING, BlockEvent.OVERRAN, result, now)
        if first.layers[0] is CheckLayer.VALIDATOR and self._rules.batch and self._is_generating:
            return []  # the worker has to give its place back first
        if first.state is BlockState.COMPLETE:
            first.state = next_block_state(first.state, BlockEvent.CHECK_STARTED)
        self._check += 1
        self._is_checking = True
        return [CheckBlock(self._check, first.layers[0], self.number, first.block)]

    def _on_checked(self, result: LayerResult, now: float) -> list[LoopCommand]:
        self._is_checking = False
        first = self._pending[0]
        if first.block is END_OF_ANSWER:
            return self._on_end_checked(result, now)
        record = RecordCheck(self.number, self._attempt, result)
        if result.passed:
            first.layers = first.layers[1:]
            if not first.layers:
                return [record, *self._commit(now)]
            first.state = next_block_state(first.state, BlockEvent.LAYER_PASSED)
            return [record, *self._next_commands(now)]
        if result.is_decided:
            self._pending.popleft()
            return [record, *self._fail(first.block, first.state, BlockEvent.CHECK_FAILED, result, now)]
        self._count("unreadable")
        first.unreadable += 1
        if first.unreadable > self._rules.retries:
            return [record, *self._give_up(ValidationFailed(self.number, first.unreadable, result))]
        first.state = next_block_state(first.state, BlockEvent.CHECK_REPEATED)
        return [record, *self._next_commands(now)]

    def _on_end_checked(self, result: LayerResult, now: float) -> list[LoopCommand]:
        """Something is missing: the worker adds it. It is asked as often as for a block that fails."""
        first = self._pending.popleft()
        if result.passed:
            return self._next_commands(now)
        self._end_attempt += 1
        record = RecordCheck(self.number, self._end_attempt, result)
        if self._end_attempt > self._rules.retries:
            self._count(result.layer.value)
            return [record, *self._give_up(ValidationFailed(self.number, self._end_attempt, result))]
        return [record, *self._fail(first.block, first.state, BlockEvent.CHECK_FAILED, result, now)]

    def _commit(self, now: float) -> list[LoopCommand]:
        first = self._pending.popleft()
        next_block_state(first.state, BlockEvent.ALL_LAYERS_PASSED)
        commit = Commit(self.number, self._attempt, first.block)
        self.committed.append(first.block)
        self.counts.blocks += 1
        self._attempt = 1
        if self._at_limit_since is not None:
            self._block_began = now  # the worker was not to blame for the wait
        return [commit, *self._accept_blocks(now)]

    def _fail(
        self, block: WorkerBlock, state: BlockState, event: BlockEvent, result: LayerResult, now: float
    ) -> list[LoopCommand]:
        """The first block has failed: the worker writes it again, or the request is over."""
        state = next_block_state(state, event)
        self._count(result.layer.value)
        if self._failure is not None:
            return self._give_up(self._failure)
        commands = self._stop_generation()
        for pending in self._pending:
            next_block_state(pending.state, BlockEvent.DISCARDED)
        self.counts.discarded += len(self._pending) + len(self._ready)
        self._pending.clear()
        self._ready.clear()
        self._has_ended, self._stop, self._at_limit_since = False, StopReason.END, None
        if self._attempt > self._rules.retries:
            return [*commands, *self._give_up(ValidationFailed(self.number, self._attempt, result))]
        next_block_state(state, BlockEvent.WRITTEN_AGAIN)
        self._attempt += 1
        self._correction = Correction(block, result.layer, result.correction or result.reason)
        return [*commands, *self._generate(now)]

    def _count(self, what: str) -> None:
        self.counts.failures[what] = self.counts.failures.get(what, 0) + 1

    # -- the end ----------------------------------------------------------------------------------------------------

    def _on_not_written(self, error: StokerError) -> list[LoopCommand]:
        """The block that passed last is not on disk, so it is not committed; it may have been the last one of all."""
        self.committed.pop()
        self.counts.blocks -= 1
        return self._give_up(error)

    def _give_up(self, error: StokerError) -> list[LoopCommand]:
        self.state = next_run_state(self.state, RunEvent.GAVE_UP)
        return [*self._stop_all(), Fail(error)]

    def _stop_all(self) -> list[LoopCommand]:
        commands = self._stop_generation()
        if self._is_checking:
            self._is_checking = False
            commands.append(StopCheck(self._check))
        return commands
