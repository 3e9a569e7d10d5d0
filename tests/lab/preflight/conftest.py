"""The shipped models on the real llama.cpp, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.lab.preflight.proving import MODELS, engine


@pytest.fixture(scope="session")
def ember() -> Iterator[int]:
    with engine(MODELS / "ember.gguf") as port:
        yield port


@pytest.fixture(scope="session")
def embedder() -> Iterator[int]:
    with engine(MODELS / "ember.gguf", "--embedding", "--pooling", "last") as port:
        yield port


@pytest.fixture(scope="session")
def spark() -> Iterator[int]:
    with engine(MODELS / "spark.gguf", name="spark") as port:
        yield port
