"""What a measurement asks: a serve of the running Stoker (see `running_serve`), or a server at an address."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import Installation, find_installation
from stoker.cli.console.options import same_place
from stoker.domain.errors import ConfigError, UpstreamError
from stoker.domain.lease import Target
from stoker.domain.nearest import did_you_mean, nearest
from stoker.domain.run import Fingerprint, Subject
from stoker.extensions import missing_because, offered
from stoker_lab.commands.running_serve import RunningServe, running_at, serve_behind
from stoker_lab.requests.endpoint import ListedModel, MeasuredEndpoint, list_models, target_at

if TYPE_CHECKING:
    from stoker.cli.console.answers import ServeStatus


@dataclass(frozen=True, slots=True)
class MeasurementTarget:
    """The addresses of one model, the requested one first, and the directory of its results."""

    servers: list[MeasuredEndpoint]
    serve: str
    results: Path
    context: int | None = None
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    notes: tuple[str, ...] = ()
    """Options that are ignored, and why."""
    slot: str = ""
    """The slot, which only one measurement may use at a time; empty: the serve has none."""

    def subject(self, route: str) -> Subject:
        server = next(one for one in self.servers if one.route == route)
        return Subject(self.serve, server.target.served_name, server.base_url, "chat", route, self.fingerprint)


def find_target(
    serve: str | None, base_url: str | None, model: str | None, key_env: str | None, direct: bool, config: str | None,
    state: str | None,
) -> MeasurementTarget:  # fmt: skip
    """Raises UsageError with what helps (it is down, there is no such model), and NotRunning."""
    if base_url is not None:
        if serve is not None:
            raise UsageError("give either a serve of the running Stoker, or --base-url with --model, not both")
        return _at_url(base_url, model, key_env, direct, config, state)
    if model is not None:
        place = same_place(config, state)
        raise UsageError(
            f"--model goes with --base-url; a serve is named without it: stoker eval benchmark SERVE{place}"
        )
    installation = find_installation(config, state)
    named = serve_behind(installation, serve)
    return target_of(running_at(installation, named, key_env), named, direct)


def _at_url(
    url: str, model: str | None, key_env: str | None, direct: bool, config: str | None, state: str | None
) -> MeasurementTarget:
    try:
        # The front door's key goes nowhere else: a foreign address gets only the one that is named for it.
        target = target_at(url, model or "", _key(key_env) if key_env is not None else None)
    except ValueError as error:
        raise UsageError(f"--base-url: {error}") from error
    listed = _listed(target, f"{url} does not answer like a model server")
    known = [one.id for one in listed]
    if model is None:
        if len(known) != 1:
            raise UsageError(f"give --model: {url} has {', '.join(known) or 'no models'}")
        model = known[0]
    target = replace(target, served_name=model)
    notes = ("--direct is ignored: the server at --base-url is asked directly anyway",) if direct else ()
    return MeasurementTarget(
        [MeasuredEndpoint("public", target)],
        model,
        _results(config, state),
        _model(model, listed, url).context,
        _fingerprint(target),
        notes,
    )


def _fingerprint(target: Target) -> Fingerprint:
    from stoker_lab.artifacts.fingerprint import reported_fingerprint
    from stoker_lab.identify import KeyRejected, ask

    try:
        return reported_fingerprint(target.served_name, asyncio.run(ask(target)))
    except KeyRejected:
        return Fingerprint()


def find_routed(edge_name: str, config: str | None, state: str | None) -> MeasurementTarget:
    """The worker of an edge, through its first public route and directly. Raises UsageError, and EdgeProblem: it cannot
    be found or does not prove itself.
    """
    edges_of, both_targets = offered("edges"), offered("edge-targets")
    if edges_of is None or both_targets is None:
        raise UsageError(f"--through needs the extension edge, {missing_because('edge')}")
    installation = find_installation(config, state)
    edges = {edge.name: edge for edge in (edges_of(installation.settings) if installation.settings else ())}
    edge = edges.get(edge_name)
    if edge is None:
        hint = did_you_mean(edge_name, edges) or f"; known: {', '.join(edges) or 'none: add an [edge.NAME]'}"
        raise UsageError(f"--through: there is no edge '{edge_name}'{hint}", code="unknown_edge")
    if edge.routes is None:
        raise UsageError(f"--through: edge '{edge_name}' has no public route: add `ingress` and `routes`")
    routed, direct = asyncio.run(both_targets(edge))
    listed = _listed(direct, f"edge '{edge_name}': the worker does not answer like a model server")
    context = _model(edge.worker.model, listed, f"the worker of edge '{edge_name}'").context
    servers = [MeasuredEndpoint("routed", routed, direct), MeasuredEndpoint("direct", direct)]
    return MeasurementTarget(
        servers, edge.worker.model, installation.state / "results", context, slot=f"edge-{edge_name}"
    )


def target_of(known: RunningServe, asked: str | None = None, direct: bool = False) -> MeasurementTarget:
    """To a serve that was found already. `asked`: the name of it that clients use; default its own.

    Raises UsageError: the front door does not answer, or lists no such model.
    """
    now = known.status
    target = replace(known.target, served_name=asked or known.name)
    engine = replace(target, base_path=f"/upstream/{known.name}", served_name=now.served_name)
    servers = [MeasuredEndpoint("front-door", target, engine)]
    notes: tuple[str, ...] = ()
    if direct:
        own, why = _engine(now, known.installation)
        servers += [own] if own is not None else []
        notes = (why,) if why else ()
    where = f"the front door at {servers[0].base_url}"
    listed = _listed(target, f"{where} does not answer")
    seen = now.facts.get("n_ctx")
    context = _model(target.served_name, listed, where).context or (seen if isinstance(seen, int) else None)
    fingerprint = known.subject.fingerprint
    return MeasurementTarget(servers, known.name, known.state / "results", context, fingerprint, notes, known.lock)


def _engine(serve: ServeStatus, installation: Installation) -> tuple[MeasuredEndpoint | None, str]:
    """The engine's own address, and its key as the control plane derives it; or why there is none."""
    if serve.port is None:
        return None, f"--direct is ignored: the address of the engine of {serve.name} is unknown"
    own = installation.serve(serve.name) if installation.settings is not None else None
    if own is not None and (own.base_url is not None or own.driver.value != "process"):
        why = f"{serve.name} is not a process that Stoker started; give its address with --base-url"
        return None, f"--direct is ignored: {why}"
    base_path = own.base_path if own is not None else ""
    target = Target("127.0.0.1", serve.port, base_path, serve.served_name, _engine_key(serve, installation))
    return MeasuredEndpoint("direct", target), ""


def _engine_key(serve: ServeStatus, installation: Installation) -> str | None:
    import msgspec

    from stoker.fleet.process.identity import KeySigner, StartRecord
    from stoker.store.state_dir import StateDir

    path = StateDir(installation.state).serves_path / f"{serve.name}.json"
    try:
        record = msgspec.json.decode(path.read_bytes(), type=StartRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None  # then it has no key, or says that it wants one
    if not record.takes_key:
        return None
    return KeySigner(StateDir(installation.state).signing_key).engine_key(record.name, record.nonce)


def _listed(target: Target, what: str) -> list[ListedModel]:
    try:
        return asyncio.run(list_models(target))
    except UpstreamError as error:
        raise UsageError(f"{what}: {error.message}", code=error.code) from error


def _model(name: str, listed: Sequence[ListedModel], where: str) -> ListedModel:
    for one in listed:
        if one.id == name:
            return one
    names = [one.id for one in listed]
    near = nearest(name, names, cutoff=0.5)
    hint = f"did you mean '{near}'? " if near else ""
    raise UsageError(f"{where} has no model '{name}'; {hint}known models: {', '.join(names)}", code="unknown_model")


def _key(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise UsageError(f"the variable {variable} is empty: put the key there, or name another one with --key-env")
    return value


def _results(config: str | None, state: str | None) -> Path:
    try:
        return find_installation(config, state).state / "results"
    except ConfigError:
        if config is not None or state is not None:
            raise
        from stoker.config.paths import default_state

        return default_state() / "results"
