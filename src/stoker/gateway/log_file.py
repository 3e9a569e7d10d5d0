"""Stoker's own log file: private, rotated, one line per record."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from stoker.domain.printable import one_line
from stoker.fleet.process.logs import open_log
from stoker.store.files.directories import make_directory
from stoker.store.files.remedies import remedy


class _PrivateLog(RotatingFileHandler):
    """A rotated log file that only its owner can read, whatever its directory allows. While it cannot be written,
    errors go to stderr: whoever started Stoker may see them there.
    """

    _is_failing = False

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self.stream is not None:  # `handleError` closes it
            self._is_failing = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Called while the error is handled."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._drop_stream()  # what it has not written would be tried again with each record
        lines = []
        if not self._is_failing:
            self._is_failing = True
            path = Path(self.baseFilename)
            lines.append(f"{path} cannot be written ({error.strerror}): {remedy(error, path.parent)}")
        if record.levelno >= logging.ERROR and not getattr(record, "is_announced", False):
            lines.append(one_line(record.getMessage()))
        with contextlib.suppress(OSError, ValueError):
            for line in lines:
                print(f"stoker: {line}", file=sys.stderr, flush=True)

    def close(self) -> None:
        self._drop_stream()
        super().close()

    def _drop_stream(self) -> None:
        stream, self.stream = self.stream, None  # as FileHandler does
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.close()

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(
            os.fdopen(open_log(Path(self.baseFilename)), "ab"), encoding="utf-8", errors="backslashreplace"
        )


class _OneLineFormatter(logging.Formatter):
    """One line for each record, whatever its text holds; tracebacks are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {one_line(line)}" for line in text.split("\n"))


@contextlib.contextmanager
def logging_to(logs: Path, most: int) -> Iterator[None]:
    """Write Stoker's own log to `LOGS/stoker.log`: at most `most` bytes, and as many in the file before.

    Raises StokerError `state_unusable` if others may write into the directory, and OSError.
    """
    make_directory(logs, "choose another one with `logs` under [paths]")
    os.close(open_log(logs / "stoker.log"))
    handler = _PrivateLog(logs / "stoker.log", maxBytes=most, backupCount=1, delay=True)
    handler.setFormatter(_OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    loggers = [logging.getLogger(name) for name in ("stoker", "asyncio")]
    earlier = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if logger.name == "stoker" else logging.ERROR)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagates) in zip(loggers, earlier, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
        handler.close()
