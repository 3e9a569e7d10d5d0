"""An Ollama store, as `ollama pull` and `ollama create` leave it: manifests, and blobs by their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fleet.memory.model_files import gguf

import stoker

SPARK = Path(stoker.__file__).parent / "models" / "spark.gguf"
LIBRARY = "registry.ollama.ai/library"


class OllamaHome:
    """A store at `path`; `model` adds a manifest and its blobs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "blobs").mkdir(parents=True)

    def blob(self, data: bytes) -> str:
        """Adds a blob; its digest."""
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs" / f"sha256-{digest}").write_bytes(data)
        return f"sha256:{digest}"

    def file(self, digest: str) -> Path:
        return self.path / "blobs" / digest.replace(":", "-")

    def model(
        self,
        name: str,
        weights: bytes | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **layers: bytes | Sequence[bytes],
    ) -> Path:
        """`name`: HOST/NAMESPACE/MODEL/TAG, or MODEL/TAG of the library. Returns the manifest."""
        rows = []
        found: dict[str, bytes | Sequence[bytes]] = {} if weights is None else {"model": weights}
        found |= layers
        if params is not None:
            found["params"] = json.dumps(params).encode()
        for kind, content in found.items():
            for data in [content] if isinstance(content, bytes) else content:
                media = f"application/vnd.ollama.image.{kind}"
                rows.append({"mediaType": media, "digest": self.blob(data), "size": len(data)})
        document = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"digest": self.blob(json.dumps(config or {"model_format": "gguf"}).encode())},
            "layers": rows,
        }
        path = self.path / "manifests" / (name if name.count("/") == 3 else f"{LIBRARY}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
        return path


def weights_of(folder: Path, architecture: str, tensors: Sequence[str] = (), **facts: Any) -> bytes:
    """A tiny GGUF file of an architecture, with further facts and tensors."""
    path = folder / "made.gguf"
    names = ["token_embd.weight", "blk.0.attn_q.weight", *tensors]
    basic = {
        "general.architecture": architecture,
        f"{architecture}.block_count": 1,
        f"{architecture}.context_length": 4096,
        f"{architecture}.embedding_length": 32,
        f"{architecture}.attention.head_count": 4,
        "tokenizer.ggml.tokens": ["a", "b"],
    }
    rows = [(name, (32, 4), 0, 512 * place) for place, name in enumerate(names)]
    gguf(path, basic | {key.replace("__", "."): value for key, value in facts.items()}, rows, 512 * len(names))
    data = path.read_bytes()
    path.unlink()
    return data
