"""Asks the layers, and turns what they find into a result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from stoker.domain.orchestrator import CheckLayer
from stoker.orchestrate.checks.structure import structure_finding
from stoker.orchestrate.loop.blocks import LayerResult, WorkerBlock

LayerCheck = Callable[[WorkerBlock, Sequence[WorkerBlock]], Awaitable[LayerResult]]
"""One layer: judges a block, given the blocks that are committed. Raises nothing but CancelledError."""


class LayeredChecker:
    """A `BlockChecker` made of one function per layer."""

    def __init__(self, layers: Mapping[CheckLayer, LayerCheck]) -> None:
        self._layers = layers

    async def check(self, layer: CheckLayer, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        return await self._layers[layer](block, committed)


async def check_structure(block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
    """The first layer."""
    if not block.is_code:
        return LayerResult(CheckLayer.STRUCTURE, True)
    finding = await asyncio.to_thread(structure_finding, block.language, block.text)
    if finding is None:
        return LayerResult(CheckLayer.STRUCTURE, True)
    return LayerResult(CheckLayer.STRUCTURE, False, str(finding))
