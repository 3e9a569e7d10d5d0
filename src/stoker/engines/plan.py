"""Which engine's command line a serve gets, and what that engine does not support."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.domain.serve import Serve
from stoker.engines import generic, llama_cpp, sglang, vllm
from stoker.engines.launch import Launch, LaunchPlace
from stoker.engines.served_names import name_caution


class Adapter(NamedTuple):
    launch: Callable[[Serve, LaunchPlace], Launch]
    problems: Callable[[Serve], list[str]]
    unsupported: Callable[[Serve], list[str]]


ADAPTERS = {
    "llama.cpp": Adapter(llama_cpp.launch, llama_cpp.problems, llama_cpp.unsupported),
    "vllm": Adapter(vllm.launch, vllm.problems, vllm.unsupported),
    "sglang": Adapter(sglang.launch, sglang.problems, sglang.unsupported),
}
"""Engines that Stoker can start; a serve with its own `cmd` needs none of them."""
_OWN = Adapter(generic.launch, generic.problems, lambda serve: [])


def plan(serve: Serve, place: LaunchPlace) -> Launch:
    """How to start a process serve: its own `cmd`, or its engine's. Call it only when `problems` finds nothing."""
    return _adapter(serve).launch(serve, place)


def problems(serve: Serve) -> list[str]:
    """What is missing on this machine for such a start: one sentence each. Takes milliseconds, touches nothing."""
    return _adapter(serve).problems(serve)


def unsupported(serve: Serve) -> list[str]:
    """Settings of the serve that its engine does not support: one sentence each. Pure, for `config check`."""
    return _adapter(serve).unsupported(serve)


def cautions(serve: Serve) -> list[str]:
    """What works but is probably not meant: one sentence each. Pure."""
    is_for_agents = not serve.aliases and not serve.makes_media
    caution = name_caution(serve.served_name or serve.name) if is_for_agents else None
    found = [] if caution is None else [caution]
    if serve.cmd is not None:
        return found
    if serve.engine == "sglang" and serve.key is not None:
        found.append(
            "SGLang takes its key on the command line only: every user of this machine can read "
            "it there: remove `key`, "
            "and each start gets a new one"
        )
    if serve.engine == "sglang" and serve.tuning.sampling:
        found.append(
            "SGLang up to 0.5.19 uses `sampling` for /generate only, not for chat: put the values into the model's "
            "generation_config.json for those"
        )
    if serve.engine == "vllm" and serve.sleep_level is not None and not serve.host.startswith(("127.", "::1")):
        found.append(
            f"`sleep_level` opens vLLM's development endpoints, which ask for no key, and host {serve.host} can be "
            "reached from other machines: use 127.0.0.1"
        )
    return found


def _adapter(serve: Serve) -> Adapter:
    return _OWN if serve.cmd is not None else ADAPTERS.get(serve.engine, _OWN)
