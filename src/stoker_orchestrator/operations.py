"""The paths below /admin that this package answers."""

from __future__ import annotations

from stoker.gateway.operations import Operation

OPERATIONS = (Operation("GET", "/admin/orchestrator/{request}", "What an orchestrator wrote down.", query=("offset",)),)
