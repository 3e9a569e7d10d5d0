"""What the header of a GGUF model says about its memory: weights, layers, and what each layer caches."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from stoker.domain.errors import UnreadableModel
from stoker.fleet.memory.fit.estimate import Layer, Shape
from stoker.store.files.gguf_header import Header, read_header, whole
from stoker.store.files.split_gguf import model_files

MOST_PARTS = 1024
MOST_LAYERS = 4096
_LAYER = re.compile(r"^blk\.(\d{1,4})\.")
_EXPERTS = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
"""What `--cpu-moe` and `--n-cpu-moe` keep in main memory: common/arg.cpp of llama.cpp."""
# One layer in so many has full attention, the others a sliding window; llama.cpp has this in its code.
_PERIOD = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "llama4": 4, "olmo2": 4}


def read(path: str) -> Shape:
    """The shape of a model from its header, parts included. Raises UnreadableModel."""
    return shape_of(path, [read_header(part) for part in model_files(path)[:MOST_PARTS]])


def shape_of(path: str, headers: Sequence[Header]) -> Shape:
    """The same from the headers of its parts, in order. `path` is for errors, and for a model without a name."""
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
    weights, experts = [0] * count, [0] * count
    kinds: Counter[str] = Counter()
    for tensor, size, _, kind in tensors:
        kinds[kind] += size
        match = _LAYER.match(tensor)
        if match is not None and int(match[1]) < count:
            weights[int(match[1])] += size
            experts[int(match[1])] += size if _EXPERTS.search(tensor) else 0
    layers, notes = _layers(architecture, own, weights, experts)
    ahead = min(whole(own, "nextn_predict_layers") or 0, count - 1)
    layers, predictors = layers[: count - ahead], layers[count - ahead :]
    weights_in_all -= sum(layer.weights for layer in predictors)
    name = facts.get("general.name")
    vocabulary = whole(own, "vocab_size") or whole(facts, "tokenizer.ggml.tokens")
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
        vocabulary=vocabulary,
        width=whole(own, "embedding_length"),
        experts=whole(own, "expert_count"),
        predictors=predictors,
        has_predictors=bool(predictors),
        step=_step(own),
        active=_active(own, layers, weights_in_all),
        notes=notes,
    )


def _step(facts: Mapping[str, object]) -> int | None:
    """Numbers per token that a step works in: 5 hidden states, and what the widest of its parts holds; an attention
    with a latent vector also one for each head. By the compute buffers that llama.cpp reports (b11549).
    """
    width = whole(facts, "embedding_length")
    if not width:
        return None
    inner = facts.get("feed_forward_length")
    dense = max((n for n in inner if isinstance(n, int)), default=0) if isinstance(inner, list) else inner
    parts = 3 * (dense if isinstance(dense, int) else 0)
    used = whole(facts, "expert_used_count") or 0
    parts = max(parts, used * (3 * (whole(facts, "expert_feed_forward_length") or 0) + width) if used else 0)
    latent = whole(facts, "attention.kv_lora_rank") if "attention.key_length_mla" in facts else None
    return 5 * width + parts + (latent or 0) * (whole(facts, "attention.head_count") or 0)


def _active(facts: Mapping[str, object], layers: Sequence[Layer], weights: int) -> int | None:
    """Bytes that one token reads."""
    count, used = whole(facts, "expert_count"), whole(facts, "expert_used_count")
    experts = sum(layer.experts for layer in layers)
    return weights - experts + experts * used // count if count and used else None


def _layers(
    architecture: str, facts: dict[str, object], weights: list[int], experts: list[int]
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
    is_latent = latent is not None and "attention.key_length_mla" in facts
    if latent is not None and is_latent:
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
            Layer(weights[number], state=state, experts=experts[number])
            if is_recurrent
            else Layer(
                weights[number], kept[number], key + value, looks_back, experts=experts[number], is_latent=is_latent
            )
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
