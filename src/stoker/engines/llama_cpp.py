"""llama.cpp: the command line of `llama-server`, or of the embedded engine, which accepts the same options."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from glob import glob
from importlib.util import find_spec
from typing import Any

from stoker.domain.dialect import Dialect
from stoker.domain.serve import AUTO_LAYERS, SPECULATIVE_WORDS, Serve
from stoker.engines import facts, options
from stoker.engines.launch import Launch, LaunchPlace, find_command
from stoker.engines.options import option, switch
from stoker.engines.record import CACHES, GIB, MIB, Api, Engine, EngineMemory, Facts, OptionTable, Weights, metric
from stoker.system.identity import is_macos

SERVER = "llama-server"
_MODULE = "stoker.engines.embedded"
PACKAGE = "xllamacpp"
_INSTALL = f"pip install {PACKAGE}"
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_SAMPLERS = {
    "temperature": "--temp",
    "top_p": "--top-p",
    "top_k": "--top-k",
    "min_p": "--min-p",
    "repetition_penalty": "--repeat-penalty",
}


def _template(given: str) -> tuple[str, str]:
    return ("--chat-template-file" if options.is_file_name(given) else "--chat-template", given)


def _sampling(given: Mapping[str, float]) -> list[str]:
    return [word for key, value in given.items() for word in (_SAMPLERS[key], options.number(value))]


def _speculative(given: str) -> tuple[str, ...]:
    """A draft model, or the model's own layers. `auto` was resolved before, if the model's file was there."""
    if given in SPECULATIVE_WORDS:
        return ("--spec-type", "draft-mtp") if given == "mtp" else ()
    return ("-md", given)


def _adapters(given: Sequence[str]) -> list[str]:
    return [word for path in given for word in ("--lora", path)]


_ATTENTION = {"flash": "on", "none": "off"}
WORDS: OptionTable = {
    "context": option("-c"),
    "parallel": option("-np"),
    "threads": option("-t"),
    "gpu_layers": option("-ngl"),
    "batched_tokens": option("-b"),
    "kv_cache_type": lambda given: ("-ctk", given, "-ctv", given),
    "cpu_moe": switch(("--cpu-moe",)),
    "n_cpu_moe": lambda layers: () if layers == AUTO_LAYERS else ("--n-cpu-moe", str(layers)),
    "speculative": _speculative,
    "mmproj": option("--mmproj"),
    "adapters": _adapters,
    "kv_offload": lambda size: ("--cache-ram", str(-(-size // MIB))),
    "attention_backend": lambda given: ("-fa", _ATTENTION[given]),
    "prefix_caching": switch(off=("--no-cache-prompt",)),
    "reasoning_parser": option("--reasoning-format"),
    "chat_template": _template,
    "thinking": switch(("--reasoning", "on"), ("--reasoning", "off")),
    "sampling": _sampling,
    "metrics": switch(("--metrics",)),
}
INSTEAD: Mapping[str, str] = {
    "tensor_parallel": 'it uses all devices that it sees; `extra_args = ["--split-mode", "row"]` splits each layer',
    "pipeline_parallel": "it spreads its layers over all devices that it sees",
    "memory_fraction": "set `gpu_layers`, or leave it out: it takes as many layers as fit",
    "dtype": "the GGUF file determines it: use another file",
    "quantization": "the GGUF file determines it: use another file",
    "load_format": "remove it: it has one way to read a GGUF file",
    "kv_offload_backend": "remove it: it moves the cache itself",
    "graphs": "remove it",
    "tool_parser": "tool calls are read as the chat template defines",
    "rendezvous": "remove it: it runs on one machine",
    "trust_remote_code": "remove it: a GGUF file holds no code",
}


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    """`llama-server` if `serve.embedded` allows it and it is on PATH, else the embedded engine.

    The key travels in the environment: a command line can be read by every user of the machine.
    """
    server = None if uses_embedded(serve) else find_command(serve, SERVER)
    if server is not None:
        return Launch((server, *_options(serve, place), *serve.extra_args), {"LLAMA_API_KEY": place.key})
    argv = [
        sys.executable,
        "-P",
        "-m",
        _MODULE,
        *_options(serve, place),
    ]  # -P: import nothing from the working directory
    if serve.die_with_parent:
        argv += ["--parent", str(os.getpid())]
    from stoker.engines import embedded  # argparse comes with it

    environment = {embedded.KEY_VARIABLE: place.key}
    if "PYTHONPATH" in os.environ:  # the child imports Stoker from the same place
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return Launch((*argv, *serve.extra_args), environment)


def uses_embedded(serve: Serve) -> bool:
    """Whether the embedded engine would run its model: what `embedded` says, else where `llama-server` is not on PATH.
    Never for a serve with a command of its own. It looks at PATH.
    """
    if serve.cmd is not None:
        return False
    return serve.embedded if serve.embedded is not None else find_command(serve, SERVER) is None


_LIBRARIES: Mapping[Api, tuple[str, tuple[bytes, ...]]] = {
    Api.CUDA: ("libggml-cuda", (b"libcudart.so", b"libcuda.so")),
    Api.HIP: ("libggml-hip", (b"libamdhip64.so",)),
    Api.LEVEL_ZERO: ("libggml-sycl", (b"libsycl.so",)),
    Api.VULKAN: ("libggml-vulkan", (b"libvulkan.so",)),
}
"""Interface -> the library of a build with shared ones, and what a program in one file is linked with."""
_BESIDE = ("", "../lib*", "../lib*/*", "../lib*/*/ggml/*")
"""Where those libraries lie, from the program's folder on."""
_NAMES_OF_LIBRARIES = 32 * MIB
"""How much of a program is searched: the names stand near its beginning."""


def computes_with(serve: Serve) -> frozenset[Api] | None:
    """None for the embedded engine, a script, and a build for processors only."""
    if uses_embedded(serve):
        return None
    program = find_command(serve, serve.cmd[0] if serve.cmd else SERVER)
    if program is None:
        return None
    try:
        path = os.path.realpath(program)
        changed = os.stat(path)
        return _built_for(path, changed.st_mtime_ns, changed.st_size) or None
    except OSError:
        return None


@lru_cache(maxsize=16)
def _built_for(program: str, changed: int, size: int) -> frozenset[Api]:
    folder = os.path.dirname(program)
    with open(program, "rb") as file:
        start = file.read(_NAMES_OF_LIBRARIES)
    if not start.startswith(b"\x7fELF"):
        return frozenset()
    beside = {os.path.basename(p) for place in _BESIDE for p in glob(os.path.join(folder, place, "libggml-*.so*"))}
    return frozenset(
        api
        for api, (library, linked) in _LIBRARIES.items()
        if any(name.startswith(library) for name in beside) or any(one in start for one in linked)
    )


def on_processors(serve: Serve) -> bool:
    """The embedded engine computes on processors, unless `gpu_layers` says that this build of it does not, or this is a
    Mac: its wheels for macOS have Metal.
    """
    is_ours = serve.cmd is None
    is_plain = serve.gpu_layers is None and uses_embedded(serve) and not is_macos()
    return is_ours and (serve.gpu_layers == 0 or is_plain)


def missing(serve: Serve) -> list[str]:
    """The engine, or the options that the embedded one does not take."""
    if not uses_embedded(serve):
        if find_command(serve, SERVER) is not None:
            return []
        return [f"serve '{serve.name}' wants `{SERVER}`, which is not on PATH: install llama.cpp{_or_embedded(serve)}"]
    if find_spec(PACKAGE) is None:
        if serve.embedded:
            return [f"serve '{serve.name}' wants the embedded engine, which is not installed: type `{_INSTALL}`"]
        return [
            f"serve '{serve.name}' needs llama.cpp, and there is neither `{SERVER}` on PATH nor the embedded engine: "
            f"type `{_INSTALL}`"
        ]
    from stoker.engines import embedded

    if not on_processors(serve) and (serve.tuning.cpu_moe or serve.tuning.n_cpu_moe):
        return [
            f"serve '{serve.name}' keeps experts in main memory, which the embedded engine cannot beside a GPU: "
            f"install llama.cpp's `{SERVER}`, or remove `cpu_moe` and `n_cpu_moe`"
        ]
    refusal = embedded.refusal(serve.extra_args)
    return [f"`extra_args` of serve '{serve.name}': {refusal}"] if refusal else []


def _or_embedded(serve: Serve) -> str:
    """The other remedy, if the embedded engine takes all that the serve passes on."""
    from stoker.engines import embedded

    return "" if embedded.refusal(serve.extra_args) else f", or set `embedded = true` after `{_INSTALL}`"


def _conversations(place: LaunchPlace) -> list[str]:
    """llama.cpp's own prompt cache has no keys: any caller with the same prefix would continue the conversation."""
    return [] if place.conversations is None else ["--slot-save-path", place.conversations, "--cache-ram", "0"]


def _prompt_cache(serve: Serve) -> int:
    """llama-server keeps 8 GiB unless it is told otherwise (`cache_ram_mib` in its common.h), the embedded one less.

    Stoker counts that rather than passing a smaller number: another command line would be another launch of every
    engine that runs, and older builds do not know the option.
    """
    if serve.keep_conversations or serve.tuning.kv_offload is not None or serve.tuning.prefix_caching is False:
        return 0
    given = _CACHE_RAM.findall(" ".join((*(serve.cmd or ()), *serve.extra_args)))
    size = given[-1] if given else serve.env.get("LLAMA_ARG_CACHE_RAM", "")
    if size.isdigit():
        return int(size) * MIB
    return _EMBEDDED_CACHE if uses_embedded(serve) and not size else _SERVER_CACHE


_CACHE_RAM = re.compile(r"(?:^| )(?:--cache-ram|-cram)[= ](-?\d+)")
_SERVER_CACHE, _EMBEDDED_CACHE = 8 * GIB, 64 * MIB


def _unsupported(serve: Serve) -> list[str]:
    found = []
    if serve.keep_conversations and serve.tuning.kv_offload is not None:
        found.append(
            f"serve '{serve.name}': `kv_offload` and `keep_conversations` exclude each other: its cache in main memory "
            "is shared by all callers; remove one of them"
        )
    return found


def _options(serve: Serve, place: LaunchPlace) -> list[str]:
    words = ["-m", serve.model, "--alias", serve.served_name or serve.name]
    words += ["--host", serve.host, "--port", str(place.port)]
    shared = replace(serve, context=serve.context and serve.context * serve.parallel)  # one cache for all its sequences
    if on_processors(serve):  # what would lie in main memory is there
        shared = replace(shared, tuning=replace(shared.tuning, cpu_moe=False, n_cpu_moe=None))
    return [
        *words,
        *options.render(shared, WORDS, next(iter(serve.tuning.attention_backend), None)),
        "--no-slots",
        *_conversations(place),
    ]


def foreign_cache_type(serve: Serve, title: str, instead: str) -> list[str]:
    """For other engines, to which llama.cpp's names of KV cache types mean nothing."""
    given = serve.tuning.kv_cache_type
    if given not in CACHE_TYPES:
        return []
    return [
        f"serve '{serve.name}': engine {title} has no `kv_cache_type` {given}, which is one of llama.cpp's: "
        f"take {instead}"
    ]


def _unknown_model(serve: Serve) -> list[str]:
    if not uses_embedded(serve):
        return []
    from stoker.engines import embedded_architectures  # the readers of model files come with it

    return embedded_architectures.problems(serve)


def _in_container(image: str, model: str, name: str, context: int, parallel: int) -> list[str]:
    words = _fetching(model, name, "0.0.0.0", "8080", context, parallel)
    return ["-p", "127.0.0.1:{port}:8080", "-e", "LLAMA_API_KEY", image, *words]


def _from_hub(model: str, name: str, context: int, parallel: int) -> list[str]:
    return [SERVER, *_fetching(model, name, "{host}", "{port}", context, parallel)]


def _fetching(model: str, name: str, host: str, port: str, context: int, parallel: int) -> list[str]:
    weights = ["-m", model] if os.path.isabs(model) else ["-hf", model]
    return [
        *weights, "--alias", name, "--host", host, "--port", port, "-c", str(context * parallel), "-np", str(parallel)
    ]  # fmt: skip


def _facts(props: Any) -> Facts:
    """From /props."""
    if not isinstance(props, dict):
        return {}
    found = facts.pick(props, "total_slots")
    build = props.get("build_info")
    if isinstance(build, str):
        found["build"] = build[:100]
    settings = props.get("default_generation_settings")
    return found | (facts.pick(settings, "n_ctx") if isinstance(settings, dict) else {})


ENGINE: Engine = Engine(
    name="llama.cpp",
    title="llama.cpp",
    launch=launch,
    missing=missing,
    options=WORDS,
    instead=INSTEAD,
    unsupported=_unsupported,
    choices={
        "kv_cache_type": CACHE_TYPES,
        "attention_backend": tuple(_ATTENTION),
        "reasoning_parser": ("none", "auto", "deepseek", "deepseek-legacy"),
    },
    key_variable="LLAMA_API_KEY",
    weights=Weights.GGUF,
    unknown_model=_unknown_model,
    computes_context=True,
    stretches=r"--(rope|yarn|override-kv)|LLAMA_ARG_((ROPE|YARN)_|OVERRIDE_KV)",
    memory=EngineMemory(on_device=400 * MIB, on_host=32 * MIB, batch=512, activations=32, deals_layers=True),
    on_processors=on_processors,
    computes_with=computes_with,
    prompt_cache=_prompt_cache,
    masks_below_hip=True,
    device_names={Api.CUDA: "CUDA", Api.HIP: "ROCm", Api.LEVEL_ZERO: "SYCL", Api.VULKAN: "Vulkan"},
    caches={**CACHES, "LLAMA_CACHE": "llama.cpp"},
    variables=("GGML_", "LLAMA_"),
    package=lambda serve: PACKAGE if uses_embedded(serve) else None,
    modules={"engines.embedded": PACKAGE},
    # Embeddings and rerank need their own start.
    dialects=frozenset((Dialect.CHAT, Dialect.COMPLETIONS, Dialect.MESSAGES, Dialect.RESPONSES)),
    # Its stream names no `content_index` (build of 2026-10), on which the OpenAI SDK's streaming helper breaks.
    poor_dialects=frozenset((Dialect.RESPONSES,)),
    traits={"early_usage": "return_progress", "tool_images": True, "repetition_field": "repeat_penalty"},
    paths={
        ("GET", "health"): False, ("GET", "v1/models"): False, ("GET", "props"): False, ("GET", "metrics"): False,
        ("POST", "tokenize"): False, ("POST", "detokenize"): False, ("POST", "apply-template"): False,
        ("POST", "v1/responses/input_tokens"): False, ("POST", "v1/chat/completions/input_tokens"): False,
        ("POST", "infill"): True, ("POST", "completion"): True, ("POST", "embedding"): True,
        ("POST", "rerank"): True,
    },
    facts_page=("/props", _facts),
    template_page="/apply-template",
    signals={
        "queued": metric("llamacpp:requests_deferred"),
        "running": metric("llamacpp:requests_processing"),
        "kv_use": metric("llamacpp:kv_cache_usage_ratio", largest=True),
        "prompt_tokens": metric("llamacpp:prompt_tokens_total"),
        "generated_tokens": metric("llamacpp:tokens_predicted_total"),
        "steps": metric("llamacpp:n_decode_total"),
    },
    asleep_page="/props",
    saves_conversations=True,
    program=SERVER,
    packages={PACKAGE: "llama.cpp, embedded"},
    install=_INSTALL,
    in_container=_in_container,
    from_hub=_from_hub,
)  # fmt: skip
