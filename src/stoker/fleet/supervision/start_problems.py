"""What prevents the start of a serve, known without Docker, systemd or a look at memory: the engine, `requires`, the
directory, the port, `conflicts`. And which files a start reads, to see whether one of them is another one now.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Collection, Iterator
from importlib.util import find_spec

from stoker.domain.errors import StartFailed
from stoker.domain.protocols import FileMarks
from stoker.domain.serve import Driver, Serve
from stoker.engines import plan
from stoker.engines.launch import LaunchPlace, find_command
from stoker.engines.registry import ENGINES, engine_of
from stoker.fleet.drivers.external import address_of
from stoker.fleet.process.environment import port_problem
from stoker.store.files.split_gguf import model_files

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
    parts = _CLAUSE.match(clause)
    if parts is None:
        return False
    have, want = _numbers(version), _numbers(parts[2])
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
    }[parts[1]]


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


MOST_IN_A_FOLDER = 2000
_READ = (".gguf", ".safetensors", ".bin", ".pt", ".json", ".jinja", ".yaml", ".yml", ".py", ".sh")
"""What an engine reads and never writes: its log, if an option names that, changes with every start."""


def marks(serve: Serve) -> FileMarks:
    """Of the weights, the engine, and the files that its command line names; those that do not exist are left out.

    Call it for a serve whose command line can be made: see `plan.problems`. Contents are not read.
    """
    if serve.driver in (Driver.EXTERNAL, Driver.RAY, Driver.BOX):
        return ()
    files = {path: seen for path in _paths(serve) if (seen := _stat(path)) is not None}
    return tuple((path, seen.st_ino, seen.st_size, seen.st_mtime_ns) for path, seen in sorted(files.items()))


def _paths(serve: Serve) -> Iterator[str]:
    if serve.model:
        for path in model_files(os.path.join(serve.working_directory, serve.model)):
            yield path
            yield from _inside(path)
    if serve.driver is Driver.PROCESS:
        words = plan.plan(serve, LaunchPlace(serve.port or 1, "")).argv
        modules = {part: package for engine in ENGINES.values() for part, package in engine.modules.items()}
        for package in {package for part, package in modules.items() if any(part in word for word in words)}:
            if (spec := find_spec(package)) is not None and spec.origin is not None:
                yield from _inside(os.path.dirname(spec.origin))
    else:
        words = serve.up or ()
    for place, word in enumerate((*words, *serve.requires.files)):
        for part in (word, word.partition("=")[2]):
            if place == 0 or part.endswith(_READ):
                yield os.path.join(serve.working_directory, part)


def _inside(path: str) -> Iterator[str]:
    """The files of a folder of weights."""
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            yield from (entry.path for entry in itertools.islice(entries, MOST_IN_A_FOLDER))


def _stat(path: str) -> os.stat_result | None:
    """None: there is no such file. A folder changes with what lies in it, so it counts only by that."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(seen.st_mode) else seen


def problems(serve: Serve, ports: Collection[int], pids: Collection[int], with_conflicts: bool = True) -> list[str]:
    """One sentence for each problem, those of `lasting` first. Changes nothing.

    `ports` and `pids`: see `passing`. Takes milliseconds; the first look at the header of a large model takes longer.
    """
    return [*lasting(serve), *passing(serve, ports, pids, with_conflicts)]


def lasting(serve: Serve) -> list[str]:
    """Lasting problems, that another attempt cannot fix: weights, command or engine, files, packages."""
    if serve.driver is Driver.EXTERNAL:
        if serve.edge is not None:
            return []  # where its worker is, the start finds out
        try:
            address_of(serve)
        except StartFailed as failure:
            return [failure.message]
        return []
    if serve.driver in (Driver.RAY, Driver.BOX):
        return []  # what another machine has can be seen only there; the driver looks
    problems = [serve.device_problem] if serve.device_problem else []
    problems += [] if serve.driver is Driver.COMPOSE else plan.problems(serve)  # a container has its own command
    if not problems and serve.driver is not Driver.COMPOSE:
        problems += engine_of(serve.engine).unknown_model(serve)
    if not os.path.isdir(serve.working_directory):
        problems.append(f"the directory {serve.working_directory} of serve '{serve.name}' does not exist: create it")
    return [*problems, *unmet_requirements(serve)]


def passing(serve: Serve, ports: Collection[int], pids: Collection[int], with_conflicts: bool = True) -> list[str]:
    """What other programs do, and may end: a fixed port that is taken, conflicts.

    `ports` and `pids` belong to Stoker's own serves and are no problem: a swap frees them. All processes are listed
    only if a port is taken or `conflicts` are given.
    """
    if serve.driver in (Driver.EXTERNAL, Driver.RAY, Driver.BOX):
        return []
    problems: list[str] = []
    if serve.port is not None and serve.port not in ports and serve.driver is Driver.PROCESS:
        problem = port_problem(serve.host, serve.port, is_here=serve.cmd is None)
        if problem is not None:
            problems.append(f"serve '{serve.name}': {problem}")
    if with_conflicts:
        problems += conflicting_processes(serve, pids)
    return problems
