"""Stands for the CUDA driver in a rehearsal: it suspends a process by a signal, whatever that computes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "tests" / "fleet" / "suspend" / "fake_libcuda.c"
REMARK = "a stand-in for the CUDA driver, which stops processes by a signal"


def made(folder: Path) -> Mapping[str, str] | None:
    """Compiles it; what Stoker starts from now on asks it. The environment of serves that count as users of CUDA; None:
    there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    states, library = folder / "states", folder / "libcuda.so.1"
    states.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-w", f'-DSTATE="{states.absolute()}"', "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    os.environ["LD_LIBRARY_PATH"] = str(folder.absolute())
    return {"LD_PRELOAD": str(library.absolute()), "STAND_IN_USES_CUDA": "1"}
