"""Which engine's command line a serve gets."""

from __future__ import annotations

from stoker.domain.serve import Serve
from stoker.fleet.engines import generic, llama_cpp
from stoker.fleet.engines.launch import Launch, Place


def plan(serve: Serve, place: Place) -> Launch:
    """How to start a process serve: its own `cmd`, or llama.cpp. Call it only when `problems` finds nothing."""
    if serve.cmd is not None or serve.engine != "llama.cpp":
        return generic.launch(serve, place)
    return llama_cpp.launch(serve, place)


def problems(serve: Serve) -> list[str]:
    """What is missing on this machine for such a start: one sentence each. Takes milliseconds, touches nothing."""
    if serve.cmd is not None or serve.engine != "llama.cpp":
        found = generic.problems(serve)
    else:
        found = llama_cpp.problems(serve)
    return found
