"""Which replica of a serve would suit a request."""

from __future__ import annotations

from typing import NamedTuple

from stoker.domain.prompt_chain import PromptChain


class ReplicaWish(NamedTuple):
    """What a request says about the replicas of its serve."""

    prompt: PromptChain | None = None
    """The one that has most of it in its cache suits best; None: there is no choice, or no prompt."""
    avoid: frozenset[str] = frozenset()
    """Names of replicas that failed it."""
    is_forwarded: bool = False
    """Another Stoker forwarded it, so it is not forwarded again."""


NO_WISH = ReplicaWish()
