"""What of a model matters for memory. Bytes, tokens, elements; None is unknown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    weights: int = 0
    heads: int = 0
    """Key-value heads; 0: this layer keeps no cache per token. 1 for the one compressed vector of all heads (MLA)."""
    elements: int = 0
    """Cached numbers per token and head: key and value together."""
    window: int | None = None
    """Size of the attention window in tokens; None: all."""
    state: int = 0
    """Bytes per sequence, however long it is (state-space and linear attention layers)."""


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    architecture: str
    format: str
    """`gguf` or `safetensors`."""
    precision: str
    """Of most of its bytes: `Q4_K`, `BF16`, `FP8`, `AWQ`, `NVFP4`..."""
    weights: int
    """Bytes of all tensors."""
    layers: tuple[Layer, ...]
    parameters: int | None = None
    embedding: int = 0
    """Bytes of the token embedding, which llama.cpp leaves in main memory."""
    context: int | None = None
    """Tokens that it was trained for."""
    vocabulary: int | None = None
    width: int | None = None
    experts: int | None = None
    block_size: int | None = None
    """Of block-scaled FP8."""
    notes: tuple[str, ...] = ()
    """What was assumed, since the files do not say."""

    @property
    def is_moe(self) -> bool:
        return bool(self.experts)
