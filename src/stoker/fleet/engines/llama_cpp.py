"""llama.cpp: the command line of `llama-server`, or of the embedded engine, which takes the same words."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from stoker.domain.serve import Serve
from stoker.fleet.engines import embedded, weights
from stoker.fleet.engines.launch import Launch, Place, find_command

SERVER = "llama-server"
_MODULE = "stoker.fleet.engines.embedded"
_INSTALL = "`pip install xllamacpp`"


def launch(serve: Serve, place: Place) -> Launch:
    """`llama-server` where `serve.embedded` allows it and PATH has it, else the embedded engine.

    The key travels in the environment: a command line can be read by every user of the machine.
    """
    server = None if serve.embedded else find_command(serve, SERVER)
    if server is not None:
        return Launch((server, *_options(serve, place), *serve.extra_args), {"LLAMA_API_KEY": place.key})
    argv = [sys.executable, "-P", "-m", _MODULE, *_options(serve, place)]  # -P: nothing is imported from the cwd
    if serve.die_with_parent:
        argv += ["--parent", str(os.getpid())]
    environment = {embedded.KEY_VARIABLE: place.key}
    if "PYTHONPATH" in os.environ:  # what we were imported from, the child is imported from
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return Launch((*argv, *serve.extra_args), environment)


def problems(serve: Serve) -> list[str]:
    return [*weights.problems(serve), *_engine_problems(serve)]


def _engine_problems(serve: Serve) -> list[str]:
    if not serve.embedded and find_command(serve, SERVER) is not None:
        return []
    if serve.embedded is False:
        return [
            f"serve '{serve.name}' wants `{SERVER}`, which is not on PATH: install llama.cpp, or set "
            f"`embedded = true` after {_INSTALL}"
        ]
    if find_spec("xllamacpp") is None:
        if serve.embedded:
            return [f"serve '{serve.name}' wants the embedded engine, which is not installed: type {_INSTALL}"]
        return [
            f"serve '{serve.name}' needs llama.cpp, and there is neither `{SERVER}` on PATH nor the embedded engine: "
            f"type {_INSTALL}"
        ]
    refusal = embedded.refusal(serve.extra_args)
    return [f"`extra_args` of serve '{serve.name}': {refusal}"] if refusal else []


def _options(serve: Serve, place: Place) -> list[str]:
    options = ["-m", serve.model, "--alias", serve.served_name or serve.name]
    options += ["--host", serve.host, "--port", str(place.port), "-np", str(serve.parallel)]
    if serve.context is not None:
        options += ["-c", str(serve.context * serve.parallel)]
    if serve.threads is not None:
        options += ["-t", str(serve.threads)]
    if serve.gpu_layers is not None:
        options += ["-ngl", str(serve.gpu_layers)]
    return [*options, "--metrics", "--no-slots"]
