"""Asks the layers, and turns what they find into a result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from stoker.domain.orchestrator import CheckLayer
from stoker.orchestrate.checks.structure import check_code, prose_finding
from stoker.orchestrate.loop.blocks import LayerResult, WorkerBlock

LayerCheck = Callable[[WorkerBlock, Sequence[WorkerBlock]], Awaitable[LayerResult]]
"""One layer: judges a block, given the blocks that are committed. Raises nothing but CancelledError."""


class LayeredChecker:
    """A `BlockChecker` made of one function per layer."""

    def __init__(self, layers: Mapping[CheckLayer, LayerCheck]) -> None:
        self._layers = layers

    @property
    def layers(self) -> tuple[CheckLayer, ...]:
        """Those that there are, cheapest first."""
        return tuple(layer for layer in CheckLayer if layer in self._layers)

    async def check(self, layer: CheckLayer, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        return await self._layers[layer](block, committed)


async def check_structure(block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
    """The first layer."""
    try:
        finding = await check_code(block.language, block.text) if block.is_code else prose_finding(block.text)
    except OSError as error:
        reason = f"the parser cannot be started: {error.strerror or error}"
        return LayerResult(CheckLayer.STRUCTURE, False, reason, is_readable=False)
    if finding is None:
        return LayerResult(CheckLayer.STRUCTURE, True)
    what = "write the text without repeating" if not block.is_code else "write code that parses"
    return LayerResult(CheckLayer.STRUCTURE, False, str(finding), f"{finding}; {what}.")
