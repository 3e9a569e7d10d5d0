"""`python -m scripts.compiling.compiler FOLDER`: compile what modules.txt lists.

FOLDER gets `stoker/…/NAME.SUFFIX.so` for each module, and one library that has their code. Python prefers such a file
to the NAME.py beside it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "stoker__mypyc"
"""The name, without its suffix, of the library with all compiled code."""


def modules() -> list[str]:
    """Paths below src."""
    lines = Path(__file__).with_name("modules.txt").read_text().splitlines()
    return [f"stoker/{line}" for line in lines if line and not line.startswith("#")]


def libraries(folder: Path) -> list[Path]:
    """What `compile_into` made, relative to `folder`."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*.so"))


def compile_into(folder: Path) -> None:
    """Compile into `folder`, which is made anew. Needs mypy, setuptools, a C compiler, and what Stoker depends on.

    Works on a copy, with relative paths: the same source gives the same bytes, wherever it lies.
    """
    from mypyc.build import mypycify
    from setuptools import Distribution

    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="stoker-compile-") as scratch:
        shutil.copytree(ROOT / "src", scratch, dirs_exist_ok=True)  # what is compiled imports its neighbours
        os.chdir(scratch)
        words = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={scratch}/cache", *modules()]
        extensions = mypycify(
            words, opt_level="2", debug_level="0", multi_file=True, target_dir="c", group_name=LIBRARY.partition("_")[0]
        )
        build = Distribution({"name": "stoker", "ext_modules": extensions}).get_command_obj("build_ext")
        build.build_lib, build.build_temp = str(folder), "objects"
        build.ensure_finalized()
        build.run()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # mypyc walks through sets: the order must not differ
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    compile_into(Path(sys.argv[1]).resolve())
