"""The serve that is measured: as it is configured, as it runs, and what the engine says of itself."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.cli.failure import NotRunning, UsageError, unknown_serve
from stoker.cli.place import Place, find_place
from stoker.domain.access import Scope
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint, Subject
from stoker.domain.serve import Serve
from stoker.fleet.engines import http

if TYPE_CHECKING:
    from stoker.cli.answers import ServeStatus, Status

KEY = "STOKER_KEY"
_UP = ("ready", "held")
_NOWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Known:
    """One serve of a running Stoker."""

    place: Place
    serve: Serve
    target: Target
    """The front door."""
    subject: Subject

    @property
    def state(self) -> Path:
        return self.place.state

    @property
    def lock(self) -> str:
        """What two measurements may not share."""
        return self.serve.slot or self.serve.name

    def engine(self) -> str | None:
        """`process 812`; empty: none runs; None: nobody answers now."""
        from stoker.domain.errors import StokerError

        try:
            with self.place.control() as control:
                now = control.status().serve(self.serve.name)
        except StokerError:
            return None
        if now is None or now.state in ("stopped", "backoff", "failed", "parked"):
            return ""
        return f"process {now.pid}" if now.pid is not None and now.state in _UP else None


def find(name: str | None, config: str | None, state: str | None) -> Known:
    """Raises UsageError with the command that helps: nothing runs, the serve is down, there is none of that name."""
    place = find_place(config, state)
    try:
        with place.control() as control:
            status = control.status()
    except NotRunning as error:
        raise UsageError(error.message, code=error.code) from error
    now = _chosen(name, status)
    if now.state not in _UP:
        why = f" (its last error: {now.last_error})" if now.last_error else ""
        raise UsageError(
            f"serve '{now.name}' is not running ({now.state}){why}; start it: {start_command(now.name, place)}",
            code="not_up",
        )
    serve = configured(place, now)
    target = _door(place, status, now.name)
    mark = fingerprint(place.state, serve, target)
    base_url = f"http://{target.host}:{target.port}/v1"
    return Known(place, serve, target, Subject(now.name, now.name, base_url, "chat", "front-door", mark))


def start_command(name: str, place: Place) -> str:
    """Exactly as it has to be typed here."""
    source = place.settings.source if place.settings is not None else ""
    where = f" --config {shlex.quote(source)}" if source else f" --state {shlex.quote(str(place.state))}"
    return f"stoker serves up {shlex.quote(name)}{where}"


def configured(place: Place, now: ServeStatus) -> Serve:
    """From the configuration; without one (the demo), what the running Stoker tells."""
    if place.settings is not None:
        return place.serve(now.name)
    return Serve(now.name, now.engine, now.model, now.served_name, slot=now.slot)


def _chosen(name: str | None, status: Status) -> ServeStatus:
    if name is not None:
        found = status.serve(name)
        if found is None:
            raise unknown_serve(name, [one.name for one in status.serves], "the running Stoker")
        return found
    up = [one for one in status.serves if one.state in _UP] or status.serves
    if len(up) == 1:
        return up[0]
    names = ", ".join(one.name for one in up) or "there is none at all"
    raise UsageError(f"which serve? name one of them: {names}")


def _door(place: Place, status: Status, name: str) -> Target:
    door = status.frontdoor
    key = os.environ.get(KEY) or None
    if key is None and door.auth == "keys" and place.settings is not None:
        able = [one for one in place.settings.front_door.keys if one.scope >= Scope.OBSERVE and "*" in one.models]
        key = able[0].value.reveal() if able else None
    if key is None and door.auth == "keys":
        raise UsageError(f"the front door wants a key: put one with scope `observe` into the variable {KEY}")
    return Target(_NOWHERE.get(door.host, door.host), door.port, "", name, key)


def fingerprint(state: Path, serve: Serve, target: Target) -> Fingerprint:
    """Asks the engine through the front door, hashes the weights once."""
    from stoker.measure import fingerprint as marks

    told = asyncio.run(_told(serve.name, target))
    digests = marks.Digests(state).of(marks.files(serve))
    return marks.fingerprint(serve, told, digests, packages(serve))


async def _told(name: str, target: Target) -> Any:
    from stoker.measure.fingerprint import Told

    address = http.Address(target.host, target.port, f"{target.base_path}/upstream/{name}", target.key)
    answers = await asyncio.gather(*(_json(address, path) for path in ("/props", "/v1/models", "/version")))
    return Told(*answers)


async def _json(address: http.Address, path: str) -> Any:
    try:
        answer = await http.ask(address, path, timeout=10.0)
    except http.NoAnswer:
        return None
    if answer.status == 401:
        raise UsageError(f"the front door does not take the key in {KEY}: put one with scope `observe` there")
    return answer.json() if answer.status == 200 else None


def packages(serve: Serve) -> dict[str, str]:
    """Versions of what its engine is made of, where that lies in our own environment."""
    from importlib.metadata import PackageNotFoundError, version

    from stoker.fleet.engines.launch import find_command
    from stoker.fleet.engines.llama_cpp import SERVER

    if serve.engine != "llama.cpp" or serve.cmd is not None or (not serve.embedded and find_command(serve, SERVER)):
        return {}
    try:
        return {"xllamacpp": version("xllamacpp")}
    except PackageNotFoundError:
        return {}
