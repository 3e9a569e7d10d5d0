"""What the header of a GGUF model says about its memory: weights, layers, and what each layer caches."""

from __future__ import annotations

import os
import re
from collections import Counter

from stoker.domain.errors import UnreadableModel
from stoker.fleet.memory.fit.estimate import Layer, Shape
from stoker.store.files.gguf_header import read_header, whole
from stoker.store.files.split_gguf import model_files

MOST_PARTS = 1024
MOST_LAYERS = 4096
_LAYER = re.compile(r"^blk\.(\d{1,4})\.")
# One layer in so many has full attention, the others a sliding window; llama.cpp has this in its code.
_PERIOD = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "llama4": 4, "olmo2": 4}


def read(path: str) -> Shape:
    """The shape of a model from its header, parts included. Raises UnreadableModel."""
    headers = [read_header(part) for part in model_files(path)[:MOST_PARTS]]
    tensors = [tensor for header in headers for tensor in header.tensors]
    facts = headers[0].facts
    architecture = facts.get("general.architecture")
    weights_in_all = sum(size for _, size, _, _ in tensors)
    if not isinstance(architecture, str) or not weights_in_all:
        raise UnreadableModel(f"{path} has no weights of a language model in it: give the model's own file")
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in facts.items() if key.startswith(prefix)}
    count = whole(own, "block_count")
    if count is None or not 0 < count <= MOST_LAYERS:
        raise UnreadableModel(f"{path} does not say how many layers it has ({prefix}block_count): download it again")
    weights = [0] * count
    kinds: Counter[str] = Counter()
    for tensor, size, _, kind in tensors:
        kinds[kind] += size
        found = _LAYER.match(tensor)
        if found is not None and int(found[1]) < count:
            weights[int(found[1])] += size
    layers, notes = _layers(architecture, own, weights)
    name = facts.get("general.name")
    return Shape(
        name=name[:100] if isinstance(name, str) and name.isprintable() else os.path.basename(path),
        architecture=architecture[:40],
        format="gguf",
        precision=kinds.most_common(1)[0][0],
        weights=weights_in_all,
        layers=layers,
        parameters=sum(elements for _, _, elements, _ in tensors),
        embedding=sum(size for name, size, _, _ in tensors if name == "token_embd.weight"),
        context=whole(own, "context_length") or None,
        vocabulary=whole(own, "vocab_size") or whole(facts, "tokenizer.ggml.tokens"),
        width=whole(own, "embedding_length"),
        experts=whole(own, "expert_count"),
        notes=notes,
    )


def _layers(
    architecture: str, facts: dict[str, object], weights: list[int]
) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """What each layer caches. Where the file does not say, the larger figure, and a note."""
    count = len(weights)
    notes: list[str] = []
    heads = _each(facts, "attention.head_count", count) or [0] * count
    kept = _each(facts, "attention.head_count_kv", count) or heads
    width = whole(facts, "embedding_length") or 0
    key = whole(facts, "attention.key_length") or (width // max(heads) if max(heads) else 0)
    value = whole(facts, "attention.value_length") or key
    latent = whole(facts, "attention.kv_lora_rank")
    if latent is not None and "attention.key_length_mla" in facts:
        # llama.cpp keeps one latent vector with its positions per token; the values are a part of it.
        key, value, kept = latent + (whole(facts, "rope.dimension_count") or 0), 0, [1] * count
    window = whole(facts, "attention.sliding_window") or None
    period = whole(facts, "attention.sliding_window_pattern") or _PERIOD.get(architecture)
    listed = facts.get("attention.sliding_window_pattern")
    if window and not period and not isinstance(listed, list):
        notes.append(
            f"which layers use the sliding window of {window} is not known for {architecture}: counted as none"
        )
        window = None
    full_every = whole(facts, "full_attention_interval")
    state = _state(facts)
    layers = []
    for number in range(count):
        is_recurrent = bool(state) and (
            bool((number + 1) % full_every) if full_every else kept[number] == 0 or not heads[number]
        )
        if isinstance(listed, list) and number < len(listed):
            looks_back = window if listed[number] else None
        else:
            looks_back = window if period and (number + 1) % period else None
        layers.append(
            Layer(weights[number], state=state)
            if is_recurrent
            else Layer(weights[number], kept[number], key + value, looks_back)
        )
    return tuple(layers), tuple(notes)


def _state(facts: dict[str, object]) -> int:
    """Bytes that a state-space layer keeps per sequence: its convolution's window and its state, in 32 bits."""
    inner, size = whole(facts, "ssm.inner_size") or 0, whole(facts, "ssm.state_size") or 0
    window, groups = whole(facts, "ssm.conv_kernel") or 1, whole(facts, "ssm.group_count") or 0
    return 4 * ((window - 1) * (inner + 2 * groups * size) + inner * size)


def _each(facts: dict[str, object], name: str, count: int) -> list[int] | None:
    """A figure per layer; files give one for all, or a list."""
    value = facts.get(name)
    if isinstance(value, list):
        numbers = [n if isinstance(n, int) and 0 <= n < 2**20 else 0 for n in value]
        return (numbers + [0] * count)[:count]
    single = whole(facts, name)
    return [single] * count if single is not None else None
