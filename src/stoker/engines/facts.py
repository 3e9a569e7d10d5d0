"""What an engine reports about itself, flattened for `Running.facts`. Missing values are left out, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.engines.record import Facts


def from_models(models: Sequence[Mapping[str, Any]], served_name: str) -> Facts:
    """From one entry of /v1/models: llama.cpp's `meta`, vLLM's `max_model_len`."""
    entry = next((entry for entry in models if entry.get("id") == served_name), {})
    meta = entry.get("meta")
    found = pick(meta, "n_ctx", "n_ctx_train", "n_params", "size", "ftype") if isinstance(meta, dict) else {}
    return found | pick(entry, "max_model_len")


def pick(source: Mapping[str, Any], *names: str) -> Facts:
    """The texts and numbers of these names."""
    found: Facts = {}
    for name in names:
        value = source.get(name)
        if isinstance(value, str):
            found[name] = value[:100]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
    return found
