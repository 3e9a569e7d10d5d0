"""Reads a model directory of the hub's layout: config.json, and the headers of its safetensors files, no weights.

Format: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.domain.errors import UnreadableModel
from stoker.fleet.memory.fit.estimate import Layer, Shape
from stoker.store.files.gguf_header import whole

CONFIG_LIMIT, INDEX_LIMIT, HEADER_LIMIT = 4 * 2**20, 128 * 2**20, 100_000_000
"""Bytes; the last is the format's own."""
MOST_FILES, MOST_LAYERS = 2048, 4096
BITS = {"F64": 64, "F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "I64": 64, "I32": 32, "I16": 16,
        "I8": 8, "U8": 8, "BOOL": 8}  # fmt: skip
_METHODS = {"awq": "AWQ", "gptq": "GPTQ", "fp8": "FP8", "auto-round": "AUTOROUND", "auto_round": "AUTOROUND",
            "mxfp4": "MXFP4", "nvfp4": "NVFP4", "bitsandbytes": "BNB"}  # fmt: skip


def read(directory: str) -> Shape:
    """The shape of a model. Raises UnreadableModel."""
    folder = Path(directory)
    config = _json(folder / "config.json", CONFIG_LIMIT)
    text = config.get("text_config")
    facts: dict[str, Any] = {**config, **text} if isinstance(text, dict) else config
    count = whole(facts, "num_hidden_layers", "n_layer", "num_layers")
    if count is None or not 0 < count <= MOST_LAYERS:
        raise UnreadableModel(f"{folder / 'config.json'} has no `num_hidden_layers`: this is not a language model")
    weights, parameters, kinds, notes = _weights(folder)
    quantized = config.get("quantization_config") or facts.get("quantization_config")
    method, block = _quantization(quantized) if isinstance(quantized, dict) else (None, None)
    names = facts.get("architectures")
    return Shape(
        name=folder.resolve().name,
        architecture=str(names[0])[:60] if isinstance(names, list) and names else str(facts.get("model_type", ""))[:60],
        format="safetensors",
        precision=method or (kinds.most_common(1)[0][0] if kinds else _dtype(facts)),
        weights=weights,
        layers=_layers(facts, count, weights),
        parameters=parameters if method is None else None,  # packed numbers are not parameters
        context=_context(facts),
        vocabulary=whole(facts, "vocab_size"),
        width=whole(facts, "hidden_size", "n_embd"),
        experts=whole(facts, "num_local_experts", "num_experts", "n_routed_experts"),
        block_size=block,
        has_predictors=bool(whole(facts, "num_nextn_predict_layers", "mtp_num_hidden_layers")),
        notes=notes,
    )


def trained_context(directory: str) -> int | None:
    """The tokens that the model was trained for; None: unknown, or its configuration stretches them itself."""
    try:
        config = _json(Path(directory) / "config.json", CONFIG_LIMIT)
    except UnreadableModel:
        return None
    text = config.get("text_config")
    facts: dict[str, Any] = {**config, **text} if isinstance(text, dict) else config
    rope = facts.get("rope_scaling") or facts.get("rope_parameters") or {}
    # Since version 5 transformers writes `rope_parameters` into each configuration, of plain models too.
    kind = rope.get("rope_type", rope.get("type", "default")) if isinstance(rope, dict) else ""
    is_plain = kind == "default" and not any(isinstance(one, dict) for one in rope.values())
    return _context(facts) if is_plain else None


def _context(facts: Mapping[str, Any]) -> int | None:
    return whole(facts, "max_position_embeddings", "n_positions", "seq_length") or None


def _layers(facts: Mapping[str, Any], count: int, weights: int) -> tuple[Layer, ...]:
    """Weights are spread evenly: engines that read this format load all of a layer onto devices."""
    share = weights // count
    heads = whole(facts, "num_attention_heads", "n_head") or 0
    kept = whole(facts, "num_key_value_heads") or heads
    size = whole(facts, "head_dim") or ((whole(facts, "hidden_size", "n_embd") or 0) // heads if heads else 0)
    value = whole(facts, "v_head_dim") or size
    latent = whole(facts, "kv_lora_rank")
    kinds = facts.get("layer_types")
    window = whole(facts, "sliding_window") or None
    if facts.get("use_sliding_window") is False:
        window = None
    layers = []
    for number in range(count):
        kind = kinds[number] if isinstance(kinds, list) and number < len(kinds) else None
        if kind in ("linear_attention", "mamba", "conv"):
            layers.append(Layer(share, state=_state(facts)))
        elif latent is not None:
            size_of_all = latent + (whole(facts, "qk_rope_head_dim") or 0)
            layers.append(Layer(share, 1, size_of_all, is_latent=True))
        else:
            looks_back = window if kind in (None, "sliding_attention", "chunked_attention") else None
            layers.append(Layer(share, kept, size + value, looks_back))
    return tuple(layers)


def _state(facts: Mapping[str, Any]) -> int:
    """Bytes per sequence of a linear attention layer: a key by value matrix per head in 32 bits; a convolution."""
    heads, keys = whole(facts, "linear_num_value_heads") or 0, whole(facts, "linear_num_key_heads") or 0
    key, value = whole(facts, "linear_key_head_dim") or 0, whole(facts, "linear_value_head_dim") or 0
    window = whole(facts, "linear_conv_kernel_dim") or 1
    return 4 * heads * key * value + 2 * (window - 1) * (2 * keys * key + heads * value)


def _quantization(config: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """The scheme in one word, and the block of block-scaled FP8."""
    words = json.dumps(config).lower()
    method = str(config.get("quant_method", "")).lower()
    algorithm = str(config.get("quant_algo", "")).lower()
    block = config.get("weight_block_size")
    size = block[0] if isinstance(block, list) and block and isinstance(block[0], int) else None
    if "nvfp4" in words:
        return "NVFP4", None
    if method in _METHODS:
        return _METHODS[method], size if method == "fp8" else None
    if "fp8" in algorithm or '"type": "float"' in words:
        return "FP8", size
    if method in ("compressed-tensors", "modelopt", "quark") and '"num_bits": 4' in words:
        return "INT4", None
    return method.upper() or None, None


def _weights(folder: Path) -> tuple[int, int | None, Counter[str], tuple[str, ...]]:
    """Bytes, numbers, bytes by type; from the files where they are there, else from the index."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        listed = _json(index, INDEX_LIMIT)
        table = listed.get("weight_map")
        names = sorted({name for name in table.values() if isinstance(name, str)}) if isinstance(table, dict) else []
        if len(names) > MOST_FILES or any(os.path.basename(name) != name for name in names):
            raise UnreadableModel(f"{index} names files outside its directory, or too many: download it again")
        absent = [name for name in names if not (folder / name).exists()]
        metadata = listed.get("metadata")
        total = whole(metadata, "total_size") if isinstance(metadata, dict) else None
        if absent and total is not None:
            note = f"{len(absent)} of {len(names)} weight files are not there: sizes are the index's"
            return total, None, Counter(), (note,)
        files = [folder / name for name in names]
    else:
        files = sorted(folder.glob("*.safetensors"))[:MOST_FILES]
    if not files:
        raise UnreadableModel(f"{folder} has no safetensors files: fetch the weights, or give a GGUF file")
    kinds: Counter[str] = Counter()
    parameters = 0
    for file in files:
        for kind, length in _tensors(file):
            kinds[kind] += length
            parameters += length * 8 // BITS.get(kind, 8)
    if not kinds.total():
        raise UnreadableModel(f"{folder} has safetensors files without a tensor: fetch the weights again")
    return sum(kinds.values()), parameters, kinds, ()


def _tensors(path: Path) -> list[tuple[str, int]]:
    """Type and bytes of each tensor. Raises UnreadableModel."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(HEADER_LIMIT, size - 8):
                raise UnreadableModel(f"{path} is not a safetensors file, or cut off: download it again")
            header = _parse(path, file.read(length))
    except OSError as error:
        raise UnreadableModel(f"{path} cannot be read ({error.strerror}): check its permissions") from error
    found = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
        if not (isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(n, int) for n in offsets)):
            raise UnreadableModel(f"{path} is broken: a tensor without an offset; download it again")
        begin, end = offsets
        if not 0 <= begin <= end <= size - 8 - length:
            raise UnreadableModel(f"{path} is cut off (a tensor ends at {end} bytes of data): download it again")
        found.append((str(entry.get("dtype"))[:16], end - begin))
    return found


def _json(path: Path, limit: int) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise UnreadableModel(f"{path} cannot be read ({error.strerror}): give a model's directory") from error
    if len(data) > limit:
        raise UnreadableModel(f"{path} is larger than {limit} bytes, too large for such a file: download it again")
    return _parse(path, data)


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableModel(f"{path} is not JSON: download it again") from error
    if not isinstance(found, dict):
        raise UnreadableModel(f"{path} is not a JSON object: download it again")
    return found


def _dtype(facts: Mapping[str, Any]) -> str:
    word = str(facts.get("dtype") or facts.get("torch_dtype") or "unknown")
    return {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}.get(word, word[:16])
