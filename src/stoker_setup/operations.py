"""The paths below /admin that this package answers."""

from __future__ import annotations

from stoker.domain.key import Scope
from stoker.gateway.operations import Operation

LAUNCH = Operation(
    "GET", "/admin/launch", "How each coding agent is started with a model.", Scope.OBSERVE, query=("model", "address")
)
OPERATIONS = (LAUNCH,)
