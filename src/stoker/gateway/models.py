"""Entries of GET /v1/models, in a form that OpenAI and Anthropic clients both read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from stoker.domain.serve import Serve, ServeIdentity
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.compat.model_control import llama_cpp_state


class ModelList:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._started = time.time()

    def is_up(self, serve: Serve) -> bool:
        """Whether a serve can answer at once."""
        return self._conductor.residency.is_loaded(serve.name)

    def serve(self, name: str, serve: Serve) -> dict[str, Any]:
        """The entry of one name of a serve."""
        about: dict[str, Any] = {
            "serve": serve.name,
            "state": self._conductor.residency.phase(serve.name),
            "dialects": sorted(serve.dialects),
            "modalities": list(serve.modalities),
        }
        if serve.identity is ServeIdentity.NONE:
            about["identity"] = serve.identity.value
        if serve.metadata:
            about["metadata"] = dict(serve.metadata)
        shown = {"display_name": serve.title, "name": serve.title} if serve.title else {}
        if serve.description:
            shown["description"] = serve.description
        return {**self._entry(name), **shown, "context_length": serve.context, "stoker": about}

    def with_load_status(self, entry: dict[str, Any]) -> dict[str, Any]:
        """`entry` with the `status` by which clients of llama.cpp's router see whether a model is loaded.

        A name without a serve of its own is always `loaded`: a client could not load it.
        """
        serve, state = entry["stoker"]["serve"], entry["stoker"]["state"]
        status: dict[str, Any] = {"value": "loaded" if serve is None else llama_cpp_state(state), "args": []}
        if status["value"] == "unloaded" and self._conductor.failure_code(serve):
            status |= {"failed": True, "exit_code": 1}
        modalities = {
            "input_modalities": entry["stoker"].get("modalities", ["text"]), "output_modalities": ["text"],
        }  # fmt: skip
        return {**entry, "status": status, "architecture": modalities}

    def planned(self, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of a name without a serve of its own. `about`: see `Planner.describe`."""
        return {**self._entry(name), "context_length": None, "stoker": {"serve": None, **about}}

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": int(self._started),
            "owned_by": "stoker",
            "type": "model",
            "display_name": name,
            "lifecycle": "active",
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started)),
        }
