"""CPU of the control plane for each block, with a worker that streams at full speed and the structure layer."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.figures import Spread, show_spread, spread, table
from bench.orchestrating.blocks import BLOCKS
from bench.orchestrating.plane import ScriptedPlane

KEYS = "check_names = false"


class LoopCost(NamedTuple):
    """CPU milliseconds for each block, over rounds."""

    block_by_block: Spread
    simple: Spread
    """The same answer, relayed."""


class PlainCost(NamedTuple):
    """CPU milliseconds for each request that names a serve, over rounds."""

    with_orchestrator: Spread
    without: Spread


def loop_cost(folder: Path, requests: int, rounds: int, pieces: int = 8) -> LoopCost:
    found: dict[str, list[float]] = {"block_by_block": [], "simple": []}
    with ScriptedPlane(folder, {"pair": KEYS}) as plane:
        plane.script({}, pieces=pieces)
        for policy in found:
            for _ in range(10):
                plane.ask("pair", policy)
        for _ in range(rounds):
            for policy, seen in found.items():
                seen.append(_cpu_ms(plane, "pair", policy, requests) / len(BLOCKS))
    return LoopCost(*(_spread(seen) for seen in found.values()))


def plain_cost(folder: Path, requests: int, rounds: int) -> PlainCost:
    """In turns, on two control planes."""
    found: list[list[float]] = [[], []]
    with ScriptedPlane(folder / "with", {"pair": KEYS}) as one, ScriptedPlane(folder / "without", {}) as other:
        planes = (one, other)
        for plane in planes:
            plane.script({}, pieces=1)
            _cpu_ms(plane, "validator", "simple", 100)
        for turn in range(rounds):
            for at in (0, 1) if turn % 2 else (1, 0):
                found[at].append(_cpu_ms(planes[at], "validator", "simple", requests))
    return PlainCost(*(_spread(seen) for seen in found))


def _cpu_ms(plane: ScriptedPlane, model: str, policy: str, requests: int) -> float:
    """For each request."""
    before = plane.cpu_seconds()
    for _ in range(requests):
        answer = plane.ask(model, policy)
        if not answer.is_complete:
            raise RuntimeError(f"{model}: status {answer.status}: {answer.received[-300:]}")
    return 1000 * (plane.cpu_seconds() - before) / requests


def _spread(seen: list[float]) -> Spread:
    found = spread(seen)
    assert found is not None
    return found


def show_cost(loop: LoopCost, plain: PlainCost) -> str:
    own = loop.block_by_block.median - loop.simple.median
    rows = [
        ["a block, block by block", show_spread(loop.block_by_block, 2)],
        ["the same text, relayed (`simple`)", show_spread(loop.simple, 2)],
        ["the difference", f"{own:.2f}"],
        ["a request to a serve, an orchestrator is configured", show_spread(plain.with_orchestrator, 3)],
        ["a request to a serve, none is configured", show_spread(plain.without, 3)],
    ]
    return table(["CPU of the control plane", "ms"], rows)
