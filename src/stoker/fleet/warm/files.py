"""Which files a serve's weights are."""

from __future__ import annotations

import os
import re

from stoker.domain.serve import Serve

_PART = re.compile(r"(?P<stem>.*)-00001-of-(?P<count>\d{5})\.gguf")
_ENDINGS = (".safetensors", ".gguf", ".bin", ".pt")


def weights_of(serve: Serve) -> dict[str, int]:
    """Path to bytes: a GGUF file with all its parts, or the weights in a model's directory.

    Empty where that cannot be told: a hub's id, a model that lies elsewhere, a part that is missing. Blocks for as
    long as the disk takes to look files up.
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
    found = _PART.fullmatch(model)
    if found is None:
        return [model]
    count = int(found["count"])
    return [f"{found['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
