"""A prompt as a chain of hashes, by which Stoker knows which replica of a serve has its beginning in its cache."""

from __future__ import annotations

from typing import NamedTuple


class PromptChain(NamedTuple):
    """The prompt of a request, cut into blocks. Two prompts that begin with the same blocks have the same first hashes.

    Never empty.
    """

    hashes: tuple[int, ...]
    """One for each block: of that block and everything before it."""
    ends: tuple[int, ...]
    """Bytes of the prompt up to the end of each block."""

    @property
    def size(self) -> int:
        """Bytes of the whole prompt."""
        return self.ends[-1]
