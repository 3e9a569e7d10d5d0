"""The paths below /admin that this package answers."""

from __future__ import annotations

from stoker.gateway.operations import Operation

LIST = Operation("GET", "/admin/captures", "The requests whose content is kept in memory.")
ONE = Operation("GET", "/admin/captures/{request}", "What one request and its answer said.")
OPERATIONS = (LIST, ONE)
