"""Whether a serve's context is above what its model was trained for, which engines refuse or cut."""

from __future__ import annotations

import os
import re

from stoker.domain.serve import Driver, Serve
from stoker.engines.registry import ENGINES, engine_of
from stoker.fleet.memory.fit import hf_config
from stoker.store.files import gguf_header


def trained_context(model: str) -> int | None:
    """The tokens that the model at this path was trained for. None: unknown, or not on this machine. Takes 0.1 ms."""
    if os.path.isdir(model):
        return hf_config.trained_context(model)
    return gguf_header.trained_context(model) if os.path.isfile(model) else None


def excess(serve: Serve) -> int | None:
    """The tokens that the model of a serve was trained for, if its `context` is above them. None: it is not, that is
    unknown, or the serve has options that stretch the context (RoPE scaling). Reads the first part of a header.
    """
    if serve.context is None or serve.auto_context or serve.driver in (Driver.EXTERNAL, Driver.RAY, Driver.BOX):
        return None
    patterns = [engine.stretches for engine in ENGINES.values() if engine.stretches]
    words = (*(serve.cmd or ()), *serve.extra_args, *(serve.up or ()), *serve.env)
    if any(re.match(pattern, word) for pattern in patterns for word in words):
        return None
    trained = trained_context(serve.model)
    return trained if trained is not None and serve.context > trained else None


def caution(serve: Serve, trained: int) -> str:
    """What comes of a context above `trained` tokens, and what to do."""
    engine = engine_of(serve.engine)
    effect = (
        f"{engine.title} refuses to start with it" if engine.refuses_long_context else "longer requests are refused"
    )
    stretched = ", or give the engine options that stretch it (RoPE scaling) in `extra_args`"
    more = stretched if engine.package(serve) is None else ""
    above = f"{serve.context} is above the {trained} tokens that the model was trained for"
    return f"{above}: {effect}; set at most {trained}{more}"
