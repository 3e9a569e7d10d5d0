"""The error of everything about edges."""

from __future__ import annotations

from stoker.domain.errors import StokerError


class EdgeProblem(StokerError):
    """The worker cannot be found or does not prove itself, or the ingress does not accept it."""

    status = 503
    code = "edge_failed"
