"""Runs the files of tests in several processes: `pytest --workers 4`.

This process collects, once. Each worker is a fork of it, so that nothing is imported or collected twice. A worker asks
for a file, runs its tests, reports each of them, and asks for the next; one that dies has failed the test that it was
at, and another takes its place.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

Files = dict[str, list[pytest.Item]]


def by_file(items: list[pytest.Item]) -> Files:
    files: Files = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    return files


class Worker:
    """One fork, as this process sees it."""

    def __init__(self, session: pytest.Session, files: Files, temporary: Path, number: int) -> None:
        self.pipe, theirs = Pipe()
        self.file = ""
        self.test = ""
        """The test that it runs."""
        self.pid = os.fork()
        if not self.pid:
            self.pipe.close()
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(temporary)
            os.environ["STOKER_TEST_WORKER"] = str(number)
            _work(session, files, theirs)
        theirs.close()

    def send(self, file: str | None) -> None:
        self.file = file or ""
        with contextlib.suppress(OSError):  # it died: that is noticed when it is read from
            self.pipe.send(file)

    def end(self) -> int:
        """Its exit code, once it has ended."""
        self.pipe.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run(session: pytest.Session, count: int) -> None:
    """Run what was collected in `count` processes."""
    hook = session.config.hook
    files = by_file(session.items)
    waiting = iter(list(files))
    temporary = Path(tempfile.mkdtemp(prefix="t-"))
    numbers = itertools.count()

    def begin() -> Worker:
        number = next(numbers)
        own = temporary / str(number)
        own.mkdir()
        return Worker(session, files, own, number)

    workers = {worker.pipe: worker for worker in (begin() for _ in range(min(count, len(files))))}
    try:
        while workers:
            for pipe in wait(list(workers)):
                worker = workers[pipe]  # type: ignore[index]
                try:
                    kind, value = worker.pipe.recv()
                except EOFError:
                    del workers[worker.pipe]
                    if code := worker.end():
                        _report(session, _died(worker, code))
                        another = begin()
                        workers[another.pipe] = another
                    continue
                if kind == "next":
                    worker.send(None if session.shouldfail or session.shouldstop else next(waiting, None))
                elif kind == "at":
                    worker.test = value
                else:
                    _report(session, hook.pytest_report_from_serializable(config=session.config, data=value))
    finally:
        for worker in workers.values():
            worker.end()
    if not session.testsfailed:
        shutil.rmtree(temporary, ignore_errors=True)


def _report(session: pytest.Session, report: pytest.TestReport) -> None:
    session.config.hook.pytest_runtest_logreport(report=report)


def _died(worker: Worker, code: int) -> pytest.TestReport:
    said = f"the worker that ran {worker.file} ended with exit code {code}; no further test of this file was run"
    test = worker.test or worker.file
    return pytest.TestReport(test, (test, None, ""), {}, "failed", said, "call")


class Reporter:
    """In a worker: passes on what happens."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config = config
        self._pipe = pipe

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._pipe.send(("at", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))

    def pytest_runtest_logfinish(self) -> None:
        self._pipe.send(("at", ""))

    def next_file(self) -> str | None:
        self._pipe.send(("next", None))
        found: str | None = self._pipe.recv()
        return found


def _work(session: pytest.Session, files: Files, pipe: Connection) -> NoReturn:
    """The whole life of a worker."""
    code = 1
    try:
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        capture: Any = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()  # it would share its files with the others
        capture.start_global_capturing()
        reporter = Reporter(session.config, pipe)
        plugins.register(reporter)
        try:
            _run_tests(session, files, reporter)
        finally:
            session.config.hook.pytest_sessionfinish(session=session, exitstatus=0)
        code = 0
    except (KeyboardInterrupt, EOFError, BrokenPipeError):  # somebody ended the whole run
        pass
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _run_tests(session: pytest.Session, files: Files, reporter: Reporter) -> None:
    def items() -> Iterator[pytest.Item | None]:
        while (file := reporter.next_file()) is not None:
            yield from files[file]
        yield None

    for item, after in itertools.pairwise(items()):  # the next file is asked for before the last test of one
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.shouldfail or session.shouldstop:
            return
