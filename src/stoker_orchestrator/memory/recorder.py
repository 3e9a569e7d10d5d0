"""Writes what a run does into its scratchpad and its project."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from stoker.domain.errors import StokerError
from stoker.store.files.remedies import remedy
from stoker_orchestrator.loop.blocks import WorkerBlock
from stoker_orchestrator.loop.messages import Commit, Fail, Finish, RecordBlock, RecordCheck
from stoker_orchestrator.memory.project import ProjectFiles
from stoker_orchestrator.memory.scratchpad import Scratchpad

log = logging.getLogger("stoker.orchestrator")


class RunFiles:
    """A `RunRecorder`. `project` is None where the orchestrator has none."""

    def __init__(self, pad: Scratchpad, project: ProjectFiles | None = None) -> None:
        self._pad = pad
        self._project = project

    def restore(self, committed: Iterable[WorkerBlock]) -> None:
        """Begin with the blocks that an earlier request has committed. Blocks. Raises StokerError."""
        for number, block in enumerate(committed, start=1):
            self.record(Commit(number, 1, block))

    def record(self, command: RecordBlock | RecordCheck | Commit | Finish | Fail) -> None:
        """Blocks. Raises StokerError if a block that passed, or the end, cannot be written: what the client gets has to
        be on disk before.
        """
        try:
            self._record(command)
        except OSError as error:
            reason = error.strerror or str(error)
            advice = remedy(error, self._pad.directory)
            if isinstance(command, Commit):
                text = f"a block could not be committed: the scratchpad cannot be written ({reason}): {advice}"
                raise StokerError(text, code="state_unusable", status=503) from error
            log.warning("the scratchpad cannot be written (%s): %s", reason, advice)

    def _record(self, command: RecordBlock | RecordCheck | Commit | Finish | Fail) -> None:
        match command:
            case RecordBlock(number=number, attempt=attempt, block=block):
                self._pad.add_block(number, attempt, block)
            case RecordCheck(number=number, attempt=attempt, result=result):
                self._pad.add_check(number, attempt, result)
            case Commit(number=number, block=block):
                if self._project is not None:
                    self._project.commit(number, block)
                self._pad.commit(number, block)
            case Finish():
                if self._project is not None:
                    self._project.finish()
                self._pad.end(None)
            case Fail(error=error):
                self._pad.end(error)
