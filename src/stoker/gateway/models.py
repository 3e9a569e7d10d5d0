"""Entries of GET /v1/models, in a form that OpenAI and Anthropic clients both read."""

from __future__ import annotations

import time
from typing import Any

from stoker.domain.serve import Serve
from stoker.fleet.swapping.conductor import Conductor
from stoker.request.lease.state import Phase


class ModelList:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._started = time.time()

    def is_up(self, serve: Serve) -> bool:
        """Whether a serve can answer at once."""
        seat = self._conductor.scheduler.seats.get(serve.name)
        return seat is not None and seat.phase is Phase.READY

    def serve(self, name: str, serve: Serve) -> dict[str, Any]:
        """The entry of a name of a serve."""
        seat = self._conductor.scheduler.seats.get(serve.name)
        about = {
            "serve": serve.name,
            "state": seat.phase.value if seat is not None else "stopped",
            "dialects": sorted(serve.dialects),
            "modalities": list(serve.modalities),
        }
        return {**self._entry(name), "context_length": serve.context, "stoker": about}

    def task(self, name: str) -> dict[str, Any]:
        """The entry of a name that asks Stoker to choose a serve for each request."""
        return {**self._entry(name), "context_length": None, "stoker": {"serve": None, "state": "routed"}}

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": int(self._started),
            "owned_by": "stoker",
            "type": "model",
            "display_name": name,
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started)),
        }
