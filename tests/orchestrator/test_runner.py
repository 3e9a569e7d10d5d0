"""A run of one orchestrated request: in which order it acts on what happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker.domain.answer import StopReason
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.prompt import Prompt, Role, Text, Turn
from stoker.exchange.internal_client import StreamEnd
from stoker.request.codec.usage import Usage
from stoker_orchestrator.checks.structure import is_complete
from stoker_orchestrator.loop.blocks import MARKER, LayerResult, WorkerBlock
from stoker_orchestrator.loop.loop import Loop, LoopRules
from stoker_orchestrator.loop.messages import Commit, Fail
from stoker_orchestrator.orchestrator import CheckLayer
from stoker_orchestrator.runner import OrchestratedRun, RunParts, RunUsage


@dataclass
class Worker:
    """Writes one block; its answer ends when `may_end` is set."""

    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: threading.Event = field(default_factory=threading.Event)
    is_replaced: bool = False

    async def generate(self, prompt: Prompt, on_text: Callable[[str], None]) -> StreamEnd:
        on_text(f"```python\nx = 1\n{MARKER}\n```\n")
        await self.may_end.wait()
        asyncio.get_running_loop().call_soon(self.has_ended.set)
        return StreamEnd(Usage(), StopReason.END)


class Passes:
    async def check(self, layer: CheckLayer, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        return LayerResult(layer, True)


class FullDisk:
    """Fails each commit, but only after the worker's answer has ended."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()

    def record(self, command: object) -> None:
        if isinstance(command, Commit):
            self._loop.call_soon_threadsafe(self._worker.may_end.set)
            assert self._worker.has_ended.wait(10)
            raise StokerError("no space", code="state_unusable")


class Client:
    """What reached it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.is_finished = False
        self.add = self.texts.append

    def name_worker(self, serve: str) -> None: ...

    def finish(self, stop: StopReason, tokens: object) -> None:
        self.is_finished = True

    def close(self) -> None: ...


def test_a_block_that_cannot_be_written_fails_the_answer_even_if_the_worker_ended_meanwhile() -> None:
    client = Client()
    with pytest.raises(StokerError, match="no space"):
        asyncio.run(run_on_a_full_disk(client))
    assert (client.texts, client.is_finished) == ([], False)


async def run_on_a_full_disk(client: Client) -> None:
    worker = Worker()
    parts: Any = (Loop(LoopRules(), is_complete, ()), worker, Passes(), FullDisk(worker), client)
    request = Prompt(Dialect.CHAT, "pair", [Turn(Role.USER, [Text("write it")])])
    await OrchestratedRun(RunParts(*parts, now=asyncio.get_running_loop().time), request, "rules").run()


class Notes:
    """Each commit takes until `may_go_on` is set."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.commits, self.may_go_on = threading.Event(), threading.Event()

    def record(self, command: object) -> None:
        if isinstance(command, Commit):
            self.commits.set()
            assert self.may_go_on.wait(10)
            self.written.append("commit")
        if isinstance(command, Fail):
            self.written.append(command.error.code)


def test_a_request_that_is_cancelled_during_a_commit_ends_as_cancelled_after_it() -> None:
    async def story() -> None:
        notes = Notes()
        parts: Any = (Loop(LoopRules(), is_complete, ()), Worker(), Passes(), notes, Client())
        request = Prompt(Dialect.CHAT, "pair", [Turn(Role.USER, [Text("write it")])])
        run = OrchestratedRun(RunParts(*parts, now=asyncio.get_running_loop().time), request, "rules")
        task = asyncio.get_running_loop().create_task(run.run())
        assert await asyncio.to_thread(notes.commits.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        notes.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes.written == ["commit", "cancelled"]

    asyncio.run(story())


def test_the_use_of_a_run_says_whether_any_of_it_was_estimated() -> None:
    counted, silent = Usage(100, 20), Usage()
    silent.fill(50, 5)
    run = RunUsage()
    run.on_generated(400, 80, counted)
    assert (run.input, run.output, run.is_estimated) == (100, 20, False)
    run.on_generated(400, 80, silent)
    assert (run.input, run.output, run.is_estimated) == (150, 25, True)
    run.on_generated(400, 80, None)  # it was ended
    assert (run.input, run.output, run.is_estimated) == (250, 45, True)
