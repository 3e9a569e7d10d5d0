"""A llama with random weights that fits in half a megabyte: enough for a real engine to load and to answer from."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import gguf
import numpy as np

WIDTH, LAYERS, HEADS, HIDDEN, CONTEXT = 64, 2, 4, 128, 2048
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message.role + '|>' + message.content + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@functools.cache
def content() -> bytes:
    """The file's bytes."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "tiny.gguf"
        _write(path)
        return path.read_bytes()


def write_tiny(path: Path) -> Path:
    path.write_bytes(content())
    return path


def _write(path: Path) -> None:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    size = _vocabulary(writer)
    random = np.random.default_rng(7)

    def tensor(name: str, *shape: int) -> None:
        writer.add_tensor(name, random.normal(0.0, 0.05, shape).astype(np.float32))

    tensor("token_embd.weight", size, WIDTH)
    tensor("output.weight", size, WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, dtype=np.float32))
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        tensor(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
        tensor(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
        tensor(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _vocabulary(writer: gguf.GGUFWriter) -> int:
    """Bytes, and the printable characters as tokens of their own."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    characters = ["\u2581", *(chr(code) for code in range(33, 127))]
    tokens += characters
    kinds += [gguf.TokenType.NORMAL] * len(characters)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(place) for place in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    return len(tokens)
