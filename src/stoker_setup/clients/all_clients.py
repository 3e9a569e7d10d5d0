"""Every client that is known, by name, in the order in which they are listed."""

from __future__ import annotations

from stoker_setup.clients.agents import AGENTS
from stoker_setup.clients.client_types import Client
from stoker_setup.clients.programs import PROGRAMS

CLIENTS: dict[str, Client] = {client.name: client for client in (*AGENTS, *PROGRAMS)}
LAUNCHED: dict[str, Client] = {name: client for name, client in CLIENTS.items() if client.program is not None}
"""Those that `stoker launch` starts."""
