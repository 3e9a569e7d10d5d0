"""Headers of twelve models that people run, as sparse files: the right tensors and facts, and no weights on disk.

By the models' published configurations; the names are llama.cpp's, which loads these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fleet.memory.model_files import gguf

F32, Q8_0, Q4_K, MXFP4 = 0, 8, 12, 39
_BYTES = {F32: (1, 4), Q8_0: (32, 34), Q4_K: (256, 144), MXFP4: (32, 17)}
Tensor = tuple[str, tuple[int, ...]]


def _dense(width: int, inner: int, prefix: str = "ffn_") -> Iterator[Tensor]:
    yield f"{prefix}gate.weight", (width, inner)
    yield f"{prefix}up.weight", (width, inner)
    yield f"{prefix}down.weight", (inner, width)


def _experts(width: int, inner: int, count: int) -> Iterator[Tensor]:
    yield "ffn_gate_inp.weight", (width, count)
    yield "ffn_gate_exps.weight", (width, inner, count)
    yield "ffn_up_exps.weight", (width, inner, count)
    yield "ffn_down_exps.weight", (inner, width, count)


def _attention(width: int, heads: int, kept: int, size: int) -> Iterator[Tensor]:
    yield "attn_norm.weight", (width,)
    yield "attn_q.weight", (width, heads * size)
    yield "attn_k.weight", (width, kept * size)
    yield "attn_v.weight", (width, kept * size)
    yield "attn_output.weight", (heads * size, width)


def _biases(heads: int, kept: int, size: int) -> Iterator[Tensor]:
    yield from (("attn_q.bias", (heads * size,)), ("attn_k.bias", (kept * size,)), ("attn_v.bias", (kept * size,)))


def _norms(size: int) -> Iterator[Tensor]:
    yield from (("attn_q_norm.weight", (size,)), ("attn_k_norm.weight", (size,)))


def _llama(width: int, inner: int, heads: int, kept: int) -> Callable[[int], Iterator[Tensor]]:
    def layer(number: int) -> Iterator[Tensor]:
        yield from _attention(width, heads, kept, 128)
        yield "ffn_norm.weight", (width,)
        yield from _dense(width, inner)

    return layer


def _phi(number: int) -> Iterator[Tensor]:
    yield "attn_norm.weight", (5120,)
    yield "attn_qkv.weight", (5120, 5120 + 2 * 1280)
    yield "attn_output.weight", (5120, 5120)
    yield "ffn_norm.weight", (5120,)
    yield "ffn_up.weight", (5120, 2 * 17920)
    yield "ffn_down.weight", (17920, 5120)


def _qwen2(number: int) -> Iterator[Tensor]:
    yield from _llama(3584, 18944, 28, 4)(number)
    yield from _biases(28, 4, 128)


def _qwen3(number: int) -> Iterator[Tensor]:
    yield from _llama(4096, 12288, 32, 8)(number)
    yield from _norms(128)


def _qwen3moe(number: int) -> Iterator[Tensor]:
    yield from _attention(2048, 32, 4, 128)
    yield from _norms(128)
    yield "ffn_norm.weight", (2048,)
    yield from _experts(2048, 768, 128)


def _gpt_oss(count: int) -> Callable[[int], Iterator[Tensor]]:
    def layer(number: int) -> Iterator[Tensor]:
        yield from _attention(2880, 64, 8, 64)
        yield from _biases(64, 8, 64)
        yield "attn_output.bias", (2880,)
        yield "attn_sinks.weight", (64,)
        yield "post_attention_norm.weight", (2880,)
        yield from _experts(2880, 2880, count)
        yield "ffn_gate_inp.bias", (count,)
        for part in ("gate", "up", "down"):
            yield f"ffn_{part}_exps.bias", (2880, count)

    return layer


def _gemma3(number: int) -> Iterator[Tensor]:
    yield from _llama(5376, 21504, 32, 16)(number)
    yield from _norms(128)
    yield from (("post_attention_norm.weight", (5376,)), ("post_ffw_norm.weight", (5376,)))


def _glm4moe(number: int) -> Iterator[Tensor]:
    yield from _attention(4096, 96, 8, 128)
    yield from _biases(96, 8, 128)
    yield "post_attention_norm.weight", (4096,)
    if number == 0:
        yield from _dense(4096, 10944)
        return
    yield from _experts(4096, 1408, 128)
    yield "exp_probs_b.bias", (128,)
    for name, shape in _dense(4096, 1408):
        yield name.replace(".weight", "_shexp.weight"), shape
    if number == 46:
        yield "nextn.eh_proj.weight", (8192, 4096)
        for name in ("enorm", "hnorm", "shared_head_norm"):
            yield f"nextn.{name}.weight", (4096,)


def _deepseek(number: int) -> Iterator[Tensor]:
    yield "attn_norm.weight", (7168,)
    yield "attn_q_a.weight", (7168, 1536)
    yield "attn_q_a_norm.weight", (1536,)
    yield "attn_q_b.weight", (1536, 128 * 192)
    yield "attn_kv_a_mqa.weight", (7168, 576)
    yield "attn_kv_a_norm.weight", (512,)
    yield "attn_k_b.weight", (128, 512, 128)
    yield "attn_v_b.weight", (512, 128, 128)
    yield "attn_output.weight", (128 * 128, 7168)
    yield "ffn_norm.weight", (7168,)
    if number < 3:
        yield from _dense(7168, 18432)
        return
    yield from _experts(7168, 2048, 256)
    yield "exp_probs_b.bias", (256,)
    for name, shape in _dense(7168, 2048):
        yield name.replace(".weight", "_shexp.weight"), shape


Model = tuple[str, int, Mapping[str, Any], Callable[[int], Iterator[Tensor]], bool]


def _facts(width: int, heads: int, kept: int, context: int, vocabulary: int, **more: Any) -> dict[str, Any]:
    size = more.pop("size", 128)
    return {
        "embedding_length": width, "attention.head_count": heads, "attention.head_count_kv": kept,
        "context_length": context, "vocab_size": vocabulary, "attention.key_length": size,
        "attention.value_length": size, "rope.dimension_count": size,
        **{key.replace("__", "."): value for key, value in more.items()},
    }  # fmt: skip


_MOE: dict[str, Any] = {"expert_used_count": 8, "expert_count": 128}
MODELS: Mapping[str, Model] = {
    "llama 3.1 8B": ("llama", 32, _facts(4096, 32, 8, 131072, 128256, feed_forward_length=14336),
                     _llama(4096, 14336, 32, 8), True),
    "llama 3.3 70B": ("llama", 80, _facts(8192, 64, 8, 131072, 128256, feed_forward_length=28672),
                      _llama(8192, 28672, 64, 8), True),
    "mistral small 24B": ("llama", 40, _facts(5120, 32, 8, 131072, 131072, feed_forward_length=32768),
                          _llama(5120, 32768, 32, 8), True),
    "phi-4": ("phi3", 40, _facts(5120, 40, 10, 16384, 100352, feed_forward_length=17920,
                                 attention__sliding_window=0), _phi, True),
    "qwen2.5 7B": ("qwen2", 28, _facts(3584, 28, 4, 32768, 152064, feed_forward_length=18944), _qwen2, True),
    "qwen3 8B": ("qwen3", 36, _facts(4096, 32, 8, 40960, 151936, feed_forward_length=12288), _qwen3, True),
    "qwen3moe 30B": ("qwen3moe", 48, _facts(2048, 32, 4, 40960, 151936, feed_forward_length=6144,
                                            expert_feed_forward_length=768, **_MOE), _qwen3moe, True),
    "gpt-oss 20B": ("gpt-oss", 24, _facts(2880, 64, 8, 131072, 201088, size=64, expert_feed_forward_length=2880,
                                          expert_used_count=4, expert_count=32, attention__sliding_window=128,
                                          feed_forward_length=2880), _gpt_oss(32), True),
    "gpt-oss 120B": ("gpt-oss", 36, _facts(2880, 64, 8, 131072, 201088, size=64, expert_feed_forward_length=2880,
                                           expert_used_count=4, expert_count=128, attention__sliding_window=128,
                                           feed_forward_length=2880), _gpt_oss(128), True),
    "gemma3 27B": ("gemma3", 62, _facts(5376, 32, 16, 131072, 262208, feed_forward_length=21504,
                                        attention__sliding_window=1024), _gemma3, False),
    "glm4moe 4.5-Air": ("glm4moe", 47, _facts(4096, 96, 8, 131072, 151552, feed_forward_length=10944,
                                              expert_feed_forward_length=1408, expert_shared_count=1,
                                              leading_dense_block_count=1, nextn_predict_layers=1, **_MOE),
                        _glm4moe, True),
    "deepseek2 V3": ("deepseek2", 61, {**_facts(7168, 128, 1, 163840, 129280, feed_forward_length=18432,
                                                expert_feed_forward_length=2048, expert_used_count=8,
                                                expert_count=256, expert_shared_count=1, leading_dense_block_count=3,
                                                attention__q_lora_rank=1536, attention__kv_lora_rank=512,
                                                attention__key_length_mla=192, attention__value_length_mla=128),
                                       "attention.key_length": 576, "attention.value_length": 512,
                                       "rope.dimension_count": 64}, _deepseek, True),
}  # fmt: skip


def write(path: Path, model: str) -> Path:
    """A sparse file of one of MODELS, its matrices in Q4_K where their rows allow it."""
    architecture, layers, facts, layer, has_output = MODELS[model]
    width, vocabulary = facts["embedding_length"], facts["vocab_size"]
    named: list[Tensor] = [("token_embd.weight", (width, vocabulary)), ("output_norm.weight", (width,))]
    named += [("output.weight", (width, vocabulary))] if has_output else []
    named += [
        (f"blk.{number}.{name}", shape) for number in range(layers) for name, shape in dict(layer(number)).items()
    ]
    tensors, offset = [], 0
    for name, shape in named:
        kind = _kind(name, shape)
        block, size = _BYTES[kind]
        elements = 1
        for length in shape:
            elements *= length
        tensors.append((name, shape, kind, offset))
        offset += -(-(elements // block * size) // 32) * 32
    about = {
        "general.architecture": architecture, "general.name": model, "tokenizer.ggml.model": "no_vocab",
        **{f"{architecture}.{key}": value for key, value in {"block_count": layers, **facts}.items()},
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-6,
    }  # fmt: skip
    return gguf(path, about, tensors, offset)


def _kind(name: str, shape: tuple[int, ...]) -> int:
    if len(shape) == 1 or name.endswith(".bias") or "gate_inp" in name:
        return F32
    if shape[0] % 256:
        return MXFP4 if "_exps" in name else Q8_0
    return Q4_K
