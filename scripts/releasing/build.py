"""sdist and wheel of the last commit: built twice from two copies of it, which have to give the same bytes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from scripts.releasing import contents, sbom, version
from scripts.releasing.changelog import ReleaseRefused
from scripts.releasing.tools import ROOT, compiling_python, run, tool

DIST = ROOT / "dist"


def build(dist: Path = DIST) -> list[Path]:
    """Make `dist` anew. Returns its files. Raises ReleaseRefused.

    Uncommitted changes are not part of it; a note says so.
    """
    if run(["git", "status", "--porcelain", "--untracked-files=no"], shown=False).strip():
        print("note: uncommitted changes are not part of the release", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="stoker-release-") as scratch:
        docs = _documentation(Path(scratch) / "docs")
        one, two = (_built(Path(scratch) / name, docs) for name in ("one", "two"))
        if hashes(one) != hashes(two):
            raise ReleaseRefused(f"not reproducible: {hashes(one)} and {hashes(two)}")
        shutil.rmtree(dist, ignore_errors=True)
        shutil.copytree(one, dist)
    print("reproducible: built twice, the same bytes")
    files = sorted(dist.iterdir())
    run([tool("twine"), "check", "--strict", *map(str, files)])
    for wheel in dist.glob("*.whl"):
        if wrong := contents.problems(wheel, version.current()):
            raise ReleaseRefused("\n".join(wrong))
    sbom.write(dist / f"stoker-{version.current()}.cdx.json")
    write_sums(dist)
    return sorted(dist.iterdir())


def build_compiled(python: str, pure: Path) -> Path:
    """Add a wheel with the hot path compiled beside `pure`: for one version of Python, and this machine's kind of
    processor and C library. Raises ReleaseRefused.
    """
    inside = f"stoker/{contents.DOCUMENTATION}"
    with tempfile.TemporaryDirectory(prefix="stoker-release-") as scratch:
        source, made = Path(scratch) / "source", Path(scratch) / "dist"
        checkout(source)
        (source / "src" / inside).write_bytes(zipfile.ZipFile(pure).read(inside))
        settings = {"SOURCE_DATE_EPOCH": epoch(), "PYTHONDONTWRITEBYTECODE": "1", "STOKER_COMPILE": "1"}
        run([compiling_python(python), "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)], source, settings)
        (wheel,) = made.glob("*.whl")
        if wrong := contents.problems(wheel, version.current()):
            raise ReleaseRefused("\n".join(wrong))
        shutil.copy(wheel, pure.parent)
    write_sums(pure.parent)
    return pure.parent / wheel.name


def epoch() -> str:
    """SOURCE_DATE_EPOCH: when the last commit was made."""
    return run(["git", "log", "-1", "--format=%ct"], shown=False).strip()


def checkout(folder: Path) -> None:
    """The last commit as files, without git."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], input=archive, cwd=folder, check=True)


def _documentation(folder: Path) -> Path:
    """The site that `stoker docs` serves, as one file; made with the generator of scripts/docs-site."""
    checkout(folder)
    (ROOT / "build").mkdir(exist_ok=True)
    (folder / "build").symlink_to(ROOT / "build")
    archive = folder.parent / contents.DOCUMENTATION
    words = ["--version", version.current(), "--check", "--out", str(folder / "site"), "--archive", str(archive)]
    run([sys.executable, "-m", "scripts.docs_site", *words], folder)
    return archive


def _built(folder: Path, docs: Path) -> Path:
    checkout(folder / "source")
    shutil.copyfile(docs, folder / "source" / "src" / "stoker" / contents.DOCUMENTATION)
    command = [tool("python"), "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), "."]
    run(command, folder / "source", {"SOURCE_DATE_EPOCH": epoch(), "PYTHONDONTWRITEBYTECODE": "1"})
    return folder / "dist"


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 by the name of the file."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def write_sums(dist: Path) -> None:
    """SHA256SUMS of everything else in `dist`, as `sha256sum --check` reads it."""
    sums = dist / "SHA256SUMS"
    sums.unlink(missing_ok=True)
    sums.write_text("".join(f"{digest}  {name}\n" for name, digest in hashes(dist).items()))
