"""Names what a model is told by its wording, which decides as much as the model. Pure."""

from __future__ import annotations

import hashlib


def wording_of(prompt: str) -> str:
    """Names a validator prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:8]
