"""Runs the files of tests in several processes: `pytest --workers 4`.

This process collects, once. Each worker is a fork of it, so that nothing is imported or collected twice. A worker asks
for a file, runs its tests, reports each of them, and asks for the next. One that dies has failed the test that it was
at; another takes its place, and runs what it had not finished.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest._io import TerminalWriter

Batch = list[int]
"""Tests of one file, by their place in the session's list, in their order."""


def batches(items: list[pytest.Item]) -> deque[Batch]:
    files: dict[str, Batch] = {}
    for index, item in enumerate(items):
        files.setdefault(item.nodeid.partition("::")[0], []).append(index)
    return deque(files.values())


class Worker:
    """One fork, as this process sees it."""

    def __init__(self, session: pytest.Session, temporary: Path, others: Iterable[Worker]) -> None:
        self.pipe, theirs = Pipe()
        self.unfinished: dict[int, None] = {}
        """What it was given and has not finished, in its order."""
        self.is_done = False
        """It was told that there is nothing more."""
        self.pid = os.fork()
        if not self.pid:
            for pipe in (self.pipe, *(other.pipe for other in others)):
                pipe.close()  # whoever holds another's end keeps it from seeing that this process is gone
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(temporary)
            os.environ["STOKER_TEST_WORKER"] = temporary.name
            _work(session, theirs)
        theirs.close()

    def give(self, batch: Batch | None) -> None:
        self.is_done = batch is None
        self.unfinished.update(dict.fromkeys(batch or ()))
        with contextlib.suppress(OSError):  # it died: that is noticed when it is read from
            self.pipe.send(batch)

    def end(self) -> int:
        """Its exit code, once it has ended."""
        self.pipe.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run(session: pytest.Session, count: int) -> None:
    """Run what was collected in `count` processes."""
    hook = session.config.hook
    waiting = batches(session.items)
    temporary = Path(tempfile.gettempdir(), f"t-{os.getuid()}")  # short, for sockets; pytest removes what is old
    workers: dict[Connection, Worker] = {}
    begun = 0

    def begin() -> None:
        nonlocal begun
        own = temporary / str(begun)
        own.mkdir(parents=True, exist_ok=True)
        begun += 1
        worker = Worker(session, own, workers.values())
        workers[worker.pipe] = worker

    try:
        for _ in range(min(count, len(waiting))):
            begin()
        while workers:
            for pipe in wait(list(workers)):
                worker = workers[pipe]  # type: ignore[index]
                try:
                    kind, value = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    del workers[worker.pipe]
                    code = worker.end()
                    if worker.is_done and not code and (_is_over(session) or not worker.unfinished):
                        continue
                    rest = list(worker.unfinished)
                    failed = session.items[rest.pop(0)].nodeid if rest else "a worker"
                    _report(session, _died(failed, code))
                    waiting.extendleft(reversed(batches_of(rest, session)))
                    if waiting and not _is_over(session):
                        begin()
                    continue
                if kind == "next" and not worker.is_done:
                    worker.give(None if _is_over(session) or not waiting else waiting.popleft())
                elif kind == "done":
                    del worker.unfinished[value]
                elif kind == "report":
                    _report(session, hook.pytest_report_from_serializable(config=session.config, data=value))
                    if _is_over(session):
                        for other in workers.values():
                            if not other.is_done:
                                other.give(None)
    finally:
        for worker in workers.values():
            worker.pipe.close()  # each ends after the test that it is at
        for worker in workers.values():
            worker.end()


def batches_of(indices: list[int], session: pytest.Session) -> list[Batch]:
    """What a worker had not finished, file by file."""
    again: list[Batch] = []
    for index in indices:
        if again and _file(session, again[-1][0]) == _file(session, index):
            again[-1].append(index)
        else:
            again.append([index])
    return again


def _file(session: pytest.Session, index: int) -> str:
    return session.items[index].nodeid.partition("::")[0]


def _is_over(session: pytest.Session) -> bool:
    return bool(session.shouldfail or session.shouldstop)


def _report(session: pytest.Session, report: pytest.TestReport) -> None:
    session.config.hook.pytest_runtest_logreport(report=report)


def _died(test: str, code: int) -> pytest.TestReport:
    said = f"the worker that was at {test} ended with exit code {code}"
    return pytest.TestReport(test, (test, None, ""), {}, "failed", said, "call")


class _Terminal:
    """In a worker, in the place of pytest's own: for plugins that say something beside the reports, as that one does
    which ends a test after its time.
    """

    def __init__(self) -> None:
        self._tw = TerminalWriter(sys.__stderr__)


class Reporter:
    """In a worker: passes on what happens."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config = config
        self._pipe = pipe

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))

    def done(self, index: int) -> None:
        self._pipe.send(("done", index))

    def next_batch(self) -> Batch | None:
        self._pipe.send(("next", None))
        batch: Batch | None = self._pipe.recv()
        return batch

    def is_told_to_stop(self) -> bool:
        """Something was said without having been asked for: that there is nothing more."""
        return self._pipe.poll() and self._pipe.recv() is None


def _work(session: pytest.Session, pipe: Connection) -> NoReturn:
    """The whole life of a worker."""
    code = 1
    try:
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(_Terminal(), name="terminalreporter")
        capture: Any = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()  # it would share its files with the others
        capture.start_global_capturing()
        reporter = Reporter(session.config, pipe)
        plugins.register(reporter)
        try:
            _run_tests(session, reporter)
        finally:
            session.config.hook.pytest_sessionfinish(session=session, exitstatus=0)
        code = 0
    except (KeyboardInterrupt, EOFError, BrokenPipeError):  # somebody ended the whole run
        pass
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _run_tests(session: pytest.Session, reporter: Reporter) -> None:
    def indices() -> Iterator[int]:
        while (batch := reporter.next_batch()) is not None:
            yield from batch

    coming = indices()
    index = next(coming, None)
    while index is not None:
        after = next(coming, None)  # the next file is asked for before the last test of one: its fixtures may go on
        item = session.items[index]
        nextitem = None if after is None else session.items[after]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        reporter.done(index)
        if session.shouldfail or session.shouldstop or reporter.is_told_to_stop():
            return
        index = after
