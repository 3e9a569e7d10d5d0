"""llama.cpp: the command line of `llama-server`, or of the embedded engine, which accepts the same options."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec

from stoker.domain.serve import Serve
from stoker.engines import options, weight_files
from stoker.engines.launch import Launch, LaunchPlace, find_command
from stoker.engines.options import CACHE_TYPES, OptionTable, option, switch

SERVER = "llama-server"
_MODULE = "stoker.engines.embedded"
_INSTALL = "`pip install xllamacpp`"
_SAMPLERS = {
    "temperature": "--temp",
    "top_p": "--top-p",
    "top_k": "--top-k",
    "min_p": "--min-p",
    "repetition_penalty": "--repeat-penalty",
}


def _template(given: str) -> tuple[str, str]:
    return ("--chat-template-file" if options.is_file_name(given) else "--chat-template", given)


def _sampling(given: Mapping[str, float]) -> list[str]:
    return [word for key, value in given.items() for word in (_SAMPLERS[key], options.number(value))]


_ATTENTION = {"flash": "on", "none": "off"}
_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kv_cache_type": CACHE_TYPES,
    "attention_backend": tuple(_ATTENTION),
    "reasoning_parser": _FORMATS,
}
WORDS: OptionTable = {
    "context": option("-c"),
    "parallel": option("-np"),
    "threads": option("-t"),
    "gpu_layers": option("-ngl"),
    "batched_tokens": option("-b"),
    "kv_cache_type": lambda given: ("-ctk", given, "-ctv", given),
    "attention_backend": lambda given: ("-fa", _ATTENTION[given]),
    "prefix_caching": switch(off=("--no-cache-prompt",)),
    "reasoning_parser": option("--reasoning-format"),
    "chat_template": _template,
    "thinking": switch(("--reasoning", "on"), ("--reasoning", "off")),
    "sampling": _sampling,
    "metrics": switch(("--metrics",)),
}
INSTEAD: Mapping[str, str] = {
    "tensor_parallel": 'it uses all devices that it sees; `extra_args = ["--split-mode", "row"]` splits each layer',
    "pipeline_parallel": "it spreads its layers over all devices that it sees",
    "memory_fraction": "set `gpu_layers`, or leave it out: it takes as many layers as fit",
    "dtype": "the GGUF file determines it: use another file",
    "quantization": "the GGUF file determines it: use another file",
    "graphs": "remove it",
    "tool_parser": "tool calls are read as the chat template defines",
    "rendezvous": "remove it: it runs on one machine",
    "trust_remote_code": "remove it: a GGUF file holds no code",
}


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    """`llama-server` if `serve.embedded` allows it and it is on PATH, else the embedded engine.

    The key travels in the environment: a command line can be read by every user of the machine.
    """
    server = None if uses_embedded(serve) else find_command(serve, SERVER)
    if server is not None:
        return Launch((server, *_options(serve, place), *serve.extra_args), {"LLAMA_API_KEY": place.key})
    argv = [
        sys.executable,
        "-P",
        "-m",
        _MODULE,
        *_options(serve, place),
    ]  # -P: import nothing from the working directory
    if serve.die_with_parent:
        argv += ["--parent", str(os.getpid())]
    from stoker.engines import embedded  # argparse comes with it

    environment = {embedded.KEY_VARIABLE: place.key}
    if "PYTHONPATH" in os.environ:  # the child imports Stoker from the same place
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return Launch((*argv, *serve.extra_args), environment)


def uses_embedded(serve: Serve) -> bool:
    """Whether the embedded engine would run its model: what `embedded` says, else where `llama-server` is not on PATH.
    Never for a serve with a command of its own or another engine. It looks at PATH.
    """
    if serve.engine != "llama.cpp" or serve.cmd is not None:
        return False
    return serve.embedded if serve.embedded is not None else find_command(serve, SERVER) is None


def problems(serve: Serve) -> list[str]:
    """What prevents a start: one sentence each. Takes milliseconds."""
    return [
        *weight_files.problems(serve),
        *([serve.context_problem] if serve.context_problem else []),
        *options.template_problems(serve),
        *unsupported(serve),
        *_engine_problems(serve),
    ]


def unsupported(serve: Serve) -> list[str]:
    """One sentence for each key, or value, that llama.cpp cannot express. Pure."""
    found = options.unsupported(serve, WORDS, INSTEAD)
    for key, choices in _CHOICES.items():
        given = getattr(serve.tuning, key)
        for value in given if isinstance(given, tuple) else [given]:
            if value is not None and value not in choices:
                found.append(
                    f"serve '{serve.name}': llama.cpp has no `{key}` {value}: it is one of {', '.join(choices)}"
                )
    return found


def _engine_problems(serve: Serve) -> list[str]:
    if not uses_embedded(serve):
        if find_command(serve, SERVER) is not None:
            return []
        return [f"serve '{serve.name}' wants `{SERVER}`, which is not on PATH: install llama.cpp{_or_embedded(serve)}"]
    if find_spec("xllamacpp") is None:
        if serve.embedded:
            return [f"serve '{serve.name}' wants the embedded engine, which is not installed: type {_INSTALL}"]
        return [
            f"serve '{serve.name}' needs llama.cpp, and there is neither `{SERVER}` on PATH nor the embedded engine: "
            f"type {_INSTALL}"
        ]
    from stoker.engines import embedded

    refusal = embedded.refusal(serve.extra_args)
    return [f"`extra_args` of serve '{serve.name}': {refusal}"] if refusal else []


def _or_embedded(serve: Serve) -> str:
    """The other remedy, if the embedded engine takes all that the serve passes on."""
    from stoker.engines import embedded

    return "" if embedded.refusal(serve.extra_args) else f", or set `embedded = true` after {_INSTALL}"


def _conversations(place: LaunchPlace) -> list[str]:
    """llama.cpp's own prompt cache has no keys: any caller with the same prefix would continue the conversation."""
    return [] if place.conversations is None else ["--slot-save-path", place.conversations, "--cache-ram", "0"]


def _options(serve: Serve, place: LaunchPlace) -> list[str]:
    words = ["-m", serve.model, "--alias", serve.served_name or serve.name]
    words += ["--host", serve.host, "--port", str(place.port)]
    shared = replace(serve, context=serve.context and serve.context * serve.parallel)  # one cache for all its sequences
    return [
        *words,
        *options.render(shared, WORDS, next(iter(serve.tuning.attention_backend), None)),
        "--no-slots",
        *_conversations(place),
    ]
