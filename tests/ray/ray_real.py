"""A real Ray cluster on loopback addresses for a module of tests, or the reason why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from scripts.ray_playground import Playground, install

from stoker.domain.cluster import Cluster
from stoker.domain.serve import Secret


def started() -> Iterator[Playground]:
    """Installs Ray into a venv of its own, once, and starts a head and two nodes."""
    if problem := install():
        pytest.skip(problem)
    worker = int(os.environ.get("STOKER_TEST_WORKER", "0"))
    playground = Playground(first=12 + 10 * worker)
    try:
        playground.start()
        yield playground
    finally:
        playground.close()


def cluster(playground: Playground) -> Cluster:
    return Cluster("lab", playground.address, Secret(playground.token, "file:token"))
