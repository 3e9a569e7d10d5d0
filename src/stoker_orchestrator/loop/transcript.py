"""What the worker is sent: the client's request, the blocks that stand, and one instruction."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stoker.domain.prompt import Prompt, Role, Text, Turn
from stoker_orchestrator.loop.blocks import MARKER, Correction, WorkerBlock, joined

GO_ON = f"Go on with the next block. Repeat nothing. If nothing is left to write, answer {MARKER} and nothing else."
"""The last turn after a pause."""


def worker_prompt(
    request: Prompt, rules: str, blocks: Sequence[WorkerBlock] = (), correction: Correction | None = None
) -> Prompt:
    """The request that the worker gets. `rules`: the worker prompt, with its placeholder filled.

    The beginning is the same for each generation of a request, so that the engine's prefix cache serves it.
    """
    turns = [Turn(Role.SYSTEM, [Text(rules)]), *request.turns]
    if blocks or correction is not None:
        if blocks:
            turns.append(Turn(Role.ASSISTANT, [Text(joined(blocks, MARKER))]))
        turns.append(Turn(Role.USER, [Text(GO_ON if correction is None else correction_text(correction, len(blocks)))]))
    return replace(request, turns=turns, stream=True, tools=[], tool_choice=None, format=None, continues=False)


def correction_text(correction: Correction, committed: int) -> str:
    """The instruction to write a block again: layer, finding, block. Small models follow one instruction."""
    block = correction.block
    if not block.text:
        return f"Block {committed + 1} was not accepted: {correction.text}"
    return (
        f"Block {committed + 1} failed its {correction.layer.value} check: {correction.text}\n\n"
        f"The block was:\n```{block.fence or block.language}\n{block.text}```\n"
        "Write this whole block again, corrected, then go on with the rest. Repeat nothing else."
    )


def prompt_size(prompt: Prompt) -> int:
    """Characters of a prompt's text, for estimating its tokens."""
    return sum(len(block.text) for turn in prompt.turns for block in turn.blocks if isinstance(block, Text))
