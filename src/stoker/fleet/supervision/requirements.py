"""Checks a serve's `requires` (files, commands, packages) and `conflicts` (processes that must not run)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator

from stoker.domain.serve import Serve
from stoker.engines.launch import find_command

_CLAUSE = re.compile(r"^\s*(==|!=|>=|<=|>|<|~=)\s*([0-9][0-9.]*)\s*$")


def unmet_requirements(serve: Serve) -> Iterator[str]:
    """One sentence for each entry of `requires` that is not met. Packages are looked up in Stoker's own interpreter."""
    subject = f"serve '{serve.name}' requires"
    for file in serve.requires.files:
        path = os.path.join(serve.directory, file)
        if not os.path.exists(path):
            yield f"{subject} the file {path}, which does not exist: create it, or correct `requires`"
    for command in serve.requires.commands:
        if find_command(serve, command) is None:
            yield f"{subject} the command `{command}`, which is not on PATH: install it"
    for package, wanted in serve.requires.packages.items():
        from importlib import metadata  # a megabyte that only such a serve needs

        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            yield f"{subject} the Python package {package}{wanted}, which is not installed: install it"
            continue
        if not meets_specifier(version, wanted):
            yield f"{subject} {package}{wanted}, but {version} is installed: install another version"


def conflicting_processes(serve: Serve, ours: Collection[int]) -> Iterator[str]:
    """One sentence for each running process that `conflicts` names, by its name or its program. Ignores `ours`."""
    names = {entry.removesuffix(".service"): entry for entry in serve.conflicts}
    if not names:
        return
    import psutil  # a megabyte, which only such a serve needs

    for process in psutil.process_iter(["pid", "name", "cmdline"]):
        info = process.info
        if info["pid"] in ours or info["pid"] == os.getpid():
            continue
        program = os.path.basename((info["cmdline"] or [""])[0])
        for name in {info["name"], program} & names.keys():
            yield (
                f"`{names[name]}` runs as process {info['pid']} and cannot run beside serve '{serve.name}': "
                "stop it, or remove it from `conflicts`"
            )


def meets_specifier(version: str, wanted: str) -> bool:
    """Whether a version meets a specifier such as `>=0.8,<0.9`.

    `packaging` decides if it is installed. Else the numbers before the first letter are compared, with the operators
    == != >= <= > < ~=. A specifier that cannot be parsed is not met.
    """
    try:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
    except ImportError:
        return all(_meets(version, clause) for clause in wanted.split(",") if clause.strip())
    try:
        return SpecifierSet(wanted).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False


def _meets(version: str, clause: str) -> bool:
    found = _CLAUSE.match(clause)
    if found is None:
        return False
    have, want = _numbers(version), _numbers(found[2])
    length = max(len(have), len(want))
    left, right = have + (0,) * (length - len(have)), want + (0,) * (length - len(want))
    return {
        "==": left == right,
        "!=": left != right,
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
        "~=": left >= right and have[: len(want) - 1] == want[:-1],
    }[found[1]]


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
