"""Two measurements on one slot: the second is told about the first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.domain.errors import StokerError
from stoker_lab.lock import hold_measurement_lock

HOLD = """
import sys, time
from pathlib import Path
from stoker_lab.lock import hold_measurement_lock
with hold_measurement_lock(Path(sys.argv[1]), "gpu0", "a soak of fast"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_who_is_first_and_a_crash_leaves_no_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(StokerError, match=f"a soak of fast.*{holder.pid}") as caught,
            hold_measurement_lock(tmp_path, "gpu0", "x"),
        ):
            pass
        assert caught.value.code == "measuring"
        with hold_measurement_lock(tmp_path, "gpu1", "a canary"):  # another slot
            pass
    finally:
        holder.kill()
        holder.communicate()
    with hold_measurement_lock(tmp_path, "gpu0", "a canary"):
        assert (tmp_path / "measuring" / "gpu0.lock").read_text().startswith(f"{os.getpid()}\na canary\n")
    assert (tmp_path / "measuring" / "gpu0.lock").read_text() == ""


def test_a_place_that_cannot_be_locked_is_said(tmp_path: Path) -> None:
    (tmp_path / "measuring").write_text("")
    with pytest.raises(StokerError, match="cannot be opened"), hold_measurement_lock(tmp_path, "a/b", "x"):
        pass
