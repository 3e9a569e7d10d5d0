"""Presets of llama.cpp's router (`llama-server --models-preset models.ini`), and its folder of models (`--models-dir`).

A section is a model; its keys are options of llama-server without dashes, short or long, or the names of their
environment variables. `[*]` applies to every model. Keys before the first section are not used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stoker.cli.machine.serve_plan import PARALLEL
from stoker.domain.errors import ClientError
from stoker_import.gguf_folders import FolderModel, gguf_files, is_projector, projector_beside, stem
from stoker_import.imported import KeyOutcome, KeyReport
from stoker_import.owned_models import EngineModel, shown

EVERY_MODEL = "*"
ORIGIN = "llama.cpp preset"
_SECTION = re.compile(r"\[[ \t]*([^\]]+?)[ \t]*\][ \t]*(?:[;#].*)?")
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*(.*?)[ \t]*(?:[;#].*)?")
_TRUE, _FALSE = ("on", "enabled", "true", "1"), ("off", "disabled", "false", "0")
_LONG = {
    "m": "model", "mm": "mmproj", "c": "ctx-size", "np": "parallel", "n-parallel": "parallel", "t": "threads",
    "ngl": "gpu-layers", "n-gpu-layers": "gpu-layers", "b": "batch-size", "a": "alias", "hf": "hf-repo",
    "hfr": "hf-repo", "temperature": "temp", "ctk": "cache-type-k", "ctv": "cache-type-v", "fa": "flash-attn",
    "ub": "ubatch-size", "embedding": "embeddings", "rerank": "reranking", "n": "n-predict", "predict": "n-predict",
    "md": "model-draft", "jf": "json-schema-file",
}  # fmt: skip
"""Other spellings of options that this reads."""
_SWITCHES = frozenset((
    "jinja", "mmap", "cont-batching", "kv-offload", "context-shift", "warmup", "cache-prompt", "kv-unified", "repack",
    "op-offload", "mmproj-offload", "mmproj-auto", "perf", "webui", "ui", "slots", "escape", "fit-print",
))  # fmt: skip
"""Options without a value that have a `--no-` form."""
_FLAGS = frozenset((
    "mlock", "embeddings", "reranking", "metrics", "props", "swa-full", "cpu-moe", "check-tensors", "ignore-eos",
    "special", "spm-infill", "no-host", "offline", "verbose", "direct-io",
))  # fmt: skip
"""Options without a value and without a `--no-` form."""
_WITH_STATE = frozenset(("flash-attn", "fit", "reasoning", "rea", "log-colors"))
"""Options whose value may be `true`."""
_SHORT = frozenset((
    "fitt", "fitc", "fitp", "ngld", "devd", "cmoe", "ncmoe", "cmoed", "ncmoed", "ctkd", "ctvd", "cram", "ctxcp", "nkvo",
    "hffv", "hfrv",
))  # fmt: skip
"""Short options of more than three letters; those of up to three are short but for `--rpc`."""
_FILES = frozenset((
    "model-draft", "spec-draft-model", "lora", "lora-scaled", "control-vector", "control-vector-scaled", "grammar-file",
    "json-schema-file", "slot-save-path", "log-file", "media-path", "path", "model-vocoder", "lookup-cache-static",
    "lookup-cache-dynamic", "ssl-key-file", "ssl-cert-file",
))  # fmt: skip
"""Options that name files or folders, some of them several, with commas: those without a key of Stoker."""
_COUNTS = {"threads": "threads", "batch-size": "batched_tokens", "gpu-layers": "gpu_layers"}
_SAMPLING = {
    "temp": "temperature", "top-k": "top_k", "top-p": "top_p", "min-p": "min_p", "repeat-penalty": "repetition_penalty",
}  # fmt: skip
_OF_SERVE = ("preload", "stop_grace", "idle_unload")
"""Keys that a serve with a `cmd` has, too."""
_NOT_IN_COMMAND = ("model", "hf-repo", "ctx-size", "parallel", "alias", "load-on-startup", "stop-timeout",
                   "sleep-idle-seconds")  # fmt: skip
_OWN = {
    "host": "Stoker starts llama-server on loopback", "port": "each start picks a free port",
    "api-key": "clients give Stoker's keys: `front_door.keys`", "api-key-file": "clients give Stoker's keys",
    "models-max": "set `memory` of the slot: as many models run as fit", "webui": "Stoker has no pages of llama.cpp",
    "group": "use `[slots]`", "slots": "Stoker switches this page off",
}  # fmt: skip
"""Options that Stoker decides itself."""


class UnreadablePresets(ClientError):
    """The file is not a file of presets; the message says where."""

    code = "unreadable_presets"


@dataclass(slots=True)
class PresetOptions:
    """The result of reading one section's options."""

    title: str
    base: Path
    model: str = ""
    repository: str = ""
    context: int | None = None
    parallel: int | None = None
    is_shared: bool = False
    """Whether each request may use the whole context (`kv-unified`)."""
    projector: Path | None = None
    aliases: list[str] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)
    arguments: list[tuple[str, ...]] = field(default_factory=list)
    cache_types: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """The options as llama-server takes them, for a model that it downloads itself."""
    report: list[KeyReport] = field(default_factory=list)


def parse_presets(text: str, shown_as: str) -> dict[str, dict[str, str]]:
    """Sections in the file's order, each with its keys; `""`: keys before the first section.

    Raises UnreadablePresets.
    """
    sections: dict[str, dict[str, str]] = {"": {}}
    current = sections[""]
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip(" \t\ufeff")
        if not line or line[0] in ";#":
            continue
        if header := _SECTION.fullmatch(line):
            current = sections[
                header[1]
            ] = {}  # of two sections with the same name the later one counts, as in llama.cpp
        elif pair := _PAIR.fullmatch(line):
            current[pair[1]] = pair[2]
        else:
            raise UnreadablePresets(
                f"{shown_as}:{number}: this is neither [section] nor key = value: give the file of --models-preset"
            )
    if len(sections) == 1:
        raise UnreadablePresets(f"{shown_as} has no [section]: give the file of --models-preset")
    return sections


def read_presets(
    sections: Mapping[str, Mapping[str, str]], base: Path, cached: Sequence[FolderModel] = ()
) -> tuple[list[FolderModel], list[EngineModel], list[KeyReport]]:
    """A model for each section: those whose file is there, and all others: llama-server downloads them when it first
    starts, or their file is missing here.
    Relative paths are relative to `base`, llama-server's working directory. `cached`: the models of `--models-dir` and
    llama.cpp's caches, for sections that name one by its folder or its repository.
    """
    common = sections.get(EVERY_MODEL, {})
    rows = [
        KeyReport("", key, KeyOutcome.IGNORED, note="llama.cpp uses nothing before the first [section]")
        for key in sections.get("", {})
    ]
    models: list[FolderModel] = []
    remote: list[EngineModel] = []
    for title, own in sections.items():
        if title in ("", EVERY_MODEL):
            continue
        options = PresetOptions(title, base)
        merged = {_long(key): (key, value) for key, value in [*common.items(), *own.items()]}
        for option, (key, value) in merged.items():
            outcome, became, note = _carry(options, option, value)
            options.report.append(KeyReport(title, key, outcome, became, note))
        _finish_cache_types(options)
        model = _find(options, cached)
        if options.parallel is None:
            note = "as many as Stoker starts by default; llama-server chooses a number itself"
            options.report.append(KeyReport(title, "parallel", KeyOutcome.CHANGED, shown("parallel", PARALLEL), note))
        if model is None and (options.repository or "/" in title) and not options.model:
            remote.append(_remote_model(options))
        elif model is None:
            note = (
                "no model of this name is in llama.cpp's caches: give its file as `model`, or say with --models-dir "
                "where the router looks for models"
            )
            rows += [KeyReport(title, "model", KeyOutcome.FAILED, note=note), *options.report]
        elif not model.path.exists():
            remote.append(_absent_model(options, model))
        else:
            models.append(replace(model, report=tuple(options.report)))
    return models, remote, rows


def _absent_model(options: PresetOptions, model: FolderModel) -> EngineModel:
    """A model whose file is not on this machine: its keys stand as they are, for the file to come."""
    projector = () if model.projector is None else ("--mmproj", str(model.projector))
    arguments = [*(word for words in model.arguments for word in words), *projector]
    keys: dict[str, Any] = {"model": str(model.path), "parallel": model.parallel}
    if model.context is not None:
        keys["context"] = model.context
    keys |= {**model.keys, **({"extra_args": arguments} if arguments else {})}
    note = "is not here: put it there, correct `model`, or say with --cwd where llama-server runs"
    row = KeyReport(options.title, "file", KeyOutcome.CARRIED, shown("model", str(model.path)), note)
    return EngineModel(
        title=options.title, name=model.name, aliases=model.aliases, keys=keys, report=(row, *options.report)
    )


def _remote_model(options: PresetOptions) -> EngineModel:
    """A model of the hub that was not downloaded yet: llama-server does it, as the router would."""
    repository, parallel = options.repository or options.title, options.parallel or PARALLEL
    words = ["llama-server", "--port", "{port}", "-hf", repository, "--alias", options.title]
    words += ["--parallel", str(parallel), *options.words]
    keys: dict[str, Any] = {"engine": "llama.cpp", "cmd": words, "served_name": options.title, "parallel": parallel}
    if options.context is not None:
        words += ["--ctx-size", str(options.context)]
        keys["context"] = options.context if options.is_shared else max(1, options.context // parallel)
    keys |= {key: value for key, value in options.keys.items() if key in _OF_SERVE}
    note = "not downloaded yet: llama-server downloads it when it first starts"
    row = KeyReport(options.title, "hf-repo", KeyOutcome.CARRIED, shown("cmd", f"-hf {repository}"), note)
    return EngineModel(
        title=options.title,
        name=options.title.rsplit("/", 1)[-1],
        aliases=tuple(dict.fromkeys((options.title, *options.aliases))),
        keys=keys,
        report=(row, *options.report),
    )


def _long(key: str) -> str:
    """The long option that a key means: `ctx-size` for `c`, and for `LLAMA_ARG_CTX_SIZE`."""
    name = key.removeprefix("LLAMA_ARG_").lower().replace("_", "-") if key.startswith("LLAMA_ARG_") else key
    return _LONG.get(name, name)


def _carry(options: PresetOptions, option: str, value: str) -> tuple[KeyOutcome, str, str]:
    """Outcome, what it became, note.

    1. options that Stoker has keys for
    2. options that Stoker decides itself
    3. switches, by their value: `--option` or `--no-option`
    4. everything else -> extra_args
    """
    if option in _FILES:
        value = ",".join(str(options.base / os.path.expanduser(file.strip())) for file in value.split(","))
    if option not in _NOT_IN_COMMAND and option not in _OWN:
        options.words += _words(option, value)
    became = _carry_key(options, option, value)
    if became is not None:
        return KeyOutcome.CARRIED, became, ""  # 1
    if option in _OWN:
        return KeyOutcome.DROPPED, "", _OWN[option]  # 2
    words = _words(option, value)
    if not words:
        return KeyOutcome.CARRIED, "", "off, as by default"
    options.arguments.append(words)
    return KeyOutcome.CARRIED, shown("extra_args", list(words)), ""


def _words(option: str, value: str) -> tuple[str, ...]:
    """Branches 3 and 4 of `_carry`; empty: a flag that is off."""
    positive = option.removeprefix("no-")
    if option in _SWITCHES or option in _FLAGS or positive in _SWITCHES:  # 3
        is_on = (value.lower() not in _FALSE) == (option in _SWITCHES or option in _FLAGS)
        if not is_on and positive in _FLAGS:
            return ()
        return (f"--{positive}" if is_on else f"--no-{positive}",)
    name = f"-{option}" if option in _SHORT or (len(option) <= 3 and option != "rpc") else f"--{option}"
    is_flag = option != positive or (value.lower() in ("true", "false") and option not in _WITH_STATE)
    if is_flag:  # no option that begins with `no-` has a value
        return (name,) if value.lower() not in _FALSE else ()
    return (name, value)  # 4


def _carry_key(options: PresetOptions, option: str, value: str) -> str | None:
    """Branch 1: the resulting key; None if Stoker has no key for the option."""
    if option in ("model", "hf-repo"):
        setattr(options, "model" if option == "model" else "repository", value)
        return ""
    if option == "mmproj":
        options.projector = options.base / os.path.expanduser(value)
        return ""
    if option in ("ctx-size", "parallel"):
        count = int(value) if value.isdigit() and int(value) > 0 else None  # 0: what the model was trained for
        setattr(options, "context" if option == "ctx-size" else "parallel", count)
        return "" if option == "ctx-size" or count is None else shown("parallel", count)
    if option == "kv-unified":
        options.is_shared = value.lower() in _TRUE
    if option in _COUNTS and value.isdigit():
        options.keys[_COUNTS[option]] = int(value)
        return shown(_COUNTS[option], int(value))
    if option in _SAMPLING and re.fullmatch(r"-?\d+(\.\d+)?", value):
        number = float(value) if "." in value else int(value)
        options.keys.setdefault("sampling", {})[_SAMPLING[option]] = number
        return shown(f"sampling.{_SAMPLING[option]}", number)
    if option in ("cache-type-k", "cache-type-v"):
        options.cache_types[option] = value
        return ""
    return _carry_rest(options, option, value)


def _carry_rest(options: PresetOptions, option: str, value: str) -> str | None:
    """Branch 1, of options that say when and under which names a model runs."""
    if option == "alias":
        options.aliases += [alias.strip() for alias in value.split(",") if alias.strip()]
        return shown("aliases", options.aliases)
    if option == "load-on-startup":
        options.keys["preload"] = value.lower() in _TRUE
        return shown("preload", options.keys["preload"])
    if option == "stop-timeout" and value.isdigit():
        options.keys["stop_grace"] = f"{value}s"
        return shown("stop_grace", f"{value}s")
    if option == "sleep-idle-seconds" and re.fullmatch(r"-?\d+", value):
        options.keys["idle_unload"] = f"{value}s" if int(value) > 0 else "never"
        return shown("idle_unload", options.keys["idle_unload"])
    if option in ("chat-template", "chat-template-file"):
        is_file = option.endswith("file")
        options.keys["chat_template"] = str(options.base / os.path.expanduser(value)) if is_file else value
        return shown("chat_template", options.keys["chat_template"])
    return None


def _finish_cache_types(options: PresetOptions) -> None:
    """One key where both types are the same, else llama-server's own options."""
    kinds = options.cache_types
    if len(kinds) == 2 and len(set(kinds.values())) == 1:
        options.keys["kv_cache_type"] = kinds["cache-type-k"]
    else:
        options.arguments += [(f"--{option}", kind) for option, kind in kinds.items()]


def _find(options: PresetOptions, cached: Sequence[FolderModel]) -> FolderModel | None:
    """The section's file: its `model`, or the cached model that its `hf-repo` or its name means."""
    projector = options.projector
    if options.model:
        path = Path(os.path.normpath(options.base / os.path.expanduser(options.model)))
    else:
        wanted = (options.repository or options.title).lower()
        found = next((one for one in cached if wanted in [alias.lower() for alias in one.aliases]), None)
        if found is None:
            return None
        path, projector = found.path, projector or found.projector
    context = options.context
    if context is not None and options.parallel is not None and not options.is_shared:
        context = max(1, context // options.parallel)
    return FolderModel(
        title=options.title,
        name=options.title.rsplit("/", 1)[-1],
        path=path,
        origin=ORIGIN,
        aliases=tuple(dict.fromkeys((options.title, *options.aliases))),
        projector=projector,
        context=context,
        parallel=options.parallel or PARALLEL,
        keys=options.keys,
        arguments=tuple(options.arguments),
        report=tuple(options.report),
    )


def read_models_dir(folder: Path) -> list[FolderModel]:
    """The models of `--models-dir`: files, and folders of one model each, named as the router names them."""
    return list(_in_models_dir(folder))


def _in_models_dir(folder: Path) -> Iterator[FolderModel]:
    files = list(gguf_files(folder, depth=1))
    for path in files:
        if is_projector(path):
            continue
        is_alone = path.parent == folder
        name = stem(path) if is_alone else path.parent.name
        projector = None if is_alone else projector_beside(path, files)
        yield FolderModel(
            title=name, name=name, path=path.absolute(), origin="llama.cpp folder", aliases=(name,), projector=projector
        )
