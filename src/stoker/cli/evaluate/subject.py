"""Who is measured: a serve of the running Stoker, or whatever answers at an address."""

from __future__ import annotations

import asyncio
import difflib
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.evaluate.known import configured, fingerprint
from stoker.cli.failure import UsageError, unknown_serve
from stoker.cli.place import Place, find_place
from stoker.domain.errors import ConfigError, UpstreamError
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint, Subject
from stoker.measure.server import Model, Server, at_url, models

if TYPE_CHECKING:
    from stoker.cli.answers import ServeStatus, Status

KEY = "STOKER_KEY"
"""Where the front door's key is looked for if nothing else is said."""
_UP = ("ready", "held")


@dataclass(frozen=True, slots=True)
class Found:
    """The ways to one model, the one that was asked for first, and where results of it are kept."""

    servers: list[Server]
    serve: str
    results: Path
    context: int | None = None
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    notes: tuple[str, ...] = ()
    """What was asked for and cannot be had, in words."""
    slot: str = ""
    """What two measurements may not share; empty: the model alone."""

    def subject(self, route: str) -> Subject:
        server = next(one for one in self.servers if one.route == route)
        return Subject(self.serve, server.target.served_name, server.base_url, "chat", route, self.fingerprint)


def find(
    serve: str | None, base_url: str | None, model: str | None, key_env: str | None, direct: bool, config: str | None,
    state: str | None,
) -> Found:  # fmt: skip
    """Raises UsageError with the command that helps: nothing runs there, it is down, no such model."""
    if base_url is not None:
        if serve is not None:
            raise UsageError("give either a serve of the running Stoker, or --base-url with --model, not both")
        return _at_url(base_url, model, key_env, direct, config, state)
    if model is not None:
        raise UsageError("--model goes with --base-url; a serve is named without it: stoker eval benchmark SERVE")
    return _of_stoker(serve, key_env, direct, find_place(config, state))


def _at_url(
    url: str, model: str | None, key_env: str | None, direct: bool, config: str | None, state: str | None
) -> Found:
    try:
        # The front door's key goes nowhere else: a foreign address gets only the one that is named for it.
        target = at_url(url, model or "", _key(key_env, must=True) if key_env is not None else None)
    except ValueError as error:
        raise UsageError(f"--base-url: {error}") from error
    listed = _listed(target, f"{url} does not answer as a server of models")
    known = [one.id for one in listed]
    if model is None:
        if len(known) != 1:
            raise UsageError(f"--model is needed: {url} has {', '.join(known) or 'no models'}")
        model = known[0]
    target = replace(target, served_name=model)
    notes = ("--direct is left out: whatever answers at --base-url is asked directly",) if direct else ()
    return Found(
        [Server("public", target)], model, _results(config, state), _model(model, listed, url).context, notes=notes
    )


def _of_stoker(name: str | None, key_env: str | None, direct: bool, place: Place) -> Found:
    with place.control() as control:
        status = control.status()
    serve = _chosen(name, status)
    if serve.state not in _UP:
        again = "" if serve.last_error is None else f" (its last error: {serve.last_error})"
        raise UsageError(
            f"serve '{serve.name}' is not running ({serve.state}){again}; start it: {_start(serve.name, place)}",
            code="not_up",
        )
    door = status.frontdoor
    key = _key(key_env, must=door.auth == "keys", why="the front door wants a key")
    asked = name if name is not None else serve.name
    target = at_url(door.base_url, asked, key)
    engine = replace(target, base_path=f"/upstream/{serve.name}", served_name=serve.served_name)
    servers = [Server("front-door", target, engine)]
    notes: tuple[str, ...] = ()
    if direct:
        own, why = _engine(serve, place)
        servers += [own] if own is not None else []
        notes = (why,) if why else ()
    listed = _listed(target, f"the front door at {door.base_url} does not answer")
    mark = fingerprint(place.state, configured(place, serve), target)
    seen = serve.facts.get("n_ctx")
    context = _model(asked, listed, door.base_url).context or (seen if isinstance(seen, int) else None)
    where = place.state / "results"
    return Found(servers, serve.name, where, context, mark, notes, serve.slot or serve.name)


def _chosen(name: str | None, status: Status) -> ServeStatus:
    if name is not None:
        found = status.serve(name)
        if found is None:
            raise unknown_serve(name, [one.name for one in status.serves], "the running Stoker")
        return found
    up = [one for one in status.serves if one.state in _UP and "chat" in one.dialects]
    if len(up) == 1:
        return up[0]
    names = ", ".join(one.name for one in status.serves) or "none at all"
    raise UsageError(f"which serve? {'none' if not up else 'more than one'} is running; there are: {names}")


def _start(name: str, place: Place) -> str:
    """The exact command, as it has to be typed here."""
    where = ""
    if place.settings is not None and place.settings.source:
        where = f" --config {shlex.quote(str(place.settings.source))}"
    elif place.settings is None:
        where = f" --state {shlex.quote(str(place.state))}"
    return f"stoker serves up {shlex.quote(name)}{where}"


def _engine(serve: ServeStatus, place: Place) -> tuple[Server | None, str]:
    """The engine's own address, and its key as the control plane derives it; or why there is none."""
    if serve.port is None:
        return None, f"--direct is left out: nothing is known about where the engine of {serve.name} listens"
    own = place.serve(serve.name) if place.settings is not None else None
    if own is not None and (own.base_url is not None or own.driver.value != "process"):
        return None, f"--direct is left out: {serve.name} is not a process of ours; name its address with --base-url"
    target = Target("127.0.0.1", serve.port, "", serve.served_name, _engine_key(serve, place))
    return Server("direct", target), ""


def _engine_key(serve: ServeStatus, place: Place) -> str | None:
    import msgspec

    from stoker.fleet.records import Record
    from stoker.fleet.signing import Signer
    from stoker.store.state import StateDir

    path = StateDir(place.state).serves_path / f"{serve.name}.json"
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None  # then it has no key, or says that it wants one
    if not record.takes_key:
        return None
    return Signer(StateDir(place.state).signing_key).engine_key(record.name, record.nonce)


def _listed(target: Target, what: str) -> list[Model]:
    try:
        return asyncio.run(models(target))
    except UpstreamError as error:
        raise UsageError(f"{what}: {error.message}", code=error.code) from error


def _model(name: str, listed: Sequence[Model], where: str) -> Model:
    for one in listed:
        if one.id == name:
            return one
    names = [one.id for one in listed]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise UsageError(f"{where} has no model '{name}'; {hint}there are: {', '.join(names)}", code="unknown_model")


def _key(variable: str | None, must: bool, why: str = "") -> str | None:
    value = os.environ.get(variable or KEY)
    if must and not value:
        reason = f"{why}: " if why else ""
        raise UsageError(f"{reason}put it into the variable {variable or KEY}, or name another one with --key-env")
    return value or None


def _results(config: str | None, state: str | None) -> Path:
    """With an address nothing has to be configured; results still have one place."""
    try:
        return find_place(config, state).state / "results"
    except ConfigError:
        if config is not None or state is not None:
            raise
        from stoker.config.paths import default_state

        return default_state() / "results"
