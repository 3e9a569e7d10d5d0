"""What an engine reports about itself, flattened for `Running.facts`. Missing values are left out, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Facts = dict[str, str | int | float]


def from_models(models: Sequence[Mapping[str, Any]], served_name: str) -> Facts:
    """From one entry of /v1/models: llama.cpp's `meta`, vLLM's `max_model_len`."""
    entry = next((entry for entry in models if entry.get("id") == served_name), {})
    meta = entry.get("meta")
    found = _pick(meta, "n_ctx", "n_ctx_train", "n_params", "size", "ftype") if isinstance(meta, dict) else {}
    return found | _pick(entry, "max_model_len")


def from_props(props: Any) -> Facts:
    """From llama.cpp's /props."""
    if not isinstance(props, dict):
        return {}
    found = _pick(props, "total_slots")
    build = props.get("build_info")
    if isinstance(build, str):
        found["build"] = build[:100]
    settings = props.get("default_generation_settings")
    return found | (_pick(settings, "n_ctx") if isinstance(settings, dict) else {})


def _pick(source: Mapping[str, Any], *names: str) -> Facts:
    found: Facts = {}
    for name in names:
        value = source.get(name)
        if isinstance(value, str):
            found[name] = value[:100]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
    return found
