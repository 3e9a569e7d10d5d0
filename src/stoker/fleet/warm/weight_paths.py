"""The files that hold a serve's weights."""

from __future__ import annotations

import os

from stoker.domain.serve import Serve
from stoker.store.files.split_gguf import model_files

_ENDINGS = (".safetensors", ".gguf", ".bin", ".pt")


def weights_of(serve: Serve) -> dict[str, int]:
    """Path to bytes: a GGUF file with all its parts, or the weights in a model's directory.

    Empty if unknown: a hub id, a model elsewhere, a missing part. Blocks while it reads the directory.
    """
    if not os.path.isabs(serve.model):
        return {}
    try:
        return {path: os.stat(path).st_size for path in _paths(serve.model)}
    except OSError:
        return {}


def _paths(model: str) -> list[str]:
    if os.path.isdir(model):
        return sorted(entry.path for entry in os.scandir(model) if entry.name.endswith(_ENDINGS))
    return model_files(model)
