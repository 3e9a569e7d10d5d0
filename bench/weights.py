"""GGUF files that a real engine loads and answers from, in nonsense: tiny ones, and one of any size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import stoker

if TYPE_CHECKING:
    from gguf import GGUFWriter


class Shape(NamedTuple):
    """Of a Llama. `context` in tokens."""

    wide: int
    layers: int
    heads: int
    hidden: int
    context: int
    kv_heads: int | None = None
    """None: as many as heads."""

    @property
    def of_keys(self) -> int:
        """Rows of the matrices that make keys and values."""
        return self.wide // self.heads * (self.kv_heads or self.heads)


TINY = Shape(64, 2, 4, 192, 4096)
"""Half a megabyte."""
LONG = Shape(256, 4, 8, 768, 16_384)
"""Fourteen megabytes: slow enough for 8,000 tokens to take seconds, 4 KB of KV cache per token."""
_BYTES = [b"<0x%02X>" % byte for byte in range(256)]
_TOKENS = [b"<unk>", b"<s>", b"</s>", *_BYTES, b"\xe2\x96\x81", *(bytes([byte]) for byte in range(33, 127))]
"""Bytes and printable characters."""
_TALK = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
_ECHO = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
"""Only what the user said."""
_BLOCK = 2**22
"""Random numbers drawn for a large file; each tensor is cut from them at another place."""


def find(folder: Path) -> tuple[tuple[Path, Path], str]:
    """Two GGUF files and a word about them. Shipped ones where there are any, else random weights written to `folder`.

    Raises ModuleNotFoundError if there are none and `gguf` is not installed.
    """
    shipped = sorted((Path(stoker.__file__).parent / "models").glob("*.gguf"))
    if shipped:
        return (shipped[0], shipped[-1]), "the shipped tiny models"
    paths = (folder / "random-a.gguf", folder / "random-b.gguf")
    for seed, path in enumerate(paths):
        write_random(path, seed)
    return paths, "random weights (no shipped models found)"


def write_random(path: Path, seed: int, shape: Shape = TINY) -> None:
    """A Llama with byte-level tokens and random weights in 32 bits. Raises ModuleNotFoundError without `gguf`."""
    import numpy as np

    writer = _writer(path, shape, _TALK)
    dice = np.random.default_rng(seed)
    for name, size in _tensors(shape).items():
        values = np.ones(size) if len(size) == 1 else dice.standard_normal(size) * 0.05
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_large(path: Path, size: int) -> None:
    """A Llama of F16 weights, at least `size` bytes (64 MiB and more), most of it in its feed-forward matrices.

    On the disk when it returns. Raises ModuleNotFoundError without `gguf`, OSError when the disk is full.
    """
    import numpy as np

    dice = np.random.default_rng(1)
    block = (dice.standard_normal(_BLOCK) * 0.02).astype(np.float16)
    wide, layers = 1024, 4
    attention = layers * 4 * wide * wide
    hidden = -(-(size // 2 - attention) // (layers * 3 * wide * 32)) * 32
    shape = Shape(wide, layers, 8, hidden, 512)

    writer = _writer(path, shape, _ECHO)
    tensors = _tensors(shape)
    for name, dimensions in tensors.items():
        kind = np.dtype(np.float32 if len(dimensions) == 1 else np.float16)
        writer.add_tensor_info(name, dimensions, kind, int(np.prod(dimensions)) * kind.itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for dimensions in tensors.values():
        if len(dimensions) == 1:
            writer.write_tensor_data(np.ones(dimensions, dtype=np.float32))
        else:
            writer.write_tensor_data(np.resize(np.roll(block, int(dice.integers(_BLOCK))), dimensions))
    writer.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_quantized(path: Path, kind: str, size: int, shape: Shape) -> int:
    """A Llama of about `size` bytes whose matrices are `q4_0`, `q8_0` or `f16`: random blocks, scaled so that
    activations stay finite. `shape` without its layers, of which there are as many as it takes. Returns their number.

    Written slice by slice from one tile, so that the disk sets the pace. Raises as `write_large` does.
    """
    import gguf
    import numpy as np

    quantized = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0}.get(kind)
    numbers, length = gguf.GGML_QUANT_SIZES[quantized or gguf.GGMLQuantizationType.F16]
    dice = np.random.default_rng(1)
    scale = np.float16(shape.wide**-0.5 / {"q4_0": 4.6, "q8_0": 74.0, "f16": 1.0}[kind])
    if quantized is None:
        tile = memoryview((dice.standard_normal(_BLOCK) * scale).astype(np.float16).tobytes())
    else:
        blocks = dice.integers(0, 256, (_BLOCK // numbers, length), dtype=np.uint8)
        blocks[:, :2] = np.frombuffer(scale.tobytes(), np.uint8)
        tile = memoryview(blocks.tobytes())

    def length_of(dimensions: tuple[int, ...]) -> int:
        count = int(np.prod(dimensions))
        return count * 4 if len(dimensions) == 1 else count // numbers * length

    one = sum(length_of(d) for d in _tensors(shape._replace(layers=1)).values())
    none = sum(length_of(d) for d in _tensors(shape._replace(layers=0)).values())
    shape = shape._replace(layers=max(1, round((size - none) / (one - none))))
    writer = _writer(path, shape, _ECHO)
    tensors = _tensors(shape)
    for name, dimensions in tensors.items():
        if len(dimensions) == 1:
            writer.add_tensor_info(name, dimensions, np.dtype(np.float32), length_of(dimensions))
        elif quantized is None:
            writer.add_tensor_info(name, dimensions, np.dtype(np.float16), length_of(dimensions))
        else:
            rows = (dimensions[0], dimensions[1] // numbers * length)
            writer.add_tensor_info(name, rows, np.dtype(np.uint8), length_of(dimensions), raw_dtype=quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    assert writer.fout is not None
    file = writer.fout[0]
    writer.write_padding(file, file.tell())
    for dimensions in tensors.values():
        left = length_of(dimensions)
        if len(dimensions) == 1:
            file.write(np.ones(dimensions, dtype=np.float32).tobytes())
            left = 0
        while left:
            left -= file.write(tile[:left])
        writer.write_padding(file, file.tell())
    writer.close()
    return shape.layers


def _writer(path: Path, shape: Shape, template: str) -> GGUFWriter:
    """Knows everything but the tensors."""
    import gguf

    byte_type, control, normal = 6, 3, 1
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.wide)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads or shape.heads)
    writer.add_rope_dimension_count(shape.wide // shape.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(_TOKENS))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(_TOKENS)
    writer.add_token_scores([-float(rank) for rank in range(len(_TOKENS))])
    writer.add_token_types([2, control, control, *[byte_type] * 256, *[normal] * (len(_TOKENS) - 259)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(template)
    return writer


def _tensors(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Name to size; the norms have one dimension."""
    wide, hidden = shape.wide, shape.hidden
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(_TOKENS), wide), "output_norm.weight": (wide,)}
    for block in range(shape.layers):
        for norm in ("attn_norm", "ffn_norm"):
            found[f"blk.{block}.{norm}.weight"] = (wide,)
        for part in ("attn_q", "attn_output"):
            found[f"blk.{block}.{part}.weight"] = (wide, wide)
        for part in ("attn_k", "attn_v"):
            found[f"blk.{block}.{part}.weight"] = (shape.of_keys, wide)
        found[f"blk.{block}.ffn_gate.weight"] = (hidden, wide)
        found[f"blk.{block}.ffn_up.weight"] = (hidden, wide)
        found[f"blk.{block}.ffn_down.weight"] = (wide, hidden)
    return found
