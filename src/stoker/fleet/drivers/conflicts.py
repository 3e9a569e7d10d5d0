"""Stops what cannot run beside a serve, for good: the containers and systemd units that its `conflicts` name.

`container:NAME` and `unit:NAME` are stopped here and kept from coming back, so that a reboot starts only one model. Any
other entry is the name of a program: if it runs, that is an obstacle (`supervision.requirements`); it is not stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.domain.errors import StartFailed
from stoker.fleet.drivers.containers import HOLDS, STEPS
from stoker.fleet.drivers.docker import CommandResult, Docker, DockerFailed, DockerFault, last_line, run
from stoker.fleet.process.environment import child_environment

STOP_LIMIT = 120.0
"""Seconds that systemd has to stop a unit."""
GRACE = 10.0
"""Seconds that a container has between its stop signal and SIGKILL."""
_CONTAINER, _UNIT = "container:", "unit:"
_GONE_FOR_GOOD = ("disabled", "masked", "static", "indirect", "generated", "transient", "not-found", "")


class Conflicts:
    """Talks to Docker and to systemd. If one of them is not installed, it runs nothing; that is not a failure."""

    def __init__(self, ours: Mapping[str, str]) -> None:
        self._docker = Docker(ours)
        self._environment = child_environment(ours, {}, {})

    async def present(self, conflicts: Sequence[str]) -> list[str]:
        """The entries that run now, or would start again by themselves: those that `disable` would stop. Raises
        StartFailed.
        """
        return [entry for entry in conflicts if await self._is_present(entry)]

    async def disable(self, conflicts: Sequence[str]) -> list[str]:
        """Stops and disables the entries; returns a sentence for each. Raises StartFailed if one does not stop."""
        done = []
        for entry in conflicts:
            if not await self._is_present(entry):
                continue
            undo = await self._undo(entry)
            if entry.startswith(_CONTAINER):
                await self._end_container(entry.removeprefix(_CONTAINER))
            else:
                await self._end_unit(entry.removeprefix(_UNIT))
            if await self._is_present(entry):
                raise StartFailed(f"`{entry}` is in `conflicts` and still runs: {_by_hand(entry)}", code="conflict")
            done.append(f"`{entry}` was stopped and disabled; to undo this: {undo}")
        return done

    async def _is_present(self, entry: str) -> bool:
        if entry.startswith(_CONTAINER):
            try:
                found = await self._docker.inspect(entry.removeprefix(_CONTAINER))
            except DockerFailed as failure:
                if failure.fault is DockerFault.NOT_INSTALLED:
                    return False
                raise _failed(entry, failure.message) from failure
            return found is not None and (found.state in HOLDS or found.restart_policy == "always")
        if entry.startswith(_UNIT):
            return await self._is_unit_present(entry)
        return False

    async def _end_container(self, name: str) -> None:
        """Changes the restart policy first, because a container that is only stopped may start again."""
        try:
            await self._docker.never_restart(name)
            found = await self._docker.inspect(name)
            for verb in STEPS[found.state] if found is not None else ():
                if verb == "unpause":
                    await self._docker.unpause(name)
                else:
                    await self._docker.stop(name, GRACE)
        except DockerFailed as failure:
            raise _failed(f"{_CONTAINER}{name}", failure.message) from failure

    async def _undo(self, entry: str) -> str:
        if not entry.startswith(_CONTAINER):
            return f"`sudo systemctl enable --now {entry.removeprefix(_UNIT)}`"
        name = entry.removeprefix(_CONTAINER)
        try:
            found = await self._docker.inspect(name)
        except DockerFailed:
            found = None
        policy = found.restart_policy if found is not None else ""
        again = f"docker update --restart={policy} {name} && " if policy and policy != "no" else ""
        return f"`{again}docker start {name}`"

    async def _is_unit_present(self, entry: str) -> bool:
        shown = await self._systemctl(entry, "show", "--property=ActiveState,UnitFileState", "--")
        if shown is None or shown.code != 0:
            return False  # no systemd here, or not in charge
        values = dict(line.split("=", 1) for line in shown.out.splitlines() if "=" in line)
        is_active = values.get("ActiveState", "inactive") not in ("inactive", "failed")
        return is_active or values.get("UnitFileState", "") not in _GONE_FOR_GOOD

    async def _end_unit(self, name: str) -> None:
        result = await self._systemctl(f"{_UNIT}{name}", "disable", "--now", "--")
        if result is not None and result.code != 0:
            raise _failed(f"{_UNIT}{name}", last_line(result.err))
        # `disable --now` silently leaves a unit running that cannot be disabled (static, generated).
        result = await self._systemctl(f"{_UNIT}{name}", "stop", "--")
        if result is not None and result.code != 0:
            raise _failed(f"{_UNIT}{name}", last_line(result.err))

    async def _systemctl(self, entry: str, *words: str) -> CommandResult | None:
        """None: there is no systemctl. Raises StartFailed for one that does not answer."""
        try:
            return await run(["systemctl", *words, entry.removeprefix(_UNIT)], self._environment, STOP_LIMIT)
        except TimeoutError:
            raise _failed(entry, f"systemd did not answer within {STOP_LIMIT:g} s") from None
        except FileNotFoundError:
            return None


def _failed(entry: str, why: str) -> StartFailed:
    return StartFailed(
        f"`{entry}` is in `conflicts` and could not be stopped ({why}): {_by_hand(entry)}", code="conflict"
    )


def _by_hand(entry: str) -> str:
    if entry.startswith(_CONTAINER):
        name = entry.removeprefix(_CONTAINER)
        return f"type `docker update --restart=no {name}` and `docker stop {name}`"
    return f"type `sudo systemctl disable --now {entry.removeprefix(_UNIT)}`"
