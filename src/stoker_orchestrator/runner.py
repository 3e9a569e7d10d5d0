"""Runs the loop of one request: carries out its commands, and brings it what happened.

Everything that a run holds ends with `run`, however it ends: the generation with its lease, the check with its lease,
the timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stoker.domain.answer import Tokens
from stoker.domain.decision import OrchestratedRecord
from stoker.domain.errors import StokerError
from stoker.domain.prompt import Prompt
from stoker.request.codec.usage import Usage
from stoker_orchestrator.loop.blocks import MARKER, BlockWriter, Correction, LayerResult, WorkerBlock, joined
from stoker_orchestrator.loop.loop import Loop, ValidationFailed
from stoker_orchestrator.loop.messages import (
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
from stoker_orchestrator.loop.transcript import prompt_size, worker_prompt
from stoker_orchestrator.orchestrator import CheckLayer
from stoker_orchestrator.reply_writer import ReplyWriter
from stoker_orchestrator.worker import Worker

BYTES_PER_TOKEN = 4
"""For estimating tokens of a generation that was ended before its usage came."""


class BlockChecker(Protocol):
    """Judges blocks."""

    async def check(self, layer: CheckLayer, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        """What one layer finds. Raises nothing but CancelledError; nothing is left running then."""


class RunRecorder(Protocol):
    """Keeps what happened: the scratchpad, and the files of the project. Blocks; called off the event loop."""

    def record(self, command: RecordBlock | RecordCheck | Commit | Finish | Fail) -> None:
        """Raises StokerError if a commit cannot be written. Other failures are logged."""


class RunUsage:
    """What a run has cost so far, in tokens."""

    def __init__(self) -> None:
        self.input = 0
        self.output = 0
        self.cached = 0
        self.cache_written = 0
        self.validator = 0
        self.validator_output = 0
        self.generations = 0
        self.is_estimated = False
        """Whether the worker did not count the tokens of each generation to its end."""
        self._written = 0
        """Characters that the worker wrote, and those that became part of the answer."""
        self._kept = 0

    @property
    def wasted(self) -> int:
        """Output that is no part of the answer: an estimate from its length."""
        return max(0, self._written - self._kept) // BYTES_PER_TOKEN

    def on_text(self, size: int) -> None:
        self._written += size

    def on_committed(self, size: int) -> None:
        self._kept += size

    def on_validated(self, tokens: int, output: int) -> None:
        self.validator += tokens
        self.validator_output += output

    def on_generated(self, prompt_size: int, size: int, usage: Usage | None) -> None:
        """A generation is over. Where the worker reported no usage, because it was ended, it is estimated."""
        self.generations += 1
        output = None if usage is None else usage.output
        prompt = None if usage is None else usage.input
        self.output += size // BYTES_PER_TOKEN if output is None else output
        self.input += prompt_size // BYTES_PER_TOKEN if prompt is None else prompt
        self.is_estimated = self.is_estimated or usage is None or usage.is_estimated
        if usage is not None:
            self.cached += usage.cached or 0
            self.cache_written += usage.cache_written or 0

    def tokens(self) -> Tokens:
        return Tokens(
            input=self.input, cached=self.cached or None, written=self.cache_written or None, output=self.output
        )


@dataclass(frozen=True, slots=True)
class RunParts:
    """What a run works with."""

    loop: Loop
    worker: Worker
    checker: BlockChecker
    recorder: RunRecorder
    reply: ReplyWriter
    now: Callable[[], float]


class OrchestratedRun:
    """Of one request. `run` once."""

    def __init__(self, parts: RunParts, request: Prompt, rules: str) -> None:
        """`rules`: the worker prompt, with its placeholder filled."""
        self.usage = RunUsage()
        self._parts = parts
        self._loop = parts.loop
        self._request = request
        self._rules = rules
        self._blocks = BlockWriter()
        self._as_written = BlockWriter(MARKER)
        """The same blocks with the lines that the worker wrote around them, which are not wasted."""
        self._events: deque[LoopEvent] = deque()
        self._wake = asyncio.Event()
        self._generation: asyncio.Task[None] | None = None
        self._check: asyncio.Task[None] | None = None
        self._end: Finish | Fail | None = None
        self._writing: asyncio.Task[None] | None = None
        """The last write of the scratchpad."""

    async def run(self) -> None:
        """Until the answer is complete and sent. Raises StokerError; on cancel all that it holds is given back, and the
        scratchpad says so.
        """
        try:
            await self._run()
        except asyncio.CancelledError:
            if self._end is None:
                text = "the request was cancelled: its client left, or Stoker ended it"
                await asyncio.shield(self._record_end(Fail(StokerError(text, code="cancelled"))))
            raise

    async def _record(self, command: RecordBlock | RecordCheck | Commit | Finish | Fail) -> None:
        """On cancel the write goes on; the end is written after it."""
        self._writing = asyncio.get_running_loop().create_task(
            asyncio.to_thread(self._parts.recorder.record, command), name="scratchpad"
        )
        await asyncio.shield(self._writing)

    async def _record_end(self, command: Fail) -> None:
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        await asyncio.to_thread(self._parts.recorder.record, command)

    async def _run(self) -> None:
        parts = self._parts
        try:
            async with asyncio.TaskGroup() as tasks:
                try:
                    for block in self._loop.committed:  # an earlier run has committed them
                        parts.reply.add(self._blocks.add(block))
                    await self._execute(self._loop.start(parts.now()), tasks)
                    while self._end is None:
                        event = await self._next_event()
                        await self._execute(self._loop.on(event, parts.now()), tasks)
                finally:
                    self._stop(self._generation)
                    self._stop(self._check)
            self._finish()
        except* StokerError as group:
            raise group.exceptions[0] from None
        finally:
            parts.reply.close()

    def report(self, record: OrchestratedRecord) -> None:
        """Fill in what has happened so far."""
        counts, usage = self._loop.counts, self.usage
        record.blocks = len(self._loop.committed)
        record.resumed = record.blocks - counts.blocks
        record.failures = dict(counts.failures)
        record.discarded = counts.discarded
        record.generations = usage.generations
        record.validator_tokens, record.validator_output_tokens = usage.validator, usage.validator_output
        record.wasted_tokens = usage.wasted

    def failure_details(self, error: StokerError) -> dict[str, object]:
        """What the client's error says beside its message: the block that failed, and, unless they were streamed, the
        blocks that passed before it.
        """
        block: dict[str, object] = {"block": error.number} if isinstance(error, ValidationFailed) else {}
        if self._request.stream or not self._loop.committed:
            return block
        return {**block, "committed": joined(self._loop.committed)}

    def _finish(self) -> None:
        end = self._end
        assert end is not None
        if isinstance(end, Fail):
            raise end.error
        if rest := self._blocks.close():
            self._parts.reply.add(rest)
        self._parts.reply.finish(end.stop, self.usage.tokens())

    # -- events ------------------------------------------------------------------------------------------------------

    async def _next_event(self) -> LoopEvent:
        while not self._events:
            self._wake.clear()
            deadline = self._loop.deadline
            if deadline is None:
                await self._wake.wait()
                continue
            try:
                async with asyncio.timeout(max(0.0, deadline - self._parts.now())):
                    await self._wake.wait()
            except TimeoutError:
                return TimePassed()
        return self._events.popleft()

    def _happened(self, event: LoopEvent) -> None:
        self._events.append(event)
        self._wake.set()

    def _on_text(self, generation: int, text: str) -> None:
        """Pieces that nobody has looked at yet become one event."""
        self.usage.on_text(len(text))
        last = self._events[-1] if self._events else None
        if isinstance(last, TextArrived) and last.generation == generation:
            self._events[-1] = TextArrived(generation, last.text + text)
        else:
            self._happened(TextArrived(generation, text))

    # -- commands ----------------------------------------------------------------------------------------------------

    async def _execute(self, commands: list[LoopCommand], tasks: asyncio.TaskGroup) -> None:
        """In order. A commit is on disk before its text is sent."""
        for command in commands:
            match command:
                case Generate(generation=generation, blocks=blocks, correction=correction):
                    work = self._generate(generation, blocks, correction)
                    self._generation = tasks.create_task(work, name=f"generation-{generation}")
                case StopGeneration():
                    self._stop(self._generation)
                case CheckBlock():
                    self._check = tasks.create_task(self._run_check(command), name=f"check-{command.check}")
                case StopCheck():
                    self._stop(self._check)
                case Commit(block=block):
                    try:
                        await self._record(command)
                    except StokerError as error:
                        # Before what arrived during the write, or the answer would end without this block.
                        self._events.appendleft(CommitFailed(error))
                        return
                    self.usage.on_committed(len(self._as_written.add(block)))
                    self._parts.reply.add(self._blocks.add(block))
                case RecordBlock() | RecordCheck():
                    await self._record(command)
                case Finish() | Fail():
                    await self._record(command)
                    self._end = command

    async def _generate(self, generation: int, blocks: tuple[WorkerBlock, ...], correction: Correction | None) -> None:
        prompt = worker_prompt(self._request, self._rules, blocks, correction)
        usage, size = None, 0

        def on_text(text: str) -> None:
            nonlocal size
            size += len(text)
            self._on_text(generation, text)

        try:
            end = await self._parts.worker.generate(prompt, on_text)
        except StokerError as error:
            is_replaced = self._parts.worker.is_replaced
            if is_replaced:
                self._parts.reply.name_worker(self._parts.worker.serve.name)
            self._happened(GenerationFailed(generation, error, is_replaced))
        else:
            usage = end.usage
            self._happened(GenerationEnded(generation, end.stop))
        finally:
            self.usage.on_generated(prompt_size(prompt), size, usage)

    async def _run_check(self, command: CheckBlock) -> None:
        committed = tuple(self._loop.committed)
        result = await self._parts.checker.check(command.layer, command.block, committed)
        if command.layer is CheckLayer.VALIDATOR:
            self.usage.on_validated(result.tokens, result.output_tokens)
        self._happened(Checked(command.check, result))

    def _stop(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            task.cancel()
