"""Results that promotions need: the gate's runs that they read, and the run that each watch leaves behind."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.events import PromotionWatchEnded
from stoker.domain.run import Run, RunKind, Subject
from stoker_lab.artifacts import result_file
from stoker_lab.artifacts.machine import machine

log = logging.getLogger("stoker.app")
_RESULT_ID = re.compile(r"[A-Za-z0-9._-]{1,120}")


class PromotionResults:
    """`wall` gives Unix time."""

    def __init__(self, state: Path, writer: Executor, wall: Callable[[], float]) -> None:
        self._directory = state / "results"
        self._writer = writer
        self._wall = wall

    def find(self, run_id: str) -> Run | None:
        """A result by its id; None: there is none that can be read."""
        if not _RESULT_ID.fullmatch(run_id):
            return None
        try:
            return result_file.load(result_file.path_of(self._directory, run_id))
        except StokerError:
            return None

    def save_watch(self, ended: PromotionWatchEnded) -> None:
        """Returns at once; the disk is written on a thread."""
        self._writer.submit(self._save, ended)

    def _save(self, ended: PromotionWatchEnded) -> None:
        override, began = ended.override, ended.override.at
        run = Run(
            result_file.new_id(RunKind.PROMOTION, override.serve, began),
            RunKind.PROMOTION,
            began,
            max(0.0, self._wall() - began),
            Subject(override.serve, override.alias, ""),
            ended.finding.outcome,
            [ended.finding],
            settings=result_file.raws(msgspec.structs.asdict(override)),
            machine=result_file.raws(machine()),
        )
        try:
            result_file.save(run, self._directory)
        except StokerError as error:
            log.warning("the result of the promotion of %s cannot be saved: %s", override.alias, error.message)
