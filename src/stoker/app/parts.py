"""All parts of the program, as one frozen record per room."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.access.key_admin import KeyAdmin
from stoker.app.access_parts import AccessParts
from stoker.app.fleet_parts import FleetParts
from stoker.app.flow_setup import FlowSetup
from stoker.app.server_parts import ServerParts
from stoker.app.store_parts import StoreParts
from stoker.exchange.internal_client import InternalClient
from stoker.fleet.watchdog.watchdog import WatchdogLoop
from stoker.gateway.flow import Flow
from stoker.gateway.responses import StoredResponses
from stoker.request.accept.tls import CertificateWatcher
from stoker.request.relay.pool import ConnectionPool


@dataclass(frozen=True, slots=True)
class GatewayParts:
    pool: ConnectionPool
    setup: FlowSetup
    flow: Flow
    responses: StoredResponses
    client: InternalClient
    """Asks the workers and validators of orchestrators."""
    key_admin: KeyAdmin
    certificate: CertificateWatcher | None
    """None: the front door speaks plain HTTP."""


@dataclass(frozen=True, slots=True)
class ProgramParts:
    """Everything but the front, which is built on it."""

    store: StoreParts
    access: AccessParts
    fleet: FleetParts
    gateway: GatewayParts
    watchdog: WatchdogLoop
    extensions: ServerParts
