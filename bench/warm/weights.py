"""A GGUF file of any size: a real engine loads it and answers from it, in nonsense."""

from __future__ import annotations

import os
from pathlib import Path

WIDE, LAYERS, HEADS = 1024, 4, 8
_BLOCK = 2**22
"""Random numbers drawn; each tensor is cut from them at another place."""


def write(path: Path, size: int) -> None:
    """A Llama of F16 weights, at least `size` bytes (64 MiB and more), most of it in its feed-forward matrices.

    On the disk when it returns. Raises ModuleNotFoundError without `gguf`, OSError when the disk is full.
    """
    import gguf
    import numpy as np

    dice = np.random.default_rng(1)
    block = (dice.standard_normal(_BLOCK) * 0.02).astype(np.float16)
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256)), b"\xe2\x96\x81"]
    tokens += [bytes([byte]) for byte in range(33, 127)]
    attention = LAYERS * 4 * WIDE * WIDE
    hidden = -(-(size // 2 - attention) // (LAYERS * 3 * WIDE * 32)) * 32
    shapes = _shapes(len(tokens), hidden)

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDE)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDE // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    _add_tokens(writer, tokens)
    for name, shape in shapes.items():
        kind = np.dtype(np.float32 if len(shape) == 1 else np.float16)
        count = int(np.prod(shape))
        writer.add_tensor_info(name, shape, kind, count * kind.itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for shape in shapes.values():
        if len(shape) == 1:
            writer.write_tensor_data(np.ones(shape, dtype=np.float32))
        else:
            writer.write_tensor_data(np.resize(np.roll(block, int(dice.integers(_BLOCK))), shape))
    writer.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _shapes(vocabulary: int, hidden: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocabulary, WIDE), "output_norm.weight": (WIDE,)}
    for block in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            shapes[f"blk.{block}.{norm}.weight"] = (WIDE,)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            shapes[f"blk.{block}.{part}.weight"] = (WIDE, WIDE)
        shapes[f"blk.{block}.ffn_gate.weight"] = (hidden, WIDE)
        shapes[f"blk.{block}.ffn_up.weight"] = (hidden, WIDE)
        shapes[f"blk.{block}.ffn_down.weight"] = (WIDE, hidden)
    return shapes


def _add_tokens(writer: object, tokens: list[bytes]) -> None:
    """Bytes and printable characters; the template says only what the user said."""
    import gguf

    assert isinstance(writer, gguf.GGUFWriter)
    byte_type, control, normal = 6, 3, 1
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(rank) for rank in range(len(tokens))])
    writer.add_token_types([2, control, control, *[byte_type] * 256, *[normal] * (len(tokens) - 259)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
