"""Writes a checkpoint as a GGUF file.

`python -m training.export --checkpoint DIR/spark.pt --gguf spark.gguf`
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from training import tokenizer
from training.net import SHAPES, Net
from training.template import TEMPLATE
from training.tokenizer import BOS, BYTES, END, SPECIALS, Tokenizer

ABOUT = "A tiny model that tests Stoker; trained from scratch on synthetic chats. Not an assistant."


def add_vocabulary(writer: gguf.GGUFWriter, words: Tokenizer) -> None:
    kinds = [gguf.TokenType.NORMAL] * len(words.pieces)
    kinds[0] = gguf.TokenType.UNKNOWN
    kinds[1:5] = [gguf.TokenType.CONTROL] * 4
    kinds[5:7] = [gguf.TokenType.USER_DEFINED] * 2  # they must show in the output, for the tool-call parser
    first = len(SPECIALS)
    kinds[first : first + len(BYTES)] = [gguf.TokenType.BYTE] * len(BYTES)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.replace(" ", "\u2581") for piece in words.pieces])
    writer.add_token_scores([float(-rank) for rank in range(len(words.pieces))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)


def tensors(net: Net) -> dict[str, NDArray[np.float32]]:
    """llama.cpp's names; `output.weight` is left out, since the embeddings are tied."""
    shape = net.shape
    kv = shape.kv_heads * shape.head_dim
    found = {"token_embd.weight": net.embed.weight, "output_norm.weight": net.norm.weight}
    for i, block in enumerate(net.stack):
        q, k, v = torch.split(block.qkv.weight, [shape.dim, kv, kv])
        gate, up = block.gate_up.weight.chunk(2)
        found |= {
            f"blk.{i}.attn_norm.weight": block.attn_norm.weight,
            f"blk.{i}.attn_q.weight": q,
            f"blk.{i}.attn_k.weight": k,
            f"blk.{i}.attn_v.weight": v,
            f"blk.{i}.attn_output.weight": block.out.weight,
            f"blk.{i}.ffn_norm.weight": block.ffn_norm.weight,
            f"blk.{i}.ffn_gate.weight": gate,
            f"blk.{i}.ffn_up.weight": up,
            f"blk.{i}.ffn_down.weight": block.down.weight,
        }
    return {name: tensor.detach().float().contiguous().numpy() for name, tensor in found.items()}


def write(net: Net, me: str, words: Tokenizer, path: Path) -> None:
    shape = net.shape
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(me)
    writer.add_description(ABOUT)
    writer.add_license("Apache-2.0")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.theta)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_vocab_size(shape.vocab)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    add_vocabulary(writer, words)
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, array in tensors(net).items():
        if array.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="beside it lies vocabulary.json")
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--last", action="store_true", help="the last weights, not their average")
    args = parser.parse_args()
    saved = torch.load(args.checkpoint, weights_only=False)
    net = Net(SHAPES[saved["me"]])
    net.load_state_dict(saved["net"])
    if not args.last:
        for parameter, mean in zip(net.parameters(), saved["average"], strict=True):
            parameter.data.copy_(mean)
    write(net, saved["me"], tokenizer.load(args.checkpoint.parent / "vocabulary.json"), args.gguf)
    print(f"{args.gguf}: {args.gguf.stat().st_size} bytes, step {saved['step']}, {saved['seen']} tokens")


if __name__ == "__main__":
    main()
