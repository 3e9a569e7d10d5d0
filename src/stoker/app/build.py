"""Builds the parts, from the bottom up, and closes them.

A part is given what it needs when it is built, and nothing later. What it has to say goes to the event bus; `observers`
subscribes to it when all parts are there.
"""

from __future__ import annotations

import hmac
import logging
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stoker.access.key_admin import KeyAdmin
from stoker.app.access_parts import AccessParts, build_access
from stoker.app.clock import SystemClock
from stoker.app.configuration import ActiveConfiguration
from stoker.app.context import BuildContext, RunOptions, if_anybody_reads
from stoker.app.decision_observer import DecisionObserver
from stoker.app.event_bus import EventBus
from stoker.app.event_parts import build_events
from stoker.app.fleet_parts import FleetParts, build_fleet
from stoker.app.flow_setup import FlowSetup
from stoker.app.missing_extensions import ROUTING, ignored_promotions
from stoker.app.observers import Observer
from stoker.app.parts import GatewayParts, ProgramParts
from stoker.app.reload import Reloader
from stoker.app.server_parts import ServerAccess, ServerParts, build_server_parts
from stoker.app.store_parts import StoreParts, build_store
from stoker.domain.errors import ConfigError
from stoker.domain.routing import cloud_prices
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.exchange.upstream_client import UpstreamClient
from stoker.fleet.memory.devices import machine
from stoker.fleet.memory.host import host_memory, memory_in_use
from stoker.fleet.monitoring import ConductorView
from stoker.fleet.watchdog.watchdog import WatchdogLoop
from stoker.gateway.admin import Admin
from stoker.gateway.compat.endpoints import CompatEndpoints
from stoker.gateway.decisions import DecisionPages
from stoker.gateway.doctor import DoctorPages
from stoker.gateway.flow import Flow
from stoker.gateway.http_api import Endpoints, HttpApi
from stoker.gateway.keys import KeyPages
from stoker.gateway.models import ModelList
from stoker.gateway.ollama import OllamaEndpoints
from stoker.gateway.response_turns import ResponseTurns, SummarySeals
from stoker.gateway.responses import StoredResponses
from stoker.gateway.results import ResultPages
from stoker.gateway.status import StatusReport, StatusSources
from stoker.gateway.upstream import UpstreamRequests
from stoker.gateway.usage import UsagePages
from stoker.gateway.web.page import WebPage
from stoker.request.accept.tls import CertificateWatcher, UnusableCertificate
from stoker.request.relay.pool import ConnectionPool
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.store.results import Results
from stoker.store.state_dir import StateDir
from stoker.store.swap_history import SwapHistory

log = logging.getLogger("stoker.app")


class Program(NamedTuple):
    """All parts, and the front that is served."""

    parts: ProgramParts
    front: HttpApi


def build(active: ActiveConfiguration, state: StateDir, options: RunOptions) -> Program:
    """Call it on a running loop. `close_parts` ends what it returns."""
    bus, pool = EventBus(), ConnectionPool()
    context = BuildContext(active, state, options, SystemClock(), bus.publish)
    store = build_store(context)
    extensions = build_server_parts(context, store.metrics, store.events.note)
    access = build_access(context, store.metrics.keys)
    access.store.usage.configure(cloud_prices(context.settings.router))
    access.store.usage.watts_of = extensions.watts_of
    fleet = build_fleet(context, extensions.edge_targets, extensions.predictions)
    gateway = _build_gateway(context, pool, store, access, fleet, extensions)
    view = ConductorView(fleet.conductor, partial(_load_of, gateway), fleet.supervisor.is_asleep)
    watchdog = WatchdogLoop(
        context.settings.watchdog, view, fleet.probe, fleet.conductor, context.clock, logging.getLogger("stoker.fleet")
    )
    parts = ProgramParts(store, access, fleet, gateway, watchdog, extensions)
    swaps = SwapHistory(context.clock.wall)
    front = _build_front(context, parts, swaps)
    if not extensions.is_used(ROUTING):
        for serve, text in ignored_promotions(context.settings):
            log.warning("%s", text)
            store.events.note("warned", serve, text)
            if_anybody_reads(options.announce)(f"warning: {text}")
    bus.subscribe(Observer(parts, active, if_anybody_reads(options.announce)).on_event)
    bus.subscribe(swaps.on_event)
    bus.subscribe(extensions.on_event)
    return Program(parts, front)


async def close_parts(parts: ProgramParts, leave_running: bool) -> list[str]:
    """After requests were drained: end what still runs, from the top down, and write what is not on disk yet. Returns
    what could not be ended.
    """
    await parts.extensions.drained()
    left = await parts.fleet.conductor.close(leave_running)
    await parts.fleet.warm.close()
    parts.store.writer.shutdown()
    parts.gateway.pool.close()
    parts.gateway.flow.close()
    await parts.extensions.close()
    parts.store.decisions.close()
    parts.store.responses.close()
    parts.access.store.close()
    return left


def _build_gateway(
    context: BuildContext, pool: ConnectionPool, store: StoreParts, access: AccessParts, fleet: FleetParts,
    extensions: ServerParts,
) -> GatewayParts:  # fmt: skip
    signer = _thinking_signer(context.state)
    formatter = Formatter(signer, context.clock.wall)
    responses = StoredResponses(store.responses, context.clock.wall)
    turns = ResponseTurns(store.responses, context.clock.wall, SummarySeals(signer))
    upstream_client = UpstreamClient(
        fleet.conductor, pool, formatter, context.clock, _warn_of, fleet.supervisor.conversations,
        fleet.engine_work.is_working,
    )  # fmt: skip
    client = InternalClient(pool, formatter)
    key_admin = KeyAdmin(access.store, context.clock.wall, lambda: flow.settings.model_names)
    extensions.connect(
        ServerAccess(
            fleet.conductor, upstream_client, client, formatter, pool, store.decisions, context.state.signing_key,
            access.store.usage.record_own, lambda: flow.settings,
            lambda: [entry.caller.key for entry in access.store.keyring.entries().values()],
            lambda: access.control.asks_for_keys, key_admin,
        )
    )  # fmt: skip
    setup = FlowSetup(fleet, extensions, host_memory().total)
    decisions = DecisionObserver(store.decisions, store.metrics, extensions)
    flow = Flow(
        setup.settings_for(context.active.current), upstream_client, context.clock, decisions.on_decision,
        access.store.usage, turns, extensions.tracer,
    )  # fmt: skip
    return GatewayParts(pool, setup, flow, responses, client, key_admin, _watch_certificate(context, store))


def _load_of(gateway: GatewayParts, serve: str) -> tuple[int, int]:
    """What clients and the workers of orchestrators wait for at a serve, and the bytes that came from it."""
    waiting, received = gateway.flow.load_of(serve)
    streams, streamed = gateway.client.load_of(serve)
    return waiting + streams, received + streamed


def _watch_certificate(context: BuildContext, store: StoreParts) -> CertificateWatcher | None:
    """Raises StokerError."""
    tls = context.settings.front_door.tls
    if tls is None:
        return None
    try:
        return CertificateWatcher(tls, context.clock.wall, partial(store.events.note, "certificate", ""))
    except UnusableCertificate as error:
        raise ConfigError([f"front_door.tls.{error.setting}: {error}"]) from None


def _build_front(context: BuildContext, parts: ProgramParts, swaps: SwapHistory) -> HttpApi:
    store, flow = parts.store, parts.gateway.flow
    conversations = parts.fleet.supervisor.conversations
    sources = StatusSources(
        store.events.recent,
        parts.watchdog.report,
        parts.fleet.supervisor.statistics,
        parts.fleet.warm.statistics,
        conversations.statistics,
        store.responses.status,
        lambda: parts.gateway.setup.aliases(context.settings),
        lambda: parts.access.control.asks_for_keys,
        partial(memory_in_use, machine()),
        parts.extensions.status,
        parts.extensions.metrics,
    )
    reloader = Reloader(context.active, context.options.read, parts)
    conductor, clock = parts.fleet.conductor, context.clock
    decisions = DecisionPages(store.decisions, parts.extensions.grade_of, swaps.last)
    store.decisions.complete_with(decisions.with_waits)
    keys = KeyPages(parts.gateway.key_admin, flow, store.responses.forget)
    results = ResultPages(Results(context.directory), lambda: context.active.settings.gates)
    status = StatusReport(conductor, flow, store.decisions, store.metrics, clock, sources)
    endpoints = Endpoints(
        Admin(
            conductor,
            flow,
            clock,
            decisions,
            reloader.reload,
            keys,
            results,
            DoctorPages(lambda: context.settings, context.options.self_check),
            parts.extensions.pages,
        ),
        status,
        ModelList(conductor),
        OllamaEndpoints(store.metrics.observe_legacy, parts.access.store.usage.record_tool),
        UsagePages(parts.access.store, clock.wall),
        parts.gateway.responses,
        CompatEndpoints(flow, conductor, UpstreamRequests(flow), Path(context.settings.paths.logs)),
        build_events(context, parts, status, swaps),
        WebPage(parts.access.control, lambda: flow.settings.front_door.tls is not None),
    )
    return HttpApi(flow, parts.access.control, endpoints, store.metrics.observe_refusal)


def _thinking_signer(state: StateDir) -> ThinkingSigner:
    """Signs the thinking of local models. What was signed with the key before the last rotation is still accepted."""
    keys = (state.signing_key(), state.earlier_signing_key())
    return ThinkingSigner(tuple(hmac.digest(key, b"thinking", "sha256") for key in keys if key is not None))


def _warn_of(serve: str, text: str) -> None:
    log.warning("serve %s: %s", serve, text)
