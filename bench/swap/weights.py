"""The tiny models, and whether their bytes are in the page cache."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

import stoker


class Shape(NamedTuple):
    """Of a Llama. `context` in tokens."""

    wide: int
    layers: int
    heads: int
    hidden: int
    context: int


TINY = Shape(64, 2, 4, 192, 4096)
"""Half a megabyte."""
LONG = Shape(256, 4, 8, 768, 16_384)
"""Fourteen megabytes: slow enough for 8,000 tokens to take seconds, 4 KB of KV cache per token."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


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


def drop_from_page_cache(path: Path) -> float | None:
    """Ask the kernel to forget the file. Returns the share that is still cached; None where it cannot be told."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = path.stat().st_size
        # from the end: a page that is looked at may bring the following ones in
        pages = range((size - 1) // _PAGE * _PAGE, -1, -_PAGE)
        seen = [_is_cached(file.fileno(), at) for at in pages]
    return None if None in seen else sum(map(bool, seen)) / len(seen)


def _is_cached(file: int, at: int) -> bool | None:
    try:
        os.preadv(file, [bytearray(1)], at, os.RWF_NOWAIT)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    return True


def write_random(path: Path, seed: int, shape: Shape = TINY) -> None:
    """A Llama with byte-level tokens and random weights, which says nothing."""
    import gguf
    import numpy as np

    wide, layers, heads, hidden, context = shape
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256)), b"\xe2\x96\x81"]
    tokens += [bytes([byte]) for byte in range(33, 127)]
    byte_type, control, normal = 6, 3, 1
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_context_length(context)
    writer.add_embedding_length(wide)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(wide // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(rank) for rank in range(len(tokens))])
    writer.add_token_types([2, control, control, *[byte_type] * 256, *[normal] * (len(tokens) - 259)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:")
    dice = np.random.default_rng(seed)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, (dice.standard_normal(shape) * 0.05).astype(np.float32))

    add("token_embd.weight", len(tokens), wide)
    writer.add_tensor("output_norm.weight", np.ones(wide, dtype=np.float32))
    for block in range(layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{block}.{norm}.weight", np.ones(wide, dtype=np.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{block}.{part}.weight", wide, wide)
        add(f"blk.{block}.ffn_gate.weight", hidden, wide)
        add(f"blk.{block}.ffn_up.weight", hidden, wide)
        add(f"blk.{block}.ffn_down.weight", wide, hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
