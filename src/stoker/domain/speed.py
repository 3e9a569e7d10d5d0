"""How fast an answer was written, where its times can tell."""

from __future__ import annotations

from stoker.domain.decision import Decision

FEWEST_TOKENS = 5
SHORTEST = 0.05
"""Seconds after the first token. Pieces arrive a few milliseconds early or late, and several tokens may share one: in
fewer tokens or a shorter time, that is a large part of the result.
"""


def tokens_per_second(decision: Decision) -> float | None:
    """Of the tokens after the first one, whose time is the prompt's. None: the answer came whole or in blocks, was too
    short to tell, or something about it is unknown.
    """
    output, first, whole = decision.output_tokens, decision.ttft, decision.latency
    came_in_tokens = decision.stream and not comes_in_blocks(decision)
    if not came_in_tokens or output is None or first is None or whole is None:
        return None
    seconds = whole - first
    return (output - 1) / seconds if output >= FEWEST_TOKENS and seconds >= SHORTEST else None


def comes_in_blocks(decision: Decision) -> bool:
    """Whether the client got whole blocks, whose times say nothing about the worker's rate."""
    return decision.orchestrated is not None and decision.orchestrated.policy == "block_by_block"
