"""The paths below /admin that this package answers."""

from __future__ import annotations

import msgspec

from stoker.domain.key import Scope
from stoker.gateway.operations import Operation


class PromoteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /admin/promote and /admin/reset."""

    alias: str | None = None
    serve: str | None = None
    evidence: str = ""
    reason: str = ""
    force: bool = False


class RouteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /admin/route."""

    prompt: str | None = None
    model: str = "auto"
    task: str | None = None


OPERATIONS: tuple[Operation, ...] = (
    Operation("POST", "/admin/promote", "Point an alias to a serve.", body=PromoteRequest,
              fields=("alias", "serve", "evidence", "reason", "force"), required=("alias", "serve")),
    Operation("POST", "/admin/reset", "Point an alias to its configured serve again.", body=PromoteRequest,
              fields=("alias",), required=("alias",)),
    Operation("POST", "/admin/route", "How a prompt would be routed. Nothing is sent.", body=RouteRequest,
              fields=("prompt", "model", "task"), required=("prompt",)),
    Operation("GET", "/admin/routing", "Tiers and classes with their evidence.", Scope.OBSERVE),
)  # fmt: skip
