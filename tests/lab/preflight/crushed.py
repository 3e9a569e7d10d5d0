"""A GGUF file whose weights are rounded to two bits, in place."""

from __future__ import annotations

import shutil
from pathlib import Path


def crush(source: Path, target: Path) -> None:
    """Each 8-bit weight becomes one of four values, as a careless 2-bit quantisation leaves it."""
    import gguf
    import numpy as np

    shutil.copyfile(source, target)
    reader = gguf.GGUFReader(str(target), "r+")
    for tensor in reader.tensors:
        if tensor.tensor_type == gguf.GGMLQuantizationType.Q8_0 and "token_embd" not in tensor.name:
            blocks = tensor.data.reshape(-1, 34)  # a scale of two bytes, then 32 weights
            weights = blocks[:, 2:].view(np.int8)
            weights[:] = np.clip(np.round((weights.astype(np.float32) + 127) / 254 * 3), 0, 3) / 3 * 254 - 127
    reader.data.flush()
