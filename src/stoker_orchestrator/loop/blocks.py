"""Blocks of a worker's answer, and how they are put together again."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stoker_orchestrator.orchestrator import CheckLayer

MARKER = "<<END-OF-BLOCK>>"
"""The line with which the worker ends a block. No language can parse it."""


class WorkerBlock(msgspec.Struct, frozen=True):
    """One function, class or run of prose, as the worker wrote it, without the lines of its fence."""

    text: str
    """Ends with a line end, unless it is empty."""
    is_code: bool = False
    language: str = ""
    """See `loop.languages`; empty: it looks like no code."""
    path: str = ""
    """The file that the block belongs to; empty: none was named."""
    fence: str = ""
    """What follows the backquotes of its fence; meaningless without `is_fenced`."""
    is_fenced: bool = False
    opens_fence: bool = False
    """Its fence begins with it; False: it goes on in the fence of the block before."""
    is_too_long: bool = False
    """It was cut off at the limit."""

    def follows_in_same_fence(self, before: WorkerBlock | None) -> bool:
        return before is not None and before.is_fenced and self.is_fenced and not self.opens_fence


END_OF_ANSWER = WorkerBlock("", is_code=True)
"""Stands for the end of the answer, where a layer judges all committed blocks together."""


class LayerResult(msgspec.Struct, frozen=True):
    """What one layer found. `correction` is the one instruction that goes back to the worker."""

    layer: CheckLayer
    passed: bool
    reason: str = ""
    """For people: what was found, and where."""
    correction: str = ""
    """For the worker; empty: the reason."""
    is_decided: bool = True
    """False: the layer could not judge. The block has not passed, but is not known to be wrong."""
    tokens: int = 0
    """Tokens that this check cost."""
    output_tokens: int = 0
    """Of them, those that the validator wrote."""


class Correction(msgspec.Struct, frozen=True):
    """A block that failed, and why: the worker writes it again."""

    block: WorkerBlock
    layer: CheckLayer
    text: str


class BlockWriter:
    """Puts blocks together again, one after the other, with their fences."""

    def __init__(self, marker: str = "") -> None:
        """`marker`: ends each block of code, as the worker writes it; empty: the client's form."""
        self._marker = marker
        self._last: WorkerBlock | None = None

    def add(self, block: WorkerBlock) -> str:
        """The text that this block adds."""
        last, self._last = self._last, block
        marker = f"{self._marker}\n" if self._marker and block.is_code else ""
        if not block.is_fenced:
            return f"{_closing(last)}{block.text}{marker}"
        if last is not None and block.follows_in_same_fence(last):
            return f"{'' if self._marker else _gap(last.text)}{block.text}{marker}"
        return f"{_closing(last)}```{block.fence}\n{block.text}{marker}"

    def close(self) -> str:
        """What is left to write after the last block."""
        last, self._last = self._last, None
        return _closing(last)


def _closing(last: WorkerBlock | None) -> str:
    return "```\n" if last is not None and last.is_fenced else ""


def _gap(before: str) -> str:
    """The blank line between two blocks of one fence or file."""
    return "" if not before or before.endswith("\n\n") else "\n"


def file_text(texts: Iterable[str]) -> str:
    """The file that these blocks make."""
    whole = ""
    for text in texts:
        whole += _gap(whole) + text
    return whole


def joined(blocks: Iterable[WorkerBlock], marker: str = "") -> str:
    """The answer that these blocks make."""
    writer = BlockWriter(marker)
    return "".join([*(writer.add(block) for block in blocks), writer.close()])
