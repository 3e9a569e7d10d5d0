"""Which model of a hub repository suits this machine: its files, judged by one header and their sizes.

The header of one file says what the model is. Its other quantisations differ from it in the bytes of their weights,
which the sizes of the files tell, so that a repository of twenty costs one header: a few MB.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from stoker.domain.errors import UnreadableModel
from stoker.domain.serve import AUTO_LAYERS, Serve, Slot, Tuning
from stoker.engines.record import Weights
from stoker.engines.registry import engine_of, those
from stoker.fleet.memory.devices import Device
from stoker.fleet.memory.fit import gguf, hf_config
from stoker.fleet.memory.fit.check import FitReport, check_fit, choose_context
from stoker.fleet.memory.fit.estimate import FitAnswer, Shape
from stoker.fleet.memory.host import HostMemory
from stoker.store.files.gguf_header import read_header_from
from stoker.store.files.split_gguf import model_files, parse_part
from stoker_setup.bandwidth import tokens_per_second
from stoker_setup.hub import Hub, HubFile, HubRepository

_QUANTISATION = re.compile(
    r"(?i)(?:^|[-._])((?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|BF16|F16|FP16|F32))(?=$|[-._/])"
)
_NO_MODEL = re.compile(r"(?i)(^|/|[-._])(mmproj|imatrix|lora|adapter|draft|mtp)([-._]|$)")
ROOMY = (32_768, 16_384, 8_192, 0)
"""Tokens of context, best first: the first that a file leaves room for decides. A coding agent needs the first to work
at all: its instructions and tools alone take 10,000 to 25,000."""
SOUND_BITS, LEAN_BITS = 4.0, 9.0
"""Bits a weight: below the first, answers get visibly worse; above the second, they get slower and not better
(llama-quantize at 8B: 8.5 bits cost 0.0026 of perplexity)."""
MOST_MODELS = 8
"""Of different models in one repository, each with a header of its own; as many directories of safetensors files."""
_HEADER = 16 * 2**20
"""Bytes of a config.json, or of the header of a safetensors file, at most."""


class Verdict(StrEnum):
    FITS = "fits"
    EXPERTS = "fits with experts in main memory"
    LAYERS = "fits with layers in main memory"
    TOO_LARGE = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a model takes of the memory that it runs in, with its context full. Bytes."""

    weights: int
    cache: int
    overhead: int
    room: int | None
    """Of its slot: what the slot allows, else of all devices together, else main memory; None: unknown."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One model of a repository as this machine would run it. Bytes; None: unknown, or it does not fit."""

    file: str
    """Its path; of a split model that of the first part, of a directory `DIR/`, or `./` for the repository itself."""
    size: int
    precision: str
    verdict: Verdict
    context: int | None = None
    setting: str = ""
    """What has to be set for it: lines of the configuration."""
    speed: float | None = None
    """Tokens per second of one request: an estimate."""
    problem: str = ""
    parameters: int | None = None
    trained: int | None = None
    """The context that it was trained for."""
    devices: tuple[str, ...] = ()
    """What its slot has to name in `devices`; empty: nothing."""
    memory: MemoryUse | None = None

    @property
    def bits(self) -> float | None:
        """Of one weight."""
        return 8 * self.size / self.parameters if self.parameters else None


def choices(
    hub: Hub,
    repository: HubRepository,
    under: str,
    judge: Callable[[Shape, str], Choice],
    on_header: Callable[[str, int, int], None],
) -> list[Choice]:
    """Each model below the path `under` (empty: all), smallest first. `judge`: of a shape and a file's path;
    `on_header`: which file is read, its number, and how many. Raises HubRefused and CopyStopped.
    """
    files = {file.path: file for file in repository.files}
    all_models, all_folders = _models(files, under)
    models, folders = all_models[:MOST_MODELS], all_folders[:MOST_MODELS]
    found, count = [], len(models) + len(folders)
    for number, paths in enumerate(models, start=1):
        on_header(paths[0], number, count)
        whole = [path for path in paths if not _absent(path, files)]
        found += [_unknown(path, files, _absent(path, files)) for path in paths if path not in whole]
        try:
            base = _gguf_shape(hub, repository, files, whole[0]) if whole else None
        except UnreadableModel as error:
            found += [_unknown(path, files, error.message) for path in whole]
            continue
        if base is not None:
            found += [judge(_resized(base, _size(path, files), path), path) for path in whole]
    for number, folder in enumerate(folders, start=len(models) + 1):
        on_header(f"{folder}config.json", number, count)
        name = folder or "./"
        size = sum(file.size for path, file in files.items() if _is_weights(path, folder))
        try:
            found.append(replace(judge(_folder_shape(hub, repository, files, folder), name), size=size))
        except UnreadableModel as error:
            found.append(Choice(name, size, "", Verdict.UNKNOWN, problem=error.message))
    return sorted(found, key=lambda choice: (choice.size, choice.file))


def left_out(repository: HubRepository, under: str) -> list[str]:
    """The models that `choices` did not look at, since they are too many: the first file of each, or its directory."""
    models, folders = _models({file.path: file for file in repository.files}, under)
    return [paths[0] for paths in models[MOST_MODELS:]] + folders[MOST_MODELS:]


def _models(files: dict[str, HubFile], under: str) -> tuple[list[list[str]], list[str]]:
    """Below a path: of each GGUF model its quantisations, the one to read the header of first; and the directories of
    safetensors files.
    """
    firsts = [path for path in files if path.endswith(".gguf") and path.startswith(under) and _is_first(path)]
    models: dict[str, list[str]] = {}
    for path in sorted(firsts, key=lambda one: (parse_part(one) is not None, files[one].size)):
        models.setdefault(_stem(path), []).append(path)
    return list(models.values()), _folders(files, under)


def judged(
    shape: Shape,
    path: str,
    devices: Sequence[Device],
    main: HostMemory,
    context: int | None,
    parallel: int,
    cache_type: str | None,
    host_bandwidth: float,
    slot: Slot | None = None,
) -> Choice:
    """How this machine would run it, in a slot: with `context`, else with the largest that fits. Pure.

    llama.cpp: on all devices of one vendor, which its builds are for. Other engines: on one device, else on 2, 4, 8...
    that are alike. Of several ways: the first with a comfortable context, else the one with the most.
    """
    is_gguf = shape.format == "gguf"
    if not is_gguf and not devices:
        return Choice(
            path, shape.weights, shape.precision, Verdict.TOO_LARGE, problem="engines that read it need a GPU"
        )
    ways = [
        _judged_on(shape, path, group, main, context, parallel, cache_type, host_bandwidth, slot)
        for group in _groups(devices, is_gguf)
    ]
    best_way = max(ways, key=lambda way: (_RANKS[way.verdict], _room(way), -len(way.devices)))
    is_all = len(best_way.devices) == len(devices)
    return replace(best_way, devices=() if is_all else best_way.devices, parameters=shape.parameters,
                   trained=shape.context)  # fmt: skip


def _groups(devices: Sequence[Device], is_gguf: bool) -> list[list[Device]]:
    """Which of them could run one model together. An empty one stands for main memory."""
    if is_gguf:
        vendors = dict.fromkeys(device.vendor for device in devices)
        return [[device for device in devices if device.vendor == vendor] for vendor in vendors] or [[]]
    groups = [[device] for device in sorted(devices, key=lambda one: -(one.total or 0))[:1]]
    alike: dict[tuple[str, str, int | None], list[Device]] = {}
    for device in devices:
        alike.setdefault((device.vendor, device.name, device.total), []).append(device)
    for several in alike.values():
        groups += [several[: 2**power] for power in range(1, len(several).bit_length())]
    return sorted(groups, key=len)


def _judged_on(
    shape: Shape, path: str, devices: Sequence[Device], main: HostMemory, context: int | None, parallel: int,
    cache_type: str | None, host_bandwidth: float, slot: Slot | None,
) -> Choice:  # fmt: skip
    """1. as it is  2. llama.cpp: with as few experts in main memory as needed  3. with as many layers on devices as fit

    `setting` is what was judged, and nothing else.
    """
    is_gguf = shape.format == "gguf"
    kind = Weights.GGUF if is_gguf else Weights.FOLDER
    tuning = Tuning(
        kv_cache_type=cache_type,
        n_cpu_moe=AUTO_LAYERS if is_gguf and shape.is_moe and devices else None,
        tensor_parallel=len(devices) if not is_gguf and len(devices) > 1 else None,
    )
    engine = those(lambda one: one.weights is kind)[0]
    serve = Serve(
        path, engine=engine, model=f"/hub/{path}", parallel=parallel, context=context,
        embedded=False if devices else None, gpu_layers=None if devices else 0, tuning=tuning,
    )  # fmt: skip
    if context is None:
        chosen = choose_context(replace(serve, auto_context=True), slot, devices, main, shape).context
        serve = replace(serve, context=chosen or min(4096, shape.context or 4096))
    names = tuple(f"{device.vendor}:{device.index}" for device in devices)
    unfit = Choice(path, shape.weights, shape.precision, Verdict.TOO_LARGE, devices=names)
    report = check_fit(serve, devices, main, shape)
    verdict = Verdict.FITS
    settings = {"tensor_parallel": tuning.tensor_parallel, "n_cpu_moe": report.plan.cpu_moe}
    unfit = replace(unfit, memory=_memory_use(report, devices, main, slot))
    if report.fit.answer is FitAnswer.UNKNOWN:
        return replace(unfit, verdict=Verdict.UNKNOWN, problem="the memory here is not known")
    if report.fit.answer is FitAnswer.TOO_LARGE:
        proposed = next((one.setting for one in report.proposals if one.setting.startswith("gpu_layers")), "")
        if not proposed:
            return replace(unfit, problem="; ".join(report.problems))
        verdict, settings["gpu_layers"] = Verdict.LAYERS, int(proposed.rpartition(" ")[2])
        experts = replace(tuning, n_cpu_moe=report.plan.cpu_moe or None)
        report = check_fit(replace(serve, gpu_layers=settings["gpu_layers"], tuning=experts), devices, main, shape)
        unfit = replace(unfit, memory=_memory_use(report, devices, main, slot))
    elif report.plan.cpu_moe:
        verdict = Verdict.EXPERTS
    if report.problems:
        return replace(unfit, problem="; ".join(report.problems))
    setting = "\n".join(f"{name} = {value}" for name, value in settings.items() if value)
    speed = _speed(shape, report, host_bandwidth)
    return replace(unfit, verdict=verdict, context=serve.context, setting=setting, speed=speed)


def _memory_use(report: FitReport, devices: Sequence[Device], main: HostMemory, slot: Slot | None) -> MemoryUse:
    """Of the devices, where it uses any; what is beside them in main memory is not among it."""
    device, host = report.estimate.device, report.estimate.host
    need, times = (host, 1) if device is None else (device, report.plan.devices)
    totals = [one.total for one in devices[: report.plan.devices]]
    here = main.total if device is None else None if None in totals else sum(one or 0 for one in totals)
    allowed = slot.memory if slot is not None and slot.memory is not None else here
    return MemoryUse(need.weights * times, need.cache * times, need.overhead * times, allowed)


_RANKS = {
    Verdict.TOO_LARGE: 0, Verdict.UNKNOWN: 1, Verdict.LAYERS: 2, Verdict.EXPERTS: 3, Verdict.FITS: 4,
}  # fmt: skip


def _room(choice: Choice) -> int:
    """Tokens of context; more than is comfortable is no better."""
    return min(choice.context or 0, ROOMY[0])


def best(found: Sequence[Choice]) -> Choice | None:
    """The one to take; None: none can be run here. See `_recommended`."""
    return recommended[0] if (recommended := _recommended(found)) is not None else None


def why_best(chosen: Choice, found: Sequence[Choice]) -> str:
    """What `best` went by, as a clause: "the largest that fits"."""
    recommended = _recommended(found)
    return recommended[1] if recommended is not None and recommended[0] is chosen else f"{chosen.verdict}"


def _recommended(found: Sequence[Choice]) -> tuple[Choice, str] | None:
    """Which one to take, and why.

    1. of those that fit, with or without experts in main memory: those of at least SOUND_BITS, else all
    2. of these, those with the most comfortable context that one of them reaches, rather without experts there
    3. of these, the largest of at most LEAN_BITS, else the smallest
    4. with layers in main memory only if nothing else fits: of 1 and 2 the fastest
    """
    usable = [choice for choice in found if choice.context and choice.verdict in (Verdict.FITS, Verdict.EXPERTS)]
    verdicts = [Verdict.FITS, Verdict.EXPERTS]
    if not usable:
        usable = [choice for choice in found if choice.context and choice.verdict is Verdict.LAYERS]
        verdicts = [Verdict.LAYERS]
    if not usable:
        return None
    sound = [choice for choice in usable if choice.bits is None or choice.bits >= SOUND_BITS]  # 1
    rivals, least = _roomiest(sound or usable, verdicts)  # 2
    verdict = rivals[0].verdict
    lean = [choice for choice in rivals if choice.bits is None or choice.bits <= LEAN_BITS]
    if verdict is Verdict.LAYERS:
        chosen, how = max(rivals, key=lambda choice: (choice.speed or 0.0, -choice.size)), "fastest"  # 4
    elif lean:
        chosen, how = max(lean, key=lambda choice: choice.size), "largest"  # 3
    else:
        chosen, how = min(rivals, key=lambda choice: choice.size), "smallest"
    others = [choice for choice in found if choice.verdict is verdict and choice not in rivals]
    if len(rivals) == 1:
        how = "only one"
    is_for_room = least and any(choice.size > chosen.size for choice in others)
    why = f"the {how} that {verdict}{f' with {least:,} tokens of context' if is_for_room else ''}"
    if how == "largest" and any(choice.size > chosen.size for choice in rivals):
        why += "; more bits cost speed and add nothing that shows"
    if not sound:
        why += f", though with less than {SOUND_BITS:g} bits a weight answers get worse"
    return chosen, why


def _roomiest(usable: Sequence[Choice], verdicts: Sequence[Verdict]) -> tuple[list[Choice], int]:
    """Those of one verdict with the first context of ROOMY that any has, and these tokens. A model that was trained
    for less needs no more.
    """
    for least in ROOMY:
        for verdict in verdicts:
            enough = [
                choice for choice in usable
                if choice.verdict is verdict and (choice.context or 0) >= min(least, choice.trained or least)
            ]  # fmt: skip
            if enough:
                return enough, least
    return [], 0


def _speed(shape: Shape, report: FitReport, host_bandwidth: float) -> float | None:
    """Each token reads the weights that it uses, and the cache of half its context. Of the experts it uses a few, of
    everything else all. Devices that hold layers work in turn, those that share each layer at once.
    """
    plan, need, host = report.plan, report.estimate.device, report.estimate.host
    experts = sum(layer.experts for layer in shape.layers)
    unused = (shape.weights - shape.active) / experts if shape.active is not None and experts else 0.0
    in_host = host.weights - (shape.embedding if need is not None else 0) + host.cache / 2
    if need is None:
        return tokens_per_second(0, int(in_host - experts * unused), None, host_bandwidth)
    deals_layers = engine_of(plan.engine).memory.deals_layers
    below = max(plan.cpu_moe, len(shape.layers) - plan.gpu_layers if plan.gpu_layers is not None else 0)
    experts_below = sum(layer.experts for layer in shape.layers[:below]) if deals_layers else 0
    in_host -= experts_below * unused
    on_devices = (need.weights + need.cache / 2) * plan.devices - (experts - experts_below) * unused
    in_turn = on_devices if deals_layers else on_devices / plan.devices
    speeds = [row.device.bandwidth for row in report.rows if row.device is not None]
    slowest = min((speed for speed in speeds if speed is not None), default=None) if None not in speeds else None
    return tokens_per_second(int(in_turn), max(0, int(in_host)), slowest, host_bandwidth)


def _is_first(path: str) -> bool:
    part = parse_part(path)
    return (part is None or part.number == 1) and not _NO_MODEL.search(path)


def _stem(path: str) -> str:
    """What all quantisations of one model have in common: its path without what names them."""
    part = parse_part(path)
    name = part.stem if part is not None else path.removesuffix(".gguf")
    return "/".join(word for step in name.split("/") if (word := _QUANTISATION.sub("", step))).lower()


def _precision(path: str) -> str:
    part = parse_part(path)
    name = part.stem if part is not None else path.removesuffix(".gguf")
    match = _QUANTISATION.search(name.rpartition("/")[2]) or _QUANTISATION.search(name)
    return match[1].upper() if match else ""


def _size(path: str, files: dict[str, HubFile]) -> int:
    return sum(files[part].size for part in model_files(path) if part in files)


def _absent(path: str, files: dict[str, HubFile]) -> str:
    """Which part of a split model the repository lacks, as a sentence; empty: none."""
    absent = [part for part in model_files(path) if part not in files]
    if not absent:
        return ""
    part = parse_part(absent[0])
    return f"part {part.number if part is not None else 1} is missing, {absent[0]}: take another one"


def _unknown(path: str, files: dict[str, HubFile], problem: str) -> Choice:
    return Choice(path, _size(path, files), _precision(path), Verdict.UNKNOWN, problem=problem)


def _gguf_shape(hub: Hub, repository: HubRepository, files: dict[str, HubFile], path: str) -> Shape:
    """Raises UnreadableModel."""
    parts = model_files(path)
    headers = [read_header_from(hub.open(repository, files[part]), part, files[part].size) for part in parts]
    return gguf.shape_of(path, headers)


def _resized(base: Shape, size: int, path: str) -> Shape:
    """The same model with weights of so many bytes."""
    factor = size / base.weights

    def of(amount: int) -> int:
        return int(amount * factor)

    layers, predictors = (
        tuple(replace(layer, weights=of(layer.weights), experts=of(layer.experts)) for layer in each)
        for each in (base.layers, base.predictors)
    )
    return replace(
        base, weights=size, layers=layers, predictors=predictors, embedding=of(base.embedding),
        active=None if base.active is None else of(base.active), precision=_precision(path) or base.precision,
    )  # fmt: skip


def _is_weights(path: str, folder: str) -> bool:
    return path.endswith(".safetensors") and path.rpartition("/")[0] == folder.rstrip("/")


def _folders(files: dict[str, HubFile], under: str) -> list[str]:
    """Those with a configuration and safetensors files, with a slash at the end; empty: the repository itself."""
    named = {path.removesuffix("config.json") for path in files if path.rpartition("/")[2] == "config.json"}
    return sorted(
        folder for folder in named if folder.startswith(under) and any(_is_weights(path, folder) for path in files)
    )


def _folder_shape(hub: Hub, repository: HubRepository, files: dict[str, HubFile], folder: str) -> Shape:
    """Read as a directory on disk, which has its headers only. Raises UnreadableModel."""
    with tempfile.TemporaryDirectory(prefix="stoker-fit-") as place:
        for name in ("config.json", "model.safetensors.index.json"):
            if (file := files.get(f"{folder}{name}")) is not None:
                _take(hub, repository, file, Path(place) / name, min(file.size, _HEADER))
        if f"{folder}model.safetensors.index.json" not in files:
            for path, file in files.items():
                if _is_weights(path, folder):
                    length = int.from_bytes(hub.read(repository, path, 0, 8), "little")
                    _take(hub, repository, file, Path(place) / path.rpartition("/")[2], min(length + 8, _HEADER))
        return replace(hf_config.read(place), name=repository.name)


def _take(hub: Hub, repository: HubRepository, file: HubFile, target: Path, length: int) -> None:
    with target.open("wb") as opened:
        opened.write(hub.read(repository, file.path, 0, length))
        opened.truncate(file.size)
