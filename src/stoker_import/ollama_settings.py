"""Ollama's parameters of a model (Modelfile PARAMETER), and the settings of its server, as Stoker's keys. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker_import.imported import KeyOutcome, KeyReport
from stoker_import.owned_models import shown

_SAMPLING = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p",
    "repeat_penalty": "repetition_penalty",
}  # fmt: skip
_REQUEST = {
    "stop": "stop", "seed": "seed", "num_predict": "max_tokens", "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}  # fmt: skip
"""Parameters of requests, with Stoker's names: `[serve.request] default` fills them in."""
_KEYS = {"num_thread": "threads", "num_gpu": "gpu_layers", "num_batch": "batched_tokens"}
_OPTIONS = {
    "typical_p": "--typical", "repeat_last_n": "--repeat-last-n", "main_gpu": "--main-gpu", "num_keep": "--keep",
    "mirostat": "--mirostat", "mirostat_tau": "--mirostat-ent", "mirostat_eta": "--mirostat-lr",
}  # fmt: skip
_SWITCHES = {("use_mmap", False): "--no-mmap", ("use_mlock", True): "--mlock"}
_DROPPED = {
    "draft_num_predict": "speculative decoding: set it up with `extra_args`",
    "use_mmap": "llama.cpp does this by itself",
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_WITHOUT_END = (-1, -2)
"""Values of `num_predict` for "no limit" and "as much as the context allows"."""


@dataclass(slots=True)
class CarriedSettings:
    """The result of reading a model's parameters."""

    context: int | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    arguments: list[tuple[str, ...]] = field(default_factory=list)
    report: list[KeyReport] = field(default_factory=list)


def carry_parameters(model: str, parameters: Mapping[str, Any]) -> CarriedSettings:
    """Stoker's keys for a model's parameters. Every parameter has a row in the report."""
    carried = CarriedSettings()
    for name, value in parameters.items():
        if name == "num_ctx" and _is_count(value):
            carried.context = int(value)  # the planner reports it, because it may have to be smaller
        else:
            outcome, became, note = _carry(carried, name, value)
            carried.report.append(KeyReport(model, f"PARAMETER {name}", outcome, became, note))
    return carried


def _carry(carried: CarriedSettings, name: str, value: Any) -> tuple[KeyOutcome, str, str]:
    """Outcome, what it became, note.

    1. sampling, and other parameters of requests
    2. keys of the serve, and options of llama-server
    3. behaviour that Stoker or llama.cpp has anyway
    4. parameters that Ollama ignores, too
    """
    if name in _SAMPLING and _is_number(value):  # 1
        carried.keys.setdefault("sampling", {})[_SAMPLING[name]] = value
        return KeyOutcome.CARRIED, shown(f"sampling.{_SAMPLING[name]}", value), ""
    if name in _REQUEST:
        return _carry_request(carried, name, value)
    if name in _KEYS and _is_number(value):  # 2
        if value < 1 and not (name == "num_gpu" and value == 0):
            return KeyOutcome.CARRIED, "", "the engine chooses, as in Ollama"
        carried.keys[_KEYS[name]] = int(value)
        return KeyOutcome.CARRIED, shown(_KEYS[name], int(value)), ""
    if name in _OPTIONS and _is_number(value):
        return _carry_option(carried, _OPTIONS[name], f"{value:g}" if isinstance(value, float) else str(value))
    if (name, value) in _SWITCHES if isinstance(value, bool) else False:
        return _carry_option(carried, _SWITCHES[name, value])
    if name in _DROPPED:  # 3
        return KeyOutcome.DROPPED, "", _DROPPED[name]
    return KeyOutcome.IGNORED, "", "this version of Ollama does not read it, either"  # 4


def _carry_option(carried: CarriedSettings, *words: str) -> tuple[KeyOutcome, str, str]:
    carried.arguments.append(words)
    return KeyOutcome.CARRIED, shown("extra_args", list(words)), ""


def _carry_request(carried: CarriedSettings, name: str, value: Any) -> tuple[KeyOutcome, str, str]:
    key = _REQUEST[name]
    if name == "num_predict" and value in _WITHOUT_END:
        return KeyOutcome.CARRIED, "", "no limit, as in Stoker"
    if name == "seed" and value == -1:
        return KeyOutcome.CARRIED, "", "a seed of its own for each request, as in Stoker"
    if name == "stop":
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            return KeyOutcome.IGNORED, "", "it is not a text"
    elif not _is_number(value):
        return KeyOutcome.IGNORED, "", "it is not a number"
    carried.keys.setdefault("request", {}).setdefault("default", {})[key] = value
    return KeyOutcome.CARRIED, shown(f"request.default.{key}", value), ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 1


def carry_server_settings(environment: Mapping[str, str]) -> CarriedSettings:
    """Settings of Ollama's environment variables, which apply to every model. Rows of the report have no model."""
    carried = CarriedSettings()

    def row(name: str, became: str, outcome: KeyOutcome = KeyOutcome.CARRIED, note: str = "") -> None:
        carried.report.append(KeyReport("", name, outcome, became, note))

    length = environment.get("OLLAMA_CONTEXT_LENGTH", "")
    if length.isdigit() and int(length) > 0:
        carried.context = int(length)
        row("OLLAMA_CONTEXT_LENGTH", shown("context", int(length)), note="of models without num_ctx")
    parallel = environment.get("OLLAMA_NUM_PARALLEL", "")
    if parallel.isdigit() and int(parallel) > 0:
        carried.keys["parallel"] = int(parallel)
        row("OLLAMA_NUM_PARALLEL", shown("parallel", int(parallel)))
    keep = environment.get("OLLAMA_KEEP_ALIVE", "")
    if keep:
        idle = _idle_unload(keep)
        carried.keys["idle_unload"] = idle
        row("OLLAMA_KEEP_ALIVE", shown("idle_unload", idle))
    cache = environment.get("OLLAMA_KV_CACHE_TYPE", "")
    if cache in ("f16", "q8_0", "q4_0"):
        carried.keys["kv_cache_type"] = cache
        row("OLLAMA_KV_CACHE_TYPE", shown("kv_cache_type", cache))
    if environment.get("OLLAMA_MAX_LOADED_MODELS", "0") not in ("", "0", "1"):
        note = "one model at a time per slot: give the slot its `memory`, and as many run as fit"
        row("OLLAMA_MAX_LOADED_MODELS", "", KeyOutcome.DROPPED, note)
    for name, note in (
        ("OLLAMA_HOST", "Stoker listens on loopback: set `front_door.host`, with keys, for other machines"),
        ("OLLAMA_ORIGINS", "set `front_door.allowed_origins` for web pages of other origins"),
    ):
        if environment.get(name):
            row(name, "", KeyOutcome.DROPPED, note)
    return carried


def _idle_unload(keep: str) -> str:
    """A duration as Ollama reads it: `1h30m`, seconds without a unit, negative for "for ever"; anything else is 5m."""
    if keep.startswith("-"):
        return "never"
    if keep.isdigit():
        seconds = float(keep)
    elif _DURATION.sub("", keep):
        seconds = 300.0
    else:
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(keep))
    return f"{max(1, round(seconds))}s"
