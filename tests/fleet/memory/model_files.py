"""Model files of any shape: GGUF headers with the tensors' places but no data, and hub directories."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LLAMA_8B = {
    "general.architecture": "llama", "general.name": "eight", "llama.block_count": 32, "llama.context_length": 131072,
    "llama.embedding_length": 4096, "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8,
    "tokenizer.ggml.tokens": ["a", "bc"] * 64128,
}  # fmt: skip


def gguf(
    path: Path, facts: Mapping[str, Any], tensors: Sequence[tuple[str, tuple[int, ...], int, int]], size: int = 0
) -> Path:
    """`tensors`: name, dimensions, type, offset. The file is `size` bytes of data long (sparse: no disk is used)."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    for key, value in facts.items():
        header += _text(key) + _value(value)
    for name, dimensions, kind, offset in tensors:
        header += _text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)
    header += bytes(-len(header) % 32)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
    return path


def llama(path: Path, layers: int = 32, kind: int = 12, block: tuple[int, int] = (256, 144), **facts: Any) -> Path:
    """An eight-billion-parameter llama in Q4_K, or what is asked for."""
    tensors, offset = [], 0
    places = [("token_embd.weight", 4096 * 128256), ("output.weight", 4096 * 128256)]
    places += [(f"blk.{number}.all.weight", 218_103_808) for number in range(layers)]
    for name, elements in places:
        tensors.append((name, (4096, elements // 4096), kind, offset))
        offset += elements // block[0] * block[1]
    return gguf(path, LLAMA_8B | facts, tensors, offset)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value) if value < 2**32 else struct.pack("<IQ", 10, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)


QWEN = {
    "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096, "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}  # fmt: skip


def hub(folder: Path, config: Mapping[str, Any], files: int = 1, tensor: int = 1000, kind: str = "BF16") -> Path:
    """A model's directory: so many files of one tensor of so many bytes each."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = [f"model-{number}.safetensors" for number in range(files)]
    for name in names:
        header = json.dumps({
            "__metadata__": {"format": "pt"},
            "w": {"dtype": kind, "shape": [tensor], "data_offsets": [0, tensor]},
        }).encode()  # fmt: skip
        (folder / name).write_bytes(len(header).to_bytes(8, "little") + header + bytes(tensor))
    if files > 1:
        index = {
            "metadata": {"total_size": files * tensor},
            "weight_map": {f"w{n}": name for n, name in enumerate(names)},
        }
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
