"""What holds for every test."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.examples import load_profile
from tests.order import place
from tests.slow import is_heavy, is_slow
from tests.systems import runs_on_macos, why_linux_only
from tests.workers import run

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background by a shell without job control: programs that the tests start would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SDKS = {"anthropic", "httpx", "ollama", "openai"}
NOBODY = Path(__file__).with_name("nobody.pem")
"""A certificate whose key nobody has."""

load_profile()
gc.disable()  # ten thousand tests are collected, none of which is garbage


@pytest.fixture(scope="module", autouse=True)
def trusts_nobody(request: pytest.FixtureRequest) -> Iterator[None]:
    """For each client an SDK reads all authorities that this machine trusts, which takes 40 ms; none is asked here."""
    with pytest.MonkeyPatch.context() as patch:
        if SDKS & vars(request.module).keys():
            patch.setenv("SSL_CERT_FILE", str(NOBODY))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the files of tests in N processes")


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker("slow")
        if is_heavy(item.nodeid):
            item.add_marker("heavy")
        if (why := why_linux_only(item.nodeid)) is not None:
            item.add_marker(pytest.mark.linux(why))
        if runs_on_macos(item.nodeid):
            item.add_marker("macos")
    items.sort(key=lambda item: place(item.nodeid))


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, but not among the tests that were collected."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With `--workers`, several processes run the tests."""
    count: int = session.config.getoption("workers")
    if count < 0:
        raise pytest.UsageError("--workers must be at least 0")
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    run(session, count)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True
