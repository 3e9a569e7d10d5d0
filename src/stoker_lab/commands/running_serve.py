"""The serve that is measured: as it is configured, as it runs, and what the engine says of itself."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import NotRunning, UsageError, unknown_serve
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.host_port import reachable
from stoker.domain.lease import Target
from stoker.domain.run import IDENTITY_PARTS, Fingerprint, Subject
from stoker.domain.serve import Serve
from stoker_lab.commands.front_door_key import KEY, front_door_key, how_to_make
from stoker_lab.requests.endpoint import MeasuredEndpoint

if TYPE_CHECKING:
    from stoker.cli.console.answers import FrontDoorStatus, ServeStatus, StatusAnswer


@dataclass(frozen=True, slots=True)
class RunningServe:
    """One serve of a running Stoker."""

    installation: Installation
    status: ServeStatus
    serve: Serve
    target: Target
    """The front door, asked for the serve by its own name."""
    subject: Subject

    @property
    def state(self) -> Path:
        return self.installation.state

    @property
    def lock(self) -> str:
        """What two measurements may not share."""
        return self.status.slot or self.status.name

    @property
    def name(self) -> str:
        """By which clients ask for it: any of its replicas answers."""
        return self.serve.name

    @property
    def model_asked(self) -> Fingerprint:
        """By which stored answers are known to be this model's: of a cloud, which tells nothing else, by its name."""
        if self.serve.translation.cloud:
            return Fingerprint(self.serve.served_name or self.serve.name)
        return self.subject.fingerprint

    @property
    def unknown_identity(self) -> list[str]:
        """Parts that nobody knows, so that no result counts as this model's; empty: it is known."""
        fingerprint = self.subject.fingerprint
        return [] if fingerprint.identity else [name for name in IDENTITY_PARTS if name not in fingerprint.parts]

    @property
    def not_kept(self) -> str:
        """What is said of an interrupted measurement of a model that is not known."""
        parts = ", ".join(self.unknown_identity)
        return f"nothing of it counts later, because it is not known which model {self.serve.name} runs ({parts})"

    def engine(self) -> str | None:
        """`process 812`; empty: no engine runs; None: Stoker does not answer."""
        from stoker.domain.errors import StokerError

        try:
            with self.installation.control() as control:
                now = control.status().serve(self.status.name)
        except StokerError:
            return None
        if now is None or now.is_down:
            return ""
        return f"process {now.pid}" if now.pid is not None and now.is_up else None


def find_running(name: str | None, config: str | None, state: str | None) -> RunningServe:
    """As `running_at`, but that nothing runs is a UsageError: nothing failed, the command came too early."""
    try:
        installation = find_installation(config, state)
        return running_at(installation, serve_behind(installation, name))
    except NotRunning as error:
        raise UsageError(error.message, code=error.code) from error


def serve_behind(installation: Installation, name: str | None) -> str | None:
    """The serve of the tier of this name; `name` itself if no tier, or a serve too, is called so."""
    settings = installation.settings
    if settings is None or settings.router is None or any(serve.name == name for serve in settings.serves):
        return name
    return next((tier.serve for tier in settings.router.tiers if tier.name == name), name)


def running_at(installation: Installation, name: str | None, key_env: str | None = None) -> RunningServe:
    """A serve that runs here; without a name the only one that does and speaks chat.

    Raises UsageError with the command that helps (it is down, there is none of that name, a key is needed) and
    NotRunning. `key_env`: the variable that has the key, instead of `admission.KEY`.
    """
    with installation.control() as control:
        status = control.status()
    now = choose_serve(name, status)
    if not now.is_up:
        start = command_for("serves up", now.name, installation)
        why = f" (its last error: {now.last_error})" if now.last_error else ""
        raise UsageError(
            f"serve '{now.name}' is not running ({now.state}){why}; start it: {start}",
            code="not_up",
        )
    serve, door = configured_serve(installation, now), status.frontdoor
    key = front_door_key(installation, door, serve, key_env)
    target = _front_door_target(installation, door, serve.name, key.value)
    server = MeasuredEndpoint("front-door", target)
    fingerprint = _fingerprint(installation, serve, target, key.source)
    subject = Subject(serve.name, serve.name, server.base_url, "chat", server.route, fingerprint)
    return RunningServe(installation, now, serve, target, subject)


def _front_door_target(installation: Installation, door: FrontDoorStatus, name: str, key: str | None) -> Target:
    """Over TLS, the certificate has to be for the first of `allowed_hosts`, else for `localhost`."""
    address = reachable(door.host)
    if not door.base_url.startswith("https:"):
        return Target(address, door.port, "", name, key)
    allowed = installation.settings.front_door.allowed_hosts if installation.settings is not None else ()
    host = next((one for one in allowed if one != "*"), "localhost")
    return Target(host, door.port, "", name, key, tls=True, address=address)


def command_for(command: str, name: str, installation: Installation) -> str:
    """`stoker COMMAND NAME`, exactly as it has to be typed here."""
    source = installation.settings.source if installation.settings is not None else ""
    where = f" --config {shlex.quote(source)}" if source else f" --state {shlex.quote(str(installation.state))}"
    return f"stoker {command} {shlex.quote(name)}{where}"


def configured_serve(installation: Installation, now: ServeStatus) -> Serve:
    """From the configuration; without one (the demo), what the running Stoker tells."""
    if installation.settings is not None:
        return installation.serve(now.name)
    return Serve(now.replica_of or now.name, now.engine, now.model, now.served_name, slot=now.slot)


def choose_serve(name: str | None, status: StatusAnswer) -> ServeStatus:
    """1. the one that is named  2. the only one that runs and speaks chat  3. the only one that could
    4. there is no telling
    """
    if name is not None:
        found = status.serve(name)
        if found is None:
            raise unknown_serve(name, status.known_names(), "the running Stoker")
        return found  # 1
    able = [one for one in status.serves if "chat" in one.dialects]
    meant = {one.replica_of or one.name: one for one in [one for one in able if one.is_up] or able}
    if len(meant) == 1:
        return next(iter(meant.values()))  # 2, 3
    names = ", ".join(meant) or "none speaks a chat dialect"
    raise UsageError(f"which serve? name one of them: {names}")  # 4


def _fingerprint(installation: Installation, serve: Serve, target: Target, source: str) -> Fingerprint:
    """Asks the engine through the front door, hashes the weights once. `source`: where the key comes from."""
    from stoker_lab.identify import KeyRejected, identify

    engine = replace(target, base_path=f"{target.base_path}/upstream/{serve.name}")
    try:
        return asyncio.run(identify(serve, engine, installation.state))
    except KeyRejected:
        make = how_to_make(KEY, installation.place)
        text = f"the front door rejects {source}: put a key with scope `observe` into {KEY}; {make}"
        raise UsageError(text) from None
