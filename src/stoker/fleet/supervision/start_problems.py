"""What prevents the start of a serve, known without Docker, systemd or a look at memory."""

from __future__ import annotations

import os
from collections.abc import Collection

from stoker.domain.edge import edge_of
from stoker.domain.errors import StartFailed
from stoker.domain.serve import Driver, Serve
from stoker.engines import plan
from stoker.engines.registry import engine_of
from stoker.fleet.drivers.external import address_of
from stoker.fleet.process.ports import port_problem
from stoker.fleet.supervision import requirements


def problems(serve: Serve, ports: Collection[int], pids: Collection[int], with_conflicts: bool = True) -> list[str]:
    """One sentence for each problem, those of `lasting` first. Changes nothing.

    `ports` and `pids`: see `passing`. Takes milliseconds; the first look at the header of a large model takes longer.
    """
    return [*lasting(serve), *passing(serve, ports, pids, with_conflicts)]


def lasting(serve: Serve) -> list[str]:
    """Lasting problems, that another attempt cannot fix: weights, command or engine, files, packages."""
    if serve.driver is Driver.EXTERNAL:
        if edge_of(serve) is not None:
            return []  # where its worker is, the start finds out
        try:
            address_of(serve)
        except StartFailed as failure:
            return [failure.message]
        return []
    if serve.driver is Driver.RAY:
        return []  # what a node has can be seen only there; the driver looks for GPUs
    found = [serve.device_problem] if serve.device_problem else []
    found += [] if serve.driver is Driver.COMPOSE else plan.problems(serve)  # a container has its own command
    if not found and serve.driver is not Driver.COMPOSE:
        found += engine_of(serve.engine).unknown_model(serve)
    if not os.path.isdir(serve.working_directory):
        found.append(f"the directory {serve.working_directory} of serve '{serve.name}' does not exist: create it")
    return [*found, *requirements.unmet_requirements(serve)]


def passing(serve: Serve, ports: Collection[int], pids: Collection[int], with_conflicts: bool = True) -> list[str]:
    """What other programs do, and may end: a fixed port that is taken, conflicts.

    `ports` and `pids` belong to Stoker's own serves and are no problem: a swap frees them. All processes are listed
    only if a port is taken or `conflicts` are given.
    """
    if serve.driver in (Driver.EXTERNAL, Driver.RAY):
        return []
    found: list[str] = []
    if serve.port is not None and serve.port not in ports and serve.driver is Driver.PROCESS:
        problem = port_problem(serve.host, serve.port, is_here=serve.cmd is None)
        if problem is not None:
            found.append(f"serve '{serve.name}': {problem}")
    if with_conflicts:
        found += requirements.conflicting_processes(serve, pids)
    return found
