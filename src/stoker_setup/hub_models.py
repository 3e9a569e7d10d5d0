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
from stoker.engines.registry import those
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
AGENT_CONTEXT = 32_768
"""Tokens that a coding agent needs to work at all; its instructions and tools alone take 10,000 to 25,000."""
MOST_MODELS = 8
"""Of different models in one repository, each with a header of its own."""
_HEADER = 16 * 2**20
"""Bytes of a config.json, or of the header of a safetensors file, at most."""


class Verdict(StrEnum):
    FITS = "fits"
    EXPERTS = "fits with experts in main memory"
    LAYERS = "fits with layers in main memory"
    TOO_LARGE = "does not fit"
    UNKNOWN = "unknown"


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
    """What has to be set for it."""
    speed: float | None = None
    """Tokens per second of one request: an estimate."""
    problem: str = ""


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
    firsts = [path for path in files if path.endswith(".gguf") and path.startswith(under) and _is_first(path)]
    models: dict[str, list[str]] = {}
    for path in sorted(firsts, key=lambda one: (parse_part(one) is not None, files[one].size)):
        models.setdefault(_stem(path), []).append(path)
    folders = _folders(files, under)
    found, count = [], min(len(models), MOST_MODELS) + len(folders)
    for number, paths in enumerate(list(models.values())[:MOST_MODELS], start=1):
        on_header(paths[0], number, count)
        try:
            base = _gguf_shape(hub, repository, files, paths[0])
        except UnreadableModel as error:
            found += [_unknown(path, files, error.message) for path in paths]
            continue
        found += [judge(_resized(base, _size(path, files), path), path) for path in paths]
    for number, folder in enumerate(folders, start=count - len(folders) + 1):
        on_header(f"{folder}config.json", number, count)
        name = folder or "./"
        size = sum(file.size for path, file in files.items() if _is_weights(path, folder))
        try:
            found.append(replace(judge(_folder_shape(hub, repository, files, folder), name), size=size))
        except UnreadableModel as error:
            found.append(Choice(name, size, "", Verdict.UNKNOWN, problem=error.message))
    return sorted(found, key=lambda choice: (choice.size, choice.file))


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

    1. as it is  2. llama.cpp: with as few experts in main memory as needed  3. with as many layers on devices as fit
    """
    is_gguf = shape.format == "gguf"
    kind = Weights.GGUF if is_gguf else Weights.FOLDER
    tuning = Tuning(kv_cache_type=cache_type, n_cpu_moe=AUTO_LAYERS if is_gguf and shape.is_moe and devices else None)
    engine = those(lambda one: one.weights is kind)[0]
    serve = Serve(
        path, engine=engine, model=f"/hub/{path}", parallel=parallel, context=context,
        embedded=False if devices else None, gpu_layers=None if devices else 0, tuning=tuning,
    )  # fmt: skip
    if context is None:
        chosen = choose_context(replace(serve, auto_context=True), slot, devices, main, shape).context
        serve = replace(serve, context=chosen or min(4096, shape.context or 4096))
    if not is_gguf and not devices:
        return Choice(
            path, shape.weights, shape.precision, Verdict.TOO_LARGE, problem="engines that read it need a GPU"
        )
    report = check_fit(serve, devices, main, shape)
    verdict, setting = Verdict.FITS, ""
    if report.fit.answer is FitAnswer.UNKNOWN:
        return Choice(path, shape.weights, shape.precision, Verdict.UNKNOWN, problem="the memory here is not known")
    if report.fit.answer is FitAnswer.TOO_LARGE:
        layers = next((one.setting for one in report.proposals if one.setting.startswith("gpu_layers")), "")
        if not layers:
            return Choice(path, shape.weights, shape.precision, Verdict.TOO_LARGE, problem="; ".join(report.problems))
        verdict, setting = Verdict.LAYERS, layers
        report = check_fit(replace(serve, gpu_layers=int(layers.rpartition(" ")[2])), devices, main, shape)
    elif report.plan.cpu_moe:
        verdict, setting = Verdict.EXPERTS, f"n_cpu_moe = {report.plan.cpu_moe}"
    unusable = "; ".join(remark for remark in report.problems)
    if unusable:
        return Choice(path, shape.weights, shape.precision, Verdict.TOO_LARGE, problem=unusable)
    speed = _speed(shape, report, devices, host_bandwidth)
    return Choice(path, shape.weights, shape.precision, verdict, serve.context, setting, speed)


def best(found: Sequence[Choice]) -> Choice | None:
    """The largest with enough context that fits as it is, else with experts in main memory. Where none has enough: the
    one with the most context that fits as it is, else with experts, else with layers in main memory.

    Enough is what an agent needs, or the most that any file here leaves. A file of 16 bits or more counts only where
    no Q8_0 has enough: its answers are the same (llama-quantize: +0.0026 perplexity at 8B), at half the speed.
    """
    usable = {
        verdict: [choice for choice in found if choice.verdict is verdict and choice.context]
        for verdict in (Verdict.FITS, Verdict.EXPERTS, Verdict.LAYERS)
    }
    enough = min(AGENT_CONTEXT, max((choice.context or 0 for each in usable.values() for choice in each), default=0))
    for verdict in (Verdict.FITS, Verdict.EXPERTS):
        roomy = [choice for choice in usable[verdict] if (choice.context or 0) >= enough]
        has_eight = any(choice.precision == "Q8_0" for choice in roomy)
        if lean := [choice for choice in roomy if not (has_eight and _has_sixteen_bits(choice))]:
            return max(lean, key=lambda choice: choice.size)
    most = (max(each, key=lambda choice: (choice.context or 0, choice.size)) for each in usable.values() if each)
    return next(most, None)


def why_best(chosen: Choice, found: Sequence[Choice]) -> str:
    """What `best` went by, as a clause: "the largest that fits"."""
    rivals = [choice for choice in found if choice.verdict is chosen.verdict]
    if chosen is max(rivals, key=lambda choice: choice.size):
        return f"the largest that {chosen.verdict}"
    if (chosen.context or 0) < AGENT_CONTEXT:
        return f"the one that {chosen.verdict} with the most context"
    larger = [choice for choice in rivals if choice.size > chosen.size]
    if all(_has_sixteen_bits(choice) for choice in larger):
        return f"{chosen.verdict}; 16 bits cost speed and add nothing that shows"
    return f"the largest that {chosen.verdict} with at least {AGENT_CONTEXT:,} tokens of context, as agents need"


def _has_sixteen_bits(choice: Choice) -> bool:
    return choice.file.endswith(".gguf") and choice.precision in ("F16", "FP16", "BF16", "F32")


def _speed(shape: Shape, report: FitReport, devices: Sequence[Device], host_bandwidth: float) -> float | None:
    """Each token reads the weights that it uses, and the cache of half its context."""
    share = (shape.active or shape.weights) / shape.weights
    need, host = report.estimate.device, report.estimate.host
    count = max(1, len(devices))
    in_host = (host.weights - (shape.embedding if need is not None else 0)) * share + host.cache / 2
    on_device = (need.weights * share + need.cache / 2) * count if need is not None else 0
    speeds = [device.bandwidth for device in devices if device.bandwidth is not None]
    slowest = min(speeds) if devices and len(speeds) == len(devices) else None
    return tokens_per_second(int(on_device), max(0, int(in_host)), slowest, host_bandwidth)


def _is_first(path: str) -> bool:
    part = parse_part(path)
    return (part is None or part.number == 1) and not _NO_MODEL.search(path)


def _stem(path: str) -> str:
    """What all quantisations of one model have in common."""
    part = parse_part(path)
    name = (part.stem if part is not None else path.removesuffix(".gguf")).rpartition("/")[2]
    return _QUANTISATION.sub("", name).lower()


def _precision(path: str) -> str:
    part = parse_part(path)
    name = part.stem if part is not None else path.removesuffix(".gguf")
    match = _QUANTISATION.search(name.rpartition("/")[2]) or _QUANTISATION.search(name)
    return match[1].upper() if match else ""


def _size(path: str, files: dict[str, HubFile]) -> int:
    return sum(files[part].size for part in model_files(path) if part in files)


def _unknown(path: str, files: dict[str, HubFile], problem: str) -> Choice:
    return Choice(path, _size(path, files), _precision(path), Verdict.UNKNOWN, problem=problem)


def _gguf_shape(hub: Hub, repository: HubRepository, files: dict[str, HubFile], path: str) -> Shape:
    """Raises UnreadableModel."""
    parts = model_files(path)
    if absent := [part for part in parts if part not in files]:
        raise UnreadableModel(f"{repository.name} has no {absent[0]}, a part of this model: take another one")
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
