"""Configuration keys as an engine's options: a table per engine says how each key is written.

A key that an engine does not support is in `Engine.instead`, with what to do instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from stoker.domain.serve import Serve, Tuning
from stoker.engines.record import Engine, OptionTable, OptionWriter

KEYS = ("parallel", "context", "threads", "gpu_layers", *(field.name for field in fields(Tuning)))
"""The keys that become options, in the order of the command line."""
ON_GPU: Mapping[str, str] = {
    "threads": 'set `env = { OMP_NUM_THREADS = "N" }`',
    "gpu_layers": "it holds all layers on the GPU; leave room for others with `memory_fraction`",
    "cpu_moe": 'it has one share for all weights: `extra_args = ["--cpu-offload-gb", "N"]`',
    "n_cpu_moe": 'it has one share for all weights: `extra_args = ["--cpu-offload-gb", "N"]`',
    "mmproj": "remove it: the directory of the model has what reads images",
}
"""What to do instead, for engines that run only on a GPU."""
OUT_OF_MEMORY_ON_GPU = (
    "it ran out of memory: lower `memory_fraction`, `parallel` or `batched_tokens`, or take a smaller quantisation"
)
"""`Engine.advice` of these."""
_DEFAULTS = Tuning()


def option(name: str, *before: str) -> OptionWriter:
    """`name VALUE`, after the words `before`."""
    return lambda value: (*before, name, number(value) if isinstance(value, float) else str(value))


def switch(on: Sequence[str] = (), off: Sequence[str] = ()) -> OptionWriter:
    """Words for true, words for false. No words: the engine's default."""
    return lambda value: tuple(on if value else off)


def document(name: str) -> OptionWriter:
    """`name JSON`, from a table of numbers."""
    return lambda value: (name, json.dumps({key: _whole(one) for key, one in value.items()}))


def template_switch(name: str) -> OptionWriter:
    """Thinking on or off through the chat template's variables: which of the two it reads depends on the model."""
    return lambda value: (name, json.dumps({"enable_thinking": value, "thinking": value}))


def named_paths(paths: Sequence[str]) -> list[str]:
    """`NAME=PATH` for each adapter, which clients ask for by its name."""
    return [f"{os.path.basename(path.rstrip('/')).partition('.')[0]}={path}" for path in paths]


def number(value: float) -> str:
    """A number without an exponent and without trailing digits: `0.7`, `20`."""
    return f"{value:.10f}".rstrip("0").rstrip(".")


def settings(serve: Serve) -> dict[str, Any]:
    """Each key that has a value, in the order of KEYS."""
    values = {key: getattr(serve if hasattr(serve, key) else serve.tuning, key) for key in KEYS}
    return {key: value for key, value in values.items() if value is not None and value != () and value != {}}


def render(serve: Serve, words: OptionTable, backend: str | None) -> list[str]:
    """The serve's settings as options of its engine; `backend` is the attention backend to use.

    A key that is not in the table is left out: `unsupported` has reported it.
    """
    values = settings(serve) | {"attention_backend": backend, "chat_template": template(serve)}
    said = {key: value for key, value in values.items() if value is not None and key in words}
    return [word for key, value in said.items() for word in words[key](value)]


def unsupported(serve: Serve, engine: Engine) -> list[str]:
    """One sentence for each key, and each value, that the serve sets and its engine does not support. Pure."""
    given = {key for key, value in settings(serve).items() if value != getattr(_DEFAULTS, key, None)}
    lacking = [
        f"serve '{serve.name}': engine {engine.title} has no `{key}`: {engine.instead[key]}"
        for key in KEYS
        if key in given and key not in engine.options
    ]
    if serve.tuning.kv_offload_backend is not None and serve.tuning.kv_offload is None:
        lacking.append(f"serve '{serve.name}': `kv_offload_backend` needs `kv_offload`, the size: set both, or none")
    for key, choices in engine.choices.items():
        value = getattr(serve.tuning, key)
        lacking += [
            f"serve '{serve.name}': {engine.title} has no `{key}` {one}: it is one of {', '.join(choices)}"
            for one in (value if isinstance(value, tuple) else (value,))
            if one is not None and one not in choices
        ]
    return lacking


def template(serve: Serve) -> str | None:
    """The chat template: the absolute path of a file, or a name as it was given; None: the model's own."""
    given = serve.tuning.chat_template
    if given is None or not is_file_name(given):
        return given
    return os.path.normpath(os.path.join(serve.directory, os.path.expanduser(given)))


def is_file_name(given: str) -> bool:
    """Whether a chat template is given as a file, not as a name that the engine knows."""
    return os.sep in given or given.endswith((".jinja", ".jinja2", ".j2", ".json"))


def template_problems(serve: Serve, engine: Engine) -> list[str]:
    """What is wrong with the chat template: one sentence at most."""
    given, path = serve.tuning.chat_template, template(serve)
    if given is None or path is None:
        return []
    if is_file_name(given):
        missing = f"the chat template of serve '{serve.name}' is not there: {path}; put it there, or correct it"
        return [] if os.path.isfile(path) else [missing]
    if engine.takes_template_names:
        return []
    return [
        f"serve '{serve.name}': engine {engine.title} has no chat template named '{given[:64]}': "
        "give a file (`./name.jinja`)"
    ]


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value
