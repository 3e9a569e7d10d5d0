"""What the wheel has to hold: the program as it is in git with all its data, share, the licence; and nothing else."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from scripts.compiling import compiler

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTATION = "docs.tar.xz"
"""In the program's folder of a release: what `stoker docs` serves. It is made for the release, and is not in git."""
NEEDED = (
    *sorted(f"{package.parent.name}/py.typed" for package in (ROOT / "src").glob("*/__init__.py")),
    "stoker/models/spark.gguf",
    "stoker/models/ember.gguf",
    "stoker_auto/classify/data/weights.bin",
    "stoker/gateway/web/static/index.html",
    "stoker/gateway/web/static/vendor/preact.js",
    "stoker/gateway/web/static/vendor/LICENSE.preact",
)
"""Data without which something fails only when it is used."""


def tracked(folder: str, root: Path = ROOT) -> set[str]:
    """The files below `folder` that git knows, by their path in the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=root, capture_output=True, check=True).stdout
    return {name for name in listed.decode().split("\0") if name}


def expected(version: str, root: Path = ROOT) -> set[str]:
    """Every name in the wheel of `version`."""
    program = {name.removeprefix("src/") for name in tracked("src", root)}
    data = {f"stoker-{version}.data/data/{name}" for name in tracked("share", root)}
    about = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    docs = {f"stoker/{name}" for name in tracked("docs", root) if name.endswith(".md")}
    return program | data | docs | {f"stoker-{version}.dist-info/{name}" for name in about}


def is_compiled(wheel: Path) -> bool:
    return not wheel.name.endswith("-none-any.whl")


def compiled(wheel: Path) -> set[str]:
    """Every name that only a compiled wheel has: `stoker-0.1.0-cp311-cp311-linux_x86_64.whl` has
    `stoker/gateway/flow.cpython-311-x86_64-linux-gnu.so`.
    """
    python, _, system = wheel.stem.split("-")[-3:]
    suffix = f".cpython-{python.removeprefix('cp')}-{system.removeprefix('linux_')}-linux-gnu.so"
    return {name.removesuffix(".py") + suffix for name in (*compiler.modules(), compiler.LIBRARY)}


def problems(wheel: Path, version: str, root: Path = ROOT) -> list[str]:
    """What is missing in the wheel, and what should not be there."""
    names, wanted = set(zipfile.ZipFile(wheel).namelist()), expected(version, root) | set(NEEDED)
    if is_compiled(wheel):
        wanted |= compiled(wheel)
    return [f"{wheel.name} lacks {name}" for name in sorted(wanted - names)] + [
        f"{wheel.name} has {name}, which is not in git" for name in sorted(names - wanted - {f"stoker/{DOCUMENTATION}"})
    ]
