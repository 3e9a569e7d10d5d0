"""The models of the bench: GGUF files of random weights, and folders for the PyTorch engine."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import weights
from bench.gpu.plan import Model, Width
from bench.gpu.stage import Skipped

TOKENS = 512
"""Of the PyTorch engine: words `t0 ` to `t511 `."""
TRAINED = 32768
"""Tokens of context."""
_SLICE = 64 * 2**20


def gguf_path(folder: Path, model: Model) -> Path:
    return folder / f"{model.kind}-{model.size // 10**6}.gguf"


@contextmanager
def _whole(path: Path, size: int, spare: int) -> Iterator[Path]:
    """Where to write `size` bytes that become `path` once all are on the disk; nothing is left of a part.

    Raises Skipped if less than `spare` bytes would stay free.
    """
    partial = path.with_suffix(".part")
    try:
        partial.unlink(missing_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < size + spare:
            needed = f"{path.name} takes {size / 1e9:.1f} GB, and {spare / 1e9:.1f} GB have to stay free"
            raise Skipped(f"{needed}: the disk has {free / 1e9:.1f} GB")
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def write_gguf(folder: Path, model: Model, width: Width, spare: int) -> tuple[Path, float]:
    """The file, and the bytes per second at which it was written, 0 if it was there. `spare`: of Plan.

    Raises ModuleNotFoundError without `gguf`, Skipped or OSError without room.
    """
    path = gguf_path(folder, model)
    if path.exists():
        return path, 0.0
    shape = weights.Shape(width.wide, 1, width.heads, width.hidden, TRAINED, width.kv_heads)
    began = time.perf_counter()
    with _whole(path, model.size, spare) as partial:
        weights.write_quantized(partial, model.kind, model.size, shape)
    return path, path.stat().st_size / (time.perf_counter() - began)


def write_folder(
    folder: Path, name: str, size: int, width: Width, has_file: bool, limit: int | None = None, spare: int = 0
) -> Path:
    """A model of the PyTorch engine, about `size` bytes: config.json, and weights.bin if it has a file.

    Raises Skipped or OSError without room for the file. `limit`: bytes of address space that the engine gives itself,
    if there is no GPU: a device that is too small.
    """
    path = folder / name
    path.mkdir(exist_ok=True)
    layers = max(1, round(size / (4 * width.wide * width.hidden)))
    config = {
        "architectures": ["BenchForCausalLM"], "model_type": "bench", "torch_dtype": "bfloat16",
        "num_hidden_layers": layers, "hidden_size": width.wide, "intermediate_size": width.hidden,
        "num_attention_heads": width.heads, "num_key_value_heads": width.kv_heads, "vocab_size": TOKENS,
        "max_position_embeddings": TRAINED, "bench_limit": limit,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    weights_file = path / "weights.bin"
    if has_file and not weights_file.exists():
        size = layers * 4 * width.wide * width.hidden
        with _whole(weights_file, size, spare) as partial:
            _write_random(partial, size)
    return path


def _write_random(path: Path, size: int) -> None:
    """Small bf16 numbers: the high byte is that of about 0.01, of either sign."""
    tile = bytearray(os.urandom(min(size, _SLICE) // 2 * 2))
    tile[1::2] = _high(len(tile) // 2)
    with path.open("wb") as file:
        left = size
        while left:
            left -= file.write(memoryview(tile)[:left])


def _high(number: int) -> bytes:
    pattern = bytes((0x3C, 0xBC, 0xBC, 0x3C, 0x3C, 0xBC, 0x3C))
    return (pattern * (number // len(pattern) + 1))[:number]


def write_small(path: Path) -> None:
    """A GGUF file of half a megabyte."""
    weights.write_random(path, 0)


def write_hugging_face(folder: Path, name: str, size: int) -> Path:
    """A Llama of random bf16 weights, about `size` bytes, as transformers writes it. Needs torch and transformers."""
    import tokenizers
    import torch
    import transformers

    path = folder / f"{name}-hugging-face"
    if (path / "config.json").exists():
        return path
    width, hidden = 2048, 8192
    layers = max(1, size // (2 * (3 * width * hidden + 3 * width * width)))
    config = transformers.LlamaConfig(
        vocab_size=TOKENS, hidden_size=width, intermediate_size=hidden, num_hidden_layers=layers,
        num_attention_heads=16, num_key_value_heads=8, max_position_embeddings=TRAINED,
    )  # fmt: skip
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, torch_dtype=torch.bfloat16)
    model.save_pretrained(path, max_shard_size="4GB")
    words = {"<s>": 0, "</s>": 1, **{f"t{number}": number for number in range(2, TOKENS)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="t2"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", chat_template="{{ messages[-1]['content'] }}"
    ).save_pretrained(path)
    return path
