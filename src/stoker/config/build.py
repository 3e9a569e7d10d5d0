"""Checked tables to the domain's records: absolute paths, secrets that were read, dependent defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from stoker.config.definition import no_problem, read
from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.line_numbers import KeyPath as KeyPath
from stoker.config.orchestrator_files import OrchestratorFiles
from stoker.config.paths import VAULT, absolute, default_state, default_vault, in_vault
from stoker.config.rules.names import public_served_names
from stoker.config.secrets import UnreadableSecret, key_weakness, read_secret
from stoker.config.tables.also import build_also
from stoker.config.tables.cluster import build_clusters
from stoker.config.tables.compat import build_compat
from stoker.config.tables.edge import build_edges
from stoker.config.tables.file import File, PathsTable, RequiresTable, ServeTable, SlotTable, SwapTable
from stoker.config.tables.gates import build_aliases, build_choices, build_gates, task_names
from stoker.config.tables.media import build_media
from stoker.config.tables.orchestrator import build_orchestrators
from stoker.config.tables.request import build_request, build_variants
from stoker.config.tables.router import build_router
from stoker.config.tables.telemetry import build_telemetry
from stoker.config.tables.translation import build_translation
from stoker.domain.access import Conversations, FrontDoor, Paths, ResponseStorage, Settings, WarmPool, Watchdog
from stoker.domain.dialect import Dialect
from stoker.domain.key import App, make_key
from stoker.domain.kinds import split_status
from stoker.domain.serve import (
    Driver,
    FallbackCause,
    Requires,
    Secret,
    Serve,
    ServeIdentity,
    Slot,
    Status,
    SwapPolicy,
    Tuning,
    Warmth,
)
from stoker.engines.record import Weights
from stoker.engines.registry import engine_of
from stoker.request.decide.alias_patterns import is_pattern

Secrets = dict[KeyPath, Secret]


def read_secrets(
    doc: ConfigDocument, file: File, entries: list[ServeEntry], directory: Path, needs_all: bool = True
) -> Secrets:
    """Every secret by the place of its source. What cannot be read becomes a problem; without `needs_all`, only what is
    no source does, and the other problems come up where the secret is revealed.
    """
    wanted: dict[KeyPath, str] = {}
    for index, key in enumerate(file.front_door.keys):
        if key.value is not None:
            wanted[("front_door", "keys", index, "value")] = key.value
    for entry in entries:
        if entry.table.key is not None:
            wanted.setdefault(entry.at("key"), entry.table.key)
        for position, also in enumerate(entry.table.also):
            if also.key is not None:
                wanted.setdefault((*entry.at("also"), position, "key"), also.key)
    for name, edge in file.edge.items():
        for which in ("key", "route_key"):
            if (origin := getattr(edge, which)) is not None:
                wanted["edge", name, which] = origin
    for name, cluster in file.clusters.items():
        if cluster.token is not None:
            wanted["clusters", name, "token"] = cluster.token
    for name, origin in (file.telemetry.headers if file.telemetry is not None else {}).items():
        wanted["telemetry", "headers", name] = origin
    secrets: Secrets = {}
    for path, source in wanted.items():
        try:
            secrets[path] = read_secret(source, directory)
        except UnreadableSecret as error:
            if needs_all:
                doc.problem(path, str(error))
            else:
                secrets[path] = Secret("", source, doc.text(path, str(error)))
        except ValueError as error:
            doc.problem(path, str(error))
    if needs_all:
        for path, secret in secrets.items():
            if path[0] == "front_door" and (weakness := key_weakness(secret)):
                doc.problem(path, f"the key {weakness}")
        _check_same(doc, secrets)
    return secrets


def _check_same(doc: ConfigDocument, secrets: Secrets) -> None:
    """Two callers with the same key could not be distinguished."""
    owners: dict[str, KeyPath] = {}
    for path, secret in secrets.items():
        if path[0] == "front_door":
            other = owners.setdefault(secret.reveal(), path)
            if other != path:
                doc.problem(path, f"is the same key as in line {doc.line(other)}; each caller needs a key of its own")


def build(
    doc: ConfigDocument,
    file: File,
    entries: list[ServeEntry],
    secrets: Secrets,
    orchestrator_files: OrchestratorFiles,
    source: Path,
) -> Settings:
    """The settings for the program. Call it only if there are no problems."""
    directory = source.parent
    paths = _paths(file.paths, directory)
    real = [entry for entry in entries if not entry.table.abstract]
    public = public_served_names(entries, file)
    serves = tuple(
        _serve(doc, entry, secrets, directory, Path(paths.vault), entry.served_name in {entry.name, *public})
        for entry in real
    )
    profile = None if file.router.profile_path is None else str(absolute(file.router.profile_path, directory))
    clouds = {serve.name: serve.served_name or serve.name for serve in serves if serve.translation.cloud}
    return Settings(
        front_door=_front_door(doc, file, secrets, directory),
        paths=paths,
        slots=tuple(_slot(doc, file.swap, name, slot) for name, slot in file.slots.items()),
        serves=serves,
        source=str(source),
        warm=WarmPool(**msgspec.structs.asdict(file.warm)),
        watchdog=Watchdog(**msgspec.structs.asdict(file.watchdog)),
        conversations=Conversations(**msgspec.structs.asdict(file.conversations)),
        apps=tuple(App(name, table.to_settings()) for name, table in file.app.items()),
        gates=build_gates(file.gate),
        aliases=build_aliases(file.alias),
        alias_choices=build_choices(file.alias),
        orchestrators=build_orchestrators(file.orchestrator, *orchestrator_files),
        edges=build_edges(file.edge, _edge_keys(secrets), directory),
        clusters=build_clusters(
            file.clusters, {str(path[1]): secret for path, secret in secrets.items() if path[0] == "clusters"}
        ),
        compat=build_compat(file.compat, file.front_door.host),
        media=build_media(file.media),
        responses=ResponseStorage(**msgspec.structs.asdict(file.responses)),
        telemetry=build_telemetry(
            file.telemetry, {str(path[2]): secret for path, secret in secrets.items() if path[0] == "telemetry"}
        ),
        router=build_router(file.router, file.tier, clouds, profile, task_names(file.alias)),
    )


def _edge_keys(secrets: Secrets) -> dict[tuple[str, str], Secret]:
    """By edge and key."""
    return {(str(path[1]), str(path[2])): secret for path, secret in secrets.items() if path[0] == "edge"}


def _paths(table: PathsTable, directory: Path) -> Paths:
    state = _or(table.state, directory, default_state)
    return Paths(
        state=str(state),
        logs=str(_or(table.logs, directory, lambda: state / "logs")),
        vault=str(_or(table.vault, directory, default_vault)),
        decisions=table.decisions,
        usage_days=table.usage_days,
        log_bytes=table.log_bytes,
        placement=table.vault is not None if table.placement is None else table.placement,
    )


def _or(text: str | None, directory: Path, default: Callable[[], Path]) -> Path:
    return default() if text is None else absolute(text, directory)


def _front_door(doc: ConfigDocument, file: File, secrets: Secrets, directory: Path) -> FrontDoor:
    door = file.front_door
    keys = tuple(
        make_key(
            str(key.name),
            secrets["front_door", "keys", index, "value"],
            key.to_settings(),
            key.app or "",
            None if key.app is None else file.app[key.app].to_settings(),
        )
        for index, key in enumerate(door.keys)
    )
    return FrontDoor(
        host=door.host,
        port=door.port,
        prefixes=tuple(dict.fromkeys(door.prefixes)),
        body_limit=door.body_limit,
        upload_limit=door.upload_limit,
        body_budget=door.body_budget,
        queue_bytes=door.queue_bytes,
        max_messages=door.max_messages,
        max_tools=door.max_tools,
        max_values=door.max_values,
        commit_after=door.commit_after,
        stall_timeout=door.stall_timeout,
        keep_alive=door.keep_alive,
        loading=door.loading,
        auth=None if door.auth is None else door.auth == "keys",
        keys=keys,
        allowed_hosts=tuple(door.allowed_hosts),
        allowed_origins=tuple(door.allowed_origins),
        trusted_proxies=tuple(door.trusted_proxies),
        list_aliases=door.list_aliases,
        ollama_api=door.ollama_api,
        upstream_errors=door.upstream_errors,
        shutdown_grace=door.shutdown_grace,
        tls=None if door.tls is None else door.tls.to_settings(directory),
    )


def _slot(doc: ConfigDocument, common: SwapTable, name: str, table: SlotTable) -> Slot:
    own: dict[str, Any] = doc.raw["slots"][name].get("swap", {})
    swap = read(SwapTable, {**doc.raw.get("swap", {}), **own}, ("slots", name, "swap"), no_problem) if own else common
    return Slot(
        name=name,
        devices=tuple(table.devices),
        cluster=table.cluster,
        gpus=table.gpus,
        node=dict(table.node),
        memory=table.memory,
        together=tuple(map(frozenset, table.together)),
        baseline=table.baseline,
        idle_serve=table.idle_serve,
        idle_serve_after=table.idle_serve_after,
        swap=SwapPolicy(**msgspec.structs.asdict(swap)),
    )


def _requires(table: RequiresTable, directory: Path) -> Requires:
    return Requires(
        files=tuple(str(absolute(name, directory)) for name in table.files),
        packages=dict(table.packages),
        commands=tuple(table.commands),
    )


def _model(entry: ServeEntry, directory: Path, vault: Path) -> str:
    """Weights become an absolute path; other models stay as written."""
    text = entry.table.model or ""
    if text.startswith(VAULT):
        return str(in_vault(text, vault))
    is_ours = entry.driver in ("process", "systemd")
    weights = engine_of(entry.engine).weights
    named = weights is Weights.GGUF or (weights is Weights.FOLDER and text.startswith((".", "/", "~")))
    is_path = text and named and is_ours  # a hub id looks like a relative path
    return str(absolute(text, directory)) if is_path else text


def _serve(
    doc: ConfigDocument,
    entry: ServeEntry,
    secrets: Secrets,
    directory: Path,
    vault: Path,
    is_served_name_public: bool,
) -> Serve:
    table: ServeTable = entry.table
    key, also = secrets.get(entry.at("key")), entry.at("also")
    also_keys = {int(path[-2]): secret for path, secret in secrets.items() if path[:-2] == also}
    status, why = split_status(table.status)
    engine = engine_of(entry.engine)
    dialects = engine.dialects if table.dialects is None else frozenset(map(Dialect, table.dialects))
    return Serve(
        name=entry.name,
        engine=entry.engine,
        model=_model(entry, directory, vault),
        served_name=entry.served_name,
        is_served_name_public=is_served_name_public and entry.section == "serve",
        aliases=tuple(dict.fromkeys(alias for alias in table.aliases if not is_pattern(alias))),
        alias_patterns=tuple(dict.fromkeys(alias for alias in table.aliases if is_pattern(alias))),
        slot=table.slots[0] if table.slots else table.slot,
        slots=tuple(table.slots) if len(table.slots) > 1 else (),
        replicas=table.replicas.most,
        min_replicas=table.replicas.least,
        also=build_also(table.also, also_keys),
        context=table.context if isinstance(table.context, int) else None,
        auto_context=table.context == "auto",
        parallel=table.parallel,
        max_active=table.parallel if table.max_active is None else table.max_active,
        queue=table.queue,
        queue_timeout=table.queue_timeout,
        first_byte_timeout=table.first_byte_timeout,
        status=Status(status),
        reason=table.reason or why,
        purpose=table.purpose or "",
        title=table.title or "",
        description=table.description or "",
        metadata=dict(table.metadata),
        listed=table.listed,
        request=build_request(table.request),
        variants=build_variants(table.variant),
        modalities=tuple(table.modalities),
        driver=Driver(entry.driver),
        cmd=None if table.cmd is None else tuple(table.cmd),
        host=table.host,
        port=table.port,
        base_path=table.base_path,
        identity=ServeIdentity(table.identity),
        health=None if table.probe is not None and not entry.gives(doc, "health") else table.health,
        probe=table.probe,
        canary=table.canary,
        base_url=table.base_url,
        key=key,
        key_header=table.key_header or ("x-api-key" if dialects == {Dialect.MESSAGES} else "authorization"),
        dialects=dialects,
        asks_dialects=table.dialects is None,
        translation=build_translation(table.translation, entry.engine, table.base_url),
        memory=table.memory,
        keep_loaded=table.keep_loaded,
        preload=table.preload,
        evict_cost=table.evict_cost,
        idle_unload=table.idle_unload,
        ready_timeout=table.ready_timeout,
        stop=None if table.stop is None else tuple(table.stop),
        stop_grace=table.stop_grace,
        env=dict(table.env),
        extra_args=tuple(table.extra_args),
        threads=table.threads,
        gpu_layers=table.gpu_layers,
        requires=_requires(table.requires, directory),
        conflicts=tuple(table.conflicts),
        directory=str(directory),
        cwd="" if table.cwd is None else str(absolute(table.cwd, directory)),
        inherit_env=tuple(table.inherit_env),
        embedded=table.embedded,
        tuning=_tuning(table),
        container=table.container,
        up=None if table.up is None else tuple(table.up),
        unit=(table.unit or f"stoker-serve-{entry.name}.service") if entry.driver == "systemd" else None,
        fallback=table.fallback,
        fallback_on=tuple(dict.fromkeys(map(FallbackCause, table.fallback_on))),
        warm=Warmth(table.warm),
        sleep_level=table.sleep_level,
        keep_conversations=table.keep_conversations,
        min_tokens_per_second=table.min_tokens_per_second,
        source=table.source,
        sha256=dict(table.sha256),
        from_tier=entry.section == "tier",
    )


def _tuning(table: ServeTable) -> Tuning:
    given: dict[str, Any] = {f.name: getattr(table, f.name) for f in fields(Tuning)}
    for name, value in given.items():
        given[name] = tuple(value) if isinstance(value, list) else value
    return Tuning(**given)
