"""The engines that there are. Everything that depends on an engine is asked here, by the name in the configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from stoker.domain import kinds
from stoker.engines import generic, llama_cpp, mlx_lm, sglang, vllm
from stoker.engines.record import Engine
from stoker.extensions import FAILURES, Extension, load, usable_extensions

log = logging.getLogger("stoker.extensions")

DEFAULT = llama_cpp.ENGINE
"""That of a serve whose configuration names none."""
GENERIC = generic.ENGINE
"""Anything with an OpenAI-like API."""
ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (DEFAULT, vllm.ENGINE, sglang.ENGINE, mlx_lm.ENGINE, GENERIC)
}
"""By name, in the order in which they are shown. `register` adds to it."""
kinds.ENGINES[:] = ENGINES


def register(engine: Engine) -> None:
    """Adds the engine of an extension. Call it before the configuration is read. Raises ValueError for a taken name."""
    if engine.name in ENGINES:
        raise ValueError(f"there is an engine '{engine.name}' already")
    ENGINES[engine.name] = engine
    kinds.ENGINES.append(engine.name)


def register_offered(extensions: Iterable[Extension]) -> None:
    """Adds the engines that these extensions offer. One that cannot be used is left out, with a line in the log."""
    for offer in (offer for extension in extensions for offer in extension.engines):
        try:
            engine = load(offer.place)
            if not isinstance(engine, Engine) or engine.name != offer.name:
                raise TypeError(f"{offer.place} is not a stoker.engines.record.Engine with this name")
            register(engine)
        except FAILURES as error:
            log.warning("engine %s of an extension is not used: %s: %s", offer.name, type(error).__name__, error)


def engine_of(name: str) -> Engine:
    """The engine of that name; GENERIC for one that only another Stoker has, by an extension."""
    return ENGINES.get(name, GENERIC)


def those(has: Callable[[Engine], object]) -> list[str]:
    """The names of all engines that `has` something."""
    return [engine.name for engine in ENGINES.values() if has(engine)]


register_offered(usable_extensions())
