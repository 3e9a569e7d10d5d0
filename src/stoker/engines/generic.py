"""Engine `openai`: anything with an OpenAI-like API, which a `cmd` starts or which somebody else runs."""

from __future__ import annotations

from stoker.engines.record import TORCH_CACHES, Engine

ENGINE: Engine = Engine(
    name="openai",
    title="openai",
    caches=TORCH_CACHES,
    paths={
        ("GET", "health"): False, ("GET", "v1/models"): False, ("GET", "version"): False, ("GET", "metrics"): False,
        ("POST", "tokenize"): False, ("POST", "detokenize"): False, ("POST", "v1/score"): True,
    },
)  # fmt: skip
