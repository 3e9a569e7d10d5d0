"""Needed memory against what there is. Pure; bytes, tokens, elements; None is unknown.

    needed = weights + KV cache + recurrent state + what the engine itself takes

KV cache = tokens x layers x heads x (key + value) x bytes of the cache's type. A layer with a sliding window keeps its
window and one batch; a latent one (MLA) keeps one vector for all heads. Tensor parallelism splits weights and heads,
pipeline parallelism splits layers; a head that cannot be split is kept whole on each device.

A draft model counts with its own cache at the same context; projector and adapters with the bytes of their files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from stoker.domain import figures
from stoker.engines.record import EngineMemory
from stoker.engines.registry import DEFAULT, engine_of
from stoker.fleet.memory.ledger import USABLE_SHARE


@dataclass(frozen=True, slots=True)
class Layer:
    weights: int = 0
    heads: int = 0
    """Key-value heads; 0: this layer keeps no cache per token. 1 for the one compressed vector of all heads (MLA)."""
    elements: int = 0
    """Cached numbers per token and head: key and value together."""
    window: int | None = None
    """Size of the attention window in tokens; None: all."""
    state: int = 0
    """Bytes per sequence, however long it is (state-space and linear attention layers)."""
    experts: int = 0
    """Bytes of `weights` that are experts, which llama.cpp can keep in main memory."""
    is_latent: bool = False
    """Its cache is one vector for all heads (MLA)."""


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    architecture: str
    format: str
    """`gguf` or `safetensors`."""
    precision: str
    """Of most of its bytes: `Q4_K`, `BF16`, `FP8`, `AWQ`, `NVFP4`..."""
    weights: int
    """Bytes of all tensors."""
    layers: tuple[Layer, ...]
    parameters: int | None = None
    embedding: int = 0
    """Bytes of the token embedding, which llama.cpp leaves in main memory."""
    context: int | None = None
    """Tokens that it was trained for."""
    vocabulary: int | None = None
    width: int | None = None
    experts: int | None = None
    predictors: tuple[Layer, ...] = ()
    """Further layers, of multi-token prediction, which are loaded only for it. `weights` does not count them."""
    has_predictors: bool = False
    """Whether it can predict further tokens itself."""
    step: int | None = None
    """Numbers in 32 bits that llama.cpp works in per token of a step, at most."""
    active: int | None = None
    """Bytes of weights that one token reads: all but the experts that are not chosen. None: all."""
    block_size: int | None = None
    """Of block-scaled FP8."""
    notes: tuple[str, ...] = ()
    """What was assumed, since the files do not say."""

    @property
    def is_moe(self) -> bool:
        return bool(self.experts)

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers keep a state instead of a cache."""
        return any(layer.heads for layer in self.layers) and not all(layer.heads for layer in self.layers)

    @property
    def is_latent(self) -> bool:
        """Whether its cache is one vector for all heads (MLA)."""
        return any(layer.heads == 1 and layer.is_latent for layer in self.layers)


MIB, GIB = 2**20, 2**30
CACHE_BYTES = {
    "f32": 4.0, "f16": 2.0, "bf16": 2.0, "auto": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32,
    "q4_1": 20 / 32, "q4_0": 18 / 32, "iq4_nl": 18 / 32, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "int8": 1.0,
}  # fmt: skip
"""Bytes per cached number, the scales of blocks included."""
STEP = 256
"""llama.cpp rounds a context up to this many tokens."""
CONTEXT_CEILING = 16 * 2**20


@dataclass(frozen=True, slots=True)
class FitPlan:
    """How the model is to run. None: the engine's own choice."""

    engine: str = DEFAULT.name
    context: int | None = None
    """Tokens of one request; None: what the model was trained for."""
    parallel: int = 1
    cache_type: str = "f16"
    batch: int | None = None
    devices: int = 0
    """How many share it; 0: main memory only."""
    pipeline: int = 1
    """Of these, how many stages in a row; the rest of the factor is tensor parallelism."""
    gpu_layers: int | None = None
    """llama.cpp: layers on devices; None: all."""
    quantization: str | None = None
    """vLLM, SGLang: what the engine makes of 16-bit weights while it loads them."""
    cpu_moe: int = 0
    """llama.cpp: how many layers, from the first, have their experts in main memory."""
    predicts: bool = False
    """Multi-token prediction by the model's own layers."""
    draft: Shape | None = None
    """The draft model of speculative decoding."""
    projector: int = 0
    """Bytes of its file, which are loaded beside the weights."""
    adapters: int = 0
    """The same for all LoRA adapters."""
    kv_offload: int = 0
    """Bytes of main memory for caches that have no place on the devices."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes in one place."""

    weights: int = 0
    cache: int = 0
    overhead: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.overhead


@dataclass(frozen=True, slots=True)
class Estimate:
    """`device` is what each device needs; they share evenly."""

    context: int
    device: Need | None
    host: Need


def estimate(shape: Shape, plan: FitPlan) -> Estimate:
    """What it will need once its cache is full and it has worked on its longest batch.

    A draft model, a projector and adapters are where the model is, and are dealt out with it.
    """
    engine = engine_of(plan.engine).memory
    context = plan.context or shape.context or 4096
    batch = plan.batch or engine.batch
    working = _working(shape, plan, context, batch, engine)
    scale = _scale(shape, plan)
    predictors = shape.predictors if plan.predicts else ()
    beside = plan.projector + plan.adapters + sum(layer.weights for layer in predictors)
    beside_cache = [(predictors, plan)] if predictors else []
    if plan.draft is not None:
        beside += plan.draft.weights
        beside_cache.append((plan.draft.layers, replace(plan, cpu_moe=0)))
        working += _working(plan.draft, plan, context, batch, engine)

    def caches(split: int) -> int:
        return sum(_cache(layers, its, context, batch, split) for layers, its in beside_cache)

    if plan.devices == 0:
        cache = _cache(shape.layers, plan, context, batch, 1) + caches(1)
        host = Need(int(shape.weights * scale) + beside, cache + plan.kv_offload, engine.on_host + working)
        return Estimate(context, None, host)
    above, below = _placed(shape, plan)
    on_device = sum(layer.weights for layer in above)
    others = shape.weights - sum(layer.weights for layer in shape.layers)
    if engine.deals_layers:
        first = len(shape.layers) - len(above)
        in_host = sum(layer.experts for layer in shape.layers[first : max(first, plan.cpu_moe)])
        on_device -= in_host
        on_host = sum(layer.weights for layer in below) + shape.embedding + in_host
        on_device += others - shape.embedding if not below else 0
        on_host += others - shape.embedding if below else 0
        if plan.gpu_layers == 0:
            on_device = 0
    else:
        on_device, on_host = shape.weights, 0
    tensor = max(1, plan.devices // plan.pipeline)
    split = 1 if engine.deals_layers else tensor
    share = plan.devices // split
    device = Need(
        weights=-(-int(on_device * scale + beside) // plan.devices),
        cache=-(-(_cache(above, plan, context, batch, split) + caches(split)) // share),
        overhead=engine.on_device + working,
    )
    host = Need(on_host, _cache(below, plan, context, batch, 1) + plan.kv_offload, engine.on_host)
    return Estimate(context, device, host)


def _placed(shape: Shape, plan: FitPlan) -> tuple[Sequence[Layer], Sequence[Layer]]:
    """Layers on devices, and in main memory. Of those that are dealt out, the last ones are on devices."""
    if (
        not engine_of(plan.engine).memory.deals_layers
        or plan.gpu_layers is None
        or plan.gpu_layers >= len(shape.layers)
        or (plan.gpu_layers < 0)
    ):
        return shape.layers, ()
    cut = len(shape.layers) - plan.gpu_layers
    return shape.layers[cut:], shape.layers[:cut]


def _cache(layers: Sequence[Layer], plan: FitPlan, context: int, batch: int, split: int) -> int:
    """Bytes on one of `split` devices that share each layer's heads."""
    size = CACHE_BYTES.get(plan.cache_type, 2.0)
    padded = -(-context // STEP) * STEP
    total = 0.0
    for layer in layers:
        tokens = padded if layer.window is None else min(padded, -(-(layer.window + batch) // STEP) * STEP)
        heads = -(-layer.heads // split)
        total += plan.parallel * (tokens * heads * layer.elements * size + layer.state / split)
    return int(total)


def _working(shape: Shape, plan: FitPlan, context: int, batch: int, engine: EngineMemory) -> int:
    """Bytes that one step works in: hidden states, scores over the vocabulary, and llama.cpp's attention mask."""
    hidden = batch * (shape.width or 0) * engine.activations
    if engine.deals_layers:
        hidden = hidden if shape.step is None else batch * shape.step * 4
        return hidden + plan.parallel * (shape.vocabulary or 0) * 4 + batch * context * 2
    return hidden + plan.parallel * (shape.vocabulary or 0) * 8


def _scale(shape: Shape, plan: FitPlan) -> float:
    if engine_of(plan.engine).memory.deals_layers:
        return 1.0
    wanted = (plan.quantization or "").lower()
    if shape.precision in ("BF16", "F16", "F32") and wanted in ("fp8", "bitsandbytes"):
        bits = 8 if wanted == "fp8" else 4.5
        return bits / (32 if shape.precision == "F32" else 16)
    return 0.5 if shape.precision == "F32" else 1.0  # engines load 32-bit weights as 16-bit ones


def needed(shape: Shape, plan: FitPlan) -> int:
    """Bytes where it counts: per device, or of main memory."""
    found = estimate(shape, plan)
    return found.host.total if found.device is None else found.device.total


def largest_context(shape: Shape, plan: FitPlan, room: int, host_room: int | None = None) -> int | None:
    """Tokens of one request, in steps of 256 and at most what the model was trained for, so that `plan.parallel` of
    them fit into `room` bytes (per device), and what is not on devices into `host_room`. None: not even the smallest
    does."""

    def fits(context: int) -> bool:
        need = estimate(shape, replace(plan, context=context))
        if need.device is None:
            return need.host.total <= room
        return need.device.total <= room and (host_room is None or need.host.total <= host_room)

    if shape.context and fits(shape.context):
        return shape.context
    most = (shape.context or CONTEXT_CEILING) // STEP
    return _largest(most, lambda n: fits(n * STEP)) * STEP or None


def largest_parallel(shape: Shape, plan: FitPlan, room: int) -> int | None:
    """Requests at once at `plan.context`, 1024 at most. None: not even one."""
    return _largest(1024, lambda n: needed(shape, replace(plan, parallel=n)) <= room) or None


def fewest_cpu_moe(shape: Shape, plan: FitPlan, room: int, host_room: int | None = None) -> int | None:
    """How few layers have to keep their experts in main memory so that the rest fits into `room` bytes per device, and
    those into `host_room`. None: not even all of them are enough, or they do not fit there.
    """
    if not any(layer.experts for layer in shape.layers):
        return None
    count = len(shape.layers)

    def is_short(layers: int) -> bool:
        need = estimate(shape, replace(plan, cpu_moe=layers))
        return need.device is not None and need.device.total > room

    if is_short(count):
        return None
    fewest = 0 if not is_short(0) else _largest(count, is_short) + 1
    need = estimate(shape, replace(plan, cpu_moe=fewest))
    return fewest if host_room is None or need.host.total <= host_room else None


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `most` that fits, 0 if none does; what fits must be a beginning of the range."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True)
class Proposal:
    """A setting with which the model fits, and what it costs."""

    setting: str
    """As the configuration file says it."""
    costs: str


LEAST_CONTEXT = 4096
"""Tokens below which a shorter context is not proposed, nor below a quarter of what was asked for."""


def proposals(shape: Shape, plan: FitPlan, room: int, host_room: int | None) -> list[Proposal]:
    """What makes a model fit that does not, the cheapest first. Each fits by itself; none: nothing here does.

    1. a shorter context, or fewer requests at once  2. a KV cache of half the size  3. llama.cpp: experts in main
    memory  4. llama.cpp: whole layers in main memory
    """
    engine = engine_of(plan.engine)
    trained = plan.context or shape.context or LEAST_CONTEXT
    found = []
    context = largest_context(shape, plan, room, host_room)
    if context is not None and context >= min(LEAST_CONTEXT, trained // 4):
        found.append(Proposal(f"context = {context}", f"requests longer than {context} tokens are refused"))  # 1
    parallel = largest_parallel(shape, plan, room)
    if parallel is not None:
        found.append(Proposal(f"parallel = {parallel}", f"more than {figures.counted(parallel, 'request')} wait"))
    half = "q8_0" if "q8_0" in engine.choices.get("kv_cache_type", ("fp8",)) else "fp8"
    smaller = replace(plan, cache_type=half)
    if CACHE_BYTES.get(plan.cache_type, 2.0) > CACHE_BYTES[half] and needed(shape, smaller) <= room:
        found.append(Proposal(f'kv_cache_type = "{half}"', "slightly less exact answers at long contexts"))  # 2
    if not engine.memory.deals_layers or not plan.devices:
        return found
    layers = fewest_cpu_moe(shape, plan, room, host_room)
    if layers is not None and layers > plan.cpu_moe:
        moved = sum(layer.experts for layer in shape.layers[:layers])
        text = f"{figures.size(moved)} of experts are read from main memory: {_slower(shape, moved)}"
        found.append(Proposal(f"n_cpu_moe = {layers}", text))  # 3
    count = _largest(len(shape.layers), lambda n: _layers_fit(shape, replace(plan, gpu_layers=n), room, host_room))
    if count:
        moved = sum(layer.weights for layer in shape.layers[: len(shape.layers) - count])
        text = f"{figures.size(moved)} of layers are computed on the processor: {_slower(shape, moved)}"
        found.append(Proposal(f"gpu_layers = {count}", text))  # 4
    return found


def _layers_fit(shape: Shape, plan: FitPlan, room: int, host_room: int | None) -> bool:
    need = estimate(shape, plan)
    return need.device is not None and need.device.total <= room and (host_room is None or need.host.total <= host_room)


SLOWER_MEMORY = 10
"""How many times slower main memory is than a device's, for sentences about costs: 50 to 90 GB/s beside 500 to 1000."""


def _slower(shape: Shape, moved: int) -> str:
    """How much longer one token takes if `moved` bytes of the weights lie in main memory, of which it reads a part."""
    share = (shape.active or shape.weights) / shape.weights
    factor = 1 + (SLOWER_MEMORY - 1) * min(1.0, moved * share / max(1, shape.active or shape.weights))
    return f"a token takes about {factor:.1f} times as long (an estimate)"


TIGHT = 0.90
"""Share of the memory from which on a fit counts as tight."""


class FitAnswer(StrEnum):
    FITS = "fits"
    TIGHT = "tight"
    """Between 90 and 95 %: as aimed at, with no room for more."""
    TOO_LARGE = "too large"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MemoryFit:
    answer: FitAnswer
    need: int
    room: int | None
    """What may be used of `total`."""
    total: int | None

    @property
    def short(self) -> int:
        """Bytes that are missing; 0: none."""
        return max(0, self.need - self.room) if self.room is not None else 0


def judge(need: int, total: int | None, ceiling: float = USABLE_SHARE, most: int | None = None) -> MemoryFit:
    """Whether `need` fits into the share `ceiling` of `total`, and into `most` where that is given.

    1. total unknown           -> unknown
    2. above the ceiling       -> too large
    3. above 90 % of the whole -> tight
    4. otherwise               -> fits
    """
    if total is None:
        return MemoryFit(FitAnswer.UNKNOWN, need, None, None)  # 1
    room = int(total * ceiling)
    if most is not None:
        room = min(room, most)
    if need > room:
        return MemoryFit(FitAnswer.TOO_LARGE, need, room, total)  # 2
    if need > min(total * TIGHT, room * TIGHT / USABLE_SHARE):
        return MemoryFit(FitAnswer.TIGHT, need, room, total)  # 3
    return MemoryFit(FitAnswer.FITS, need, room, total)  # 4


def worst(verdicts: list[MemoryFit]) -> MemoryFit:
    """The one that decides, of several places: too large before unknown before tight."""
    order = (FitAnswer.TOO_LARGE, FitAnswer.UNKNOWN, FitAnswer.TIGHT, FitAnswer.FITS)
    return min(verdicts, key=lambda verdict: (order.index(verdict.answer), -verdict.short))
