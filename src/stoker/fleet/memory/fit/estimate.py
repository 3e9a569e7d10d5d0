"""Needed memory against what there is. Pure; bytes, tokens, elements; None is unknown.

    needed = weights + KV cache + recurrent state + what the engine itself takes

KV cache = tokens x layers x heads x (key + value) x bytes of the cache's type. A layer with a sliding window keeps its
window and one batch; a latent one (MLA) keeps one vector for all heads. Tensor parallelism splits weights and heads,
pipeline parallelism splits layers; a head that cannot be split is kept whole on each device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

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
    block_size: int | None = None
    """Of block-scaled FP8."""
    notes: tuple[str, ...] = ()
    """What was assumed, since the files do not say."""

    @property
    def is_moe(self) -> bool:
        return bool(self.experts)


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
    """What it will need once its cache is full and it has worked on its longest batch."""
    engine = engine_of(plan.engine).memory
    context = plan.context or shape.context or 4096
    batch = plan.batch or engine.batch
    working = _working(shape, plan, context, batch, engine)
    scale = _scale(shape, plan)
    if plan.devices == 0:
        cache = _cache(shape.layers, plan, context, batch, 1)
        return Estimate(context, None, Need(int(shape.weights * scale), cache, engine.on_host + working))
    above, below = _placed(shape, plan)
    on_device = sum(layer.weights for layer in above)
    others = shape.weights - sum(layer.weights for layer in shape.layers)
    if engine.deals_layers:
        on_host = sum(layer.weights for layer in below) + shape.embedding
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
        weights=-(-int(on_device * scale) // plan.devices),
        cache=-(-_cache(above, plan, context, batch, split) // share),
        overhead=engine.on_device + working,
    )
    host = Need(on_host, _cache(below, plan, context, batch, 1), engine.on_host)
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
        return hidden + batch * (shape.vocabulary or 0) * 4 + batch * context * 4
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
