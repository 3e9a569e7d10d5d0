"""The commands of `scripts/release`. Exit 0: done; 1: refused or failed, with the reason on stderr."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from scripts.releasing import build, changelog, deb, installed, version
from scripts.releasing.changelog import ReleaseRefused


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/release", description="Make and check a release of Stoker.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("bump", help="set the version, and move what is unreleased under it in CHANGELOG.md")
    one.add_argument("version", metavar="X.Y.Z")
    one.set_defaults(run=_bump)
    one = commands.add_parser("notes", help="print what a version changed, from CHANGELOG.md")
    one.add_argument("version", metavar="X.Y.Z", nargs="?", default=version.current())
    one.set_defaults(run=_notes)
    one = commands.add_parser("build", help="build sdist and wheel twice and compare them; bill of materials, hashes")
    one.set_defaults(run=_build)
    one = commands.add_parser("compile", help="add a wheel with the hot path compiled to dist, for each Python")
    one.add_argument("python", metavar="3.X", nargs="*", default=installed.PYTHONS, help="default: 3.11 3.12 3.13")
    one.set_defaults(run=_compile)
    one = commands.add_parser("check", help="install each wheel into an empty environment of each Python, and use it")
    one.add_argument("python", metavar="3.X", nargs="*", default=installed.PYTHONS, help="default: 3.11 3.12 3.13")
    one.set_defaults(run=_check)
    one = commands.add_parser("deb", help="make Debian packages of the wheel, one for each Debian release")
    one.add_argument("python", metavar="3.X", nargs="*", default=tuple(deb.PYTHONS), help="default: 3.11 3.13")
    one.set_defaults(run=_deb)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except ReleaseRefused as refusal:
        print(f"scripts/release: {refusal}", file=sys.stderr)
        return 1
    return 0


def _bump(arguments: argparse.Namespace) -> None:
    new = arguments.version
    files = version.bump(new, datetime.datetime.now(datetime.UTC).date())
    print("changed", *files, sep="\n  ")
    print(f"next: git commit -am 'Version {new}' && git tag -s v{new} -m v{new} && git push origin main v{new}")


def _notes(arguments: argparse.Namespace) -> None:
    print(changelog.notes((version.ROOT / version.CHANGELOG).read_text(), arguments.version), end="")


def _build(_: argparse.Namespace) -> None:
    for file in build.build():
        print(f"{file.stat().st_size:>10,} {file.relative_to(version.ROOT)}")


def _compile(arguments: argparse.Namespace) -> None:
    for python in arguments.python:
        wheel = build.build_compiled(python, _wheel())
        print(f"{wheel.stat().st_size:>10,} {wheel.relative_to(version.ROOT)}")


def _wheel() -> Path:
    wheels = sorted(build.DIST.glob("*-none-any.whl"))
    if not wheels:
        raise ReleaseRefused("dist has no wheel: type scripts/release build")
    return wheels[0]


def _deb(arguments: argparse.Namespace) -> None:
    for python in arguments.python:
        package = deb.make(python, _wheel())
        print(f"{package.stat().st_size:>10,} {package.relative_to(version.ROOT)}")


def _check(arguments: argparse.Namespace) -> None:
    results = []
    for python in arguments.python:
        compiled = build.DIST.glob(f"*-cp{python.replace('.', '')}-*.whl")
        results += [installed.check(python, wheel) for wheel in (_wheel(), *compiled)]
    for result in results:
        print(result)
    if any(result.outcome == "failed" for result in results):
        raise ReleaseRefused("not every Python passed")
    if all(result.outcome == "skipped" for result in results):
        raise ReleaseRefused("nothing was checked")


if __name__ == "__main__":
    sys.exit(main())
