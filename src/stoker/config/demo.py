"""The settings of `stoker up --demo`: two tiny models that take turns in one slot, and an orchestrator.

They are a configuration, read as any file is: what holds for a file's serves holds for the demo's.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

from stoker.config.load import load_text
from stoker.config.toml_writer import render
from stoker.domain.access import Settings

_ALIASES = {
    "spark": ("gpt-4o-mini", "claude-haiku-demo"),
    "ember": ("gpt-4o", "claude-sonnet-demo"),
}
SLOT = "demo"


def demo(state: Path, port: int, models: Path | None = None) -> Settings:
    """Loopback without keys on `port`, everything under `state`; the weights are package data, or lie in `models`.

    Reads no file. The engines stop with Stoker.
    """
    state = state.absolute()
    folder = Path(str(resources.files("stoker") / "models")) if models is None else models.absolute()
    document = {
        "front_door": {"port": port},
        "paths": {"state": str(state), "logs": str(state / "logs"), "vault": str(state / "vault"), "placement": False},
        "slots": {SLOT: {}},
        "serve": [_serve(name, folder / f"{name}.gguf") for name in _ALIASES],
        "orchestrator": {"pair": {"worker": "ember", "check_names": False}},
        "compat": {"llama_swap": True, "llama_cpp": True},
        "warm": {"memory": "0B"},  # a megabyte needs no keeping
        "responses": {"store": True, "max_bytes": "64MiB"},
    }
    settings = load_text(render(document), state / "stoker.toml")
    # no key of the file says this: a file's engines outlive Stoker
    serves = tuple(replace(serve, die_with_parent=True) for serve in settings.serves)
    return replace(settings, serves=serves, source="")


def _serve(name: str, weights: Path) -> dict[str, object]:
    return {
        "name": name,
        "model": str(weights),
        "aliases": list(_ALIASES[name]),
        "slot": SLOT,
        "context": 2048,
        "parallel": 4,
        "queue_timeout": "30s",
        "ready_timeout": "60s",
        "threads": 1,
        "purpose": "shows that Stoker works",
        "extra_args": ["--temp", "0"],  # tiny models answer right when nothing is left to chance
    }
