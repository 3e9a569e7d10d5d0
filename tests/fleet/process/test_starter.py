"""A command that is started by way of the starter gets what it would get without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from stoker.fleet.process.starter import started


def said(script: str, **environment: str) -> str:
    whole = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(started(["sh", "-c", script]), env=whole, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_no_signal_is_ignored() -> None:
    """Python ignores some for itself."""
    (ignored,) = [line for line in said("cat /proc/self/status").splitlines() if line.startswith("SigIgn")]
    assert int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing says what was given")
@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C.UTF-8"}, {"LANG": "C"}])
def test_the_locale_is_the_one_that_was_given(given: dict[str, str]) -> None:
    """Python sets another one for itself where there is none."""
    seen = dict(line.split("=", 1) for line in said("env", **given).splitlines())
    assert {name: value for name, value in seen.items() if name.startswith("L")} == given
