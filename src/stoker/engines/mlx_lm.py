"""MLX LM: the command line of `mlx_lm.server`, for Apple's MLX, which also runs on CUDA and on processors.

As `mlx_lm.server` 0.32.2 behaves, by its source and asked on a processor, not yet on a Mac: it has /health, /v1/models,
chat and text completions; it names its model by its path, asks for no key, and has no metrics. It loads any other model
that a request names, so Stoker always names this one. It takes `chat_template_kwargs` and tools, sends thinking as
`reasoning`, and usage in a stream where it is asked for. What it cannot run it answers with 404.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from stoker.domain.serve import SPECULATIVE_WORDS, Serve
from stoker.engines import options
from stoker.engines.launch import Launch, LaunchPlace, find_engine, missing_engine
from stoker.engines.options import option, switch, template_switch
from stoker.engines.record import CACHES, Engine, FailureKind, FailurePattern, Weights

COMMAND = "mlx_lm.server"
_BITS = {"q4_0": "4", "q8_0": "8"}
_SAMPLERS = {"temperature": "--temp", "top_p": "--top-p", "top_k": "--top-k", "min_p": "--min-p"}


def _kv_bits(given: str) -> tuple[str, str]:
    return "--kv-bits", _BITS.get(given, given)


def _sampling(given: Mapping[str, float]) -> list[str]:
    known = {_SAMPLERS[key]: value for key, value in given.items() if key in _SAMPLERS}
    return [word for name, value in known.items() for word in (name, options.number(value))]


_UNLIMITED = 1_000_000
"""Tokens of an answer to a request that sets no limit: by itself it would cut each at 512."""


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    """Its list of models fails if the hub's cache does not exist, so it is told to look into the model's folder."""
    folder = listed_as(serve.model)
    argv = [find_engine(serve, COMMAND) or COMMAND, "--model", folder, "--host", serve.host, "--port", str(place.port)]
    argv += ["--max-tokens", str(serve.context or _UNLIMITED), *options.render(serve, ENGINE.options, None)]
    environment = {} if "HF_HUB_CACHE" in serve.env else {"HF_HUB_CACHE": folder}
    return Launch((*argv, *serve.extra_args), environment, takes_key=False)


def listed_as(model: str) -> str:
    return os.path.realpath(model)


def _unsupported(serve: Serve) -> list[str]:
    found = []
    if not os.path.isabs(serve.model):
        found.append(
            f"serve '{serve.name}': MLX LM lists no model of the hub before it is there: download it "
            f"(`stoker stage hf:{serve.model[:64]}`), and give its directory as `model`"
        )
    if len(serve.tuning.adapters) > 1:
        found.append(f"serve '{serve.name}': MLX LM loads only one of `adapters`: name one")
    if serve.tuning.speculative == "mtp":
        found.append(
            f"serve '{serve.name}': MLX LM predicts no further tokens itself: give a draft model, or remove it"
        )
    if "repetition_penalty" in serve.tuning.sampling:
        found.append(f"serve '{serve.name}': MLX LM takes `repetition_penalty` in requests only: remove it")
    return found


def _cautions(serve: Serve) -> list[str]:
    return ["MLX LM asks for no key: every user of this machine can use it past Stoker"]


ENGINE: Engine = Engine(
    name="mlx-lm",
    title="MLX LM",
    launch=launch,
    missing=lambda serve: [] if find_engine(serve, COMMAND) else missing_engine(serve, "MLX LM", COMMAND),
    options={
        "parallel": option("--decode-concurrency"),
        "context": switch(),  # no limit of its own
        "speculative": lambda given: () if given in SPECULATIVE_WORDS else ("--draft-model", given),
        "adapters": lambda given: [word for path in given for word in ("--adapter-path", path)],
        "batched_tokens": option("--prefill-step-size"),
        "kv_cache_type": _kv_bits,
        "prefix_caching": switch(off=("--prompt-cache-size", "0")),
        "thinking": template_switch("--chat-template-args"),
        "sampling": _sampling,
        "trust_remote_code": switch(("--trust-remote-code",)),
    },
    instead={
        "threads": "it computes on the GPU: remove it",
        "gpu_layers": "it has one memory for all layers: remove it",
        "tensor_parallel": "write a `cmd` with `mlx.launch`",
        "pipeline_parallel": "write a `cmd` with `mlx.launch` and `--pipeline`",
        "memory_fraction": "it takes what it needs: remove it",
        "load_format": "it has only one: remove it",
        "dtype": "the files of the model determine it: `mlx_lm.convert --dtype` makes others",
        "quantization": "the files of the model determine it: `mlx_lm.convert -q` makes others",
        "cpu_moe": "it has one memory for all layers: remove it",
        "n_cpu_moe": "it has one memory for all layers: remove it",
        "mmproj": "it reads text only: remove it",
        "kv_offload": "it has one memory for all caches: remove it",
        "kv_offload_backend": "it has one memory for all caches: remove it",
        "attention_backend": "it has only one: remove it",
        "graphs": "it compiles nothing ahead: remove it",
        "tool_parser": "tool calls are read as the chat template defines",
        "reasoning_parser": "thinking is read as the chat template defines",
        "chat_template": "put it into the directory of the model as `chat_template.jinja`",
        "rendezvous": "write a `cmd` with `mlx.launch`",
        "metrics": "it has none: remove it",
    },
    choices={"kv_cache_type": tuple(_BITS)},
    unsupported=_unsupported,
    cautions=_cautions,
    weights=Weights.FOLDER,
    computes_with=lambda serve: frozenset(),
    listed_as=listed_as,
    caches={**CACHES, "HF_HOME": "huggingface"},
    variables=("MLX_",),
    paths={("GET", "health"): False, ("GET", "v1/models"): False},
    failures=(
        FailurePattern(FailureKind.UNSUPPORTED_ARCHITECTURE, r"Model type .{0,80} not supported"),
        FailurePattern(FailureKind.MISSING_WEIGHTS, r"No safetensors found in"),
    ),
    program=COMMAND,
    packages={"mlx_lm": "mlx-lm"},
    install="pip install mlx-lm",
)
