"""SGLang: the command line of `python -m sglang.launch_server`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.util import find_spec

from stoker.domain.dialect import TEXT
from stoker.domain.host_port import host_port
from stoker.domain.serve import SPECULATIVE_WORDS, Driver, Serve
from stoker.engines import backends, options
from stoker.engines.launch import (
    Launch,
    LaunchPlace,
    find_command,
    find_engine,
    missing_engine,
    own_address,
    sleeps_by_itself,
)
from stoker.engines.llama_cpp import foreign_cache_type
from stoker.engines.options import document, option, switch, template_switch
from stoker.engines.record import (
    GIB,
    TORCH_CACHES,
    Engine,
    EngineMemory,
    FailureKind,
    FailurePattern,
    OptionTable,
    SleepApi,
    Weights,
    metric,
)

COMMAND = "sglang"
_MODULE = "sglang.launch_server"

_CACHE_PAGE = 64
"""Tokens. With the page of one token that is the default, its hierarchical cache copies each token by itself."""


def _speculative(given: str) -> tuple[str, ...]:
    if given in SPECULATIVE_WORDS:
        return ("--speculative-algorithm", "NEXTN") if given == "mtp" else ()
    return ("--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", given)


def _host_cache(size: int) -> tuple[str, ...]:
    """In whole GB (10^9), of each rank."""
    words = ("--enable-hierarchical-cache", "--hicache-size", str(max(1, size // 10**9)))
    return (*words, "--page-size", str(_CACHE_PAGE))


WORDS: OptionTable = {
    "context": option("--context-length"),
    "parallel": option("--max-running-requests"),
    "tensor_parallel": option("--tensor-parallel-size"),
    "pipeline_parallel": option("--pipeline-parallel-size"),
    "memory_fraction": option("--mem-fraction-static"),
    "batched_tokens": option("--chunked-prefill-size"),
    "dtype": option("--dtype"),
    "quantization": option("--quantization"),
    "kv_cache_type": option("--kv-cache-dtype"),
    "speculative": _speculative,
    "adapters": lambda given: ("--enable-lora", "--lora-paths", *options.named_paths(given)),
    "kv_offload": _host_cache,
    "attention_backend": option("--attention-backend"),
    "prefix_caching": switch(off=("--disable-radix-cache",)),
    "graphs": switch(off=("--disable-cuda-graph",)),
    "tool_parser": option("--tool-call-parser"),
    "reasoning_parser": option("--reasoning-parser"),
    "chat_template": option("--chat-template"),
    "thinking": template_switch("--default-chat-template-kwargs"),
    "sampling": document("--preferred-sampling-params"),
    "rendezvous": option("--dist-init-addr"),
    "trust_remote_code": switch(("--trust-remote-code",)),
    "metrics": switch(("--enable-metrics",)),
}


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    """SGLang accepts its key only on the command line, where every user of the machine can read it."""
    argv = [*(_command(serve) or (COMMAND, "serve")), "--model-path", serve.model]
    argv += ["--served-model-name", serve.served_name or serve.name, "--host", serve.host, "--port", str(place.port)]
    ranks = (serve.tuning.tensor_parallel or 1) * (serve.tuning.pipeline_parallel or 1)
    offload = serve.tuning.kv_offload
    of_rank = replace(serve, tuning=replace(serve.tuning, kv_offload=offload and max(1, offload // ranks)))
    argv += options.render(of_rank, WORDS, backends.chosen(serve))
    if sleeps_by_itself(serve):
        # Without the copy in host memory, the weights are garbage after a release.
        argv += ["--enable-memory-saver", "--enable-weights-cpu-backup"]
    address = own_address(serve, place)  # otherwise the engine picks one, possibly a public one
    environment = {"SGLANG_HOST_IP": address} if address is not None else {}
    if (rank := place.rank) is not None:
        argv += ["--nnodes", str(rank.count), "--node-rank", str(rank.number)]
        argv += ["--dist-init-addr", host_port(rank.host, rank.port)]
    return Launch((*argv, "--api-key", place.key, *serve.extra_args), environment)


def _command(serve: Serve) -> tuple[str, ...] | None:
    """1. the interpreter of the command `sglang`  2. that command  3. Stoker's own interpreter  4. none

    `sglang serve` also handles other kinds of models, and asks the hub about each; the module does not.
    """
    if serve.driver is Driver.RAY:
        return (COMMAND, "serve")
    script = find_engine(serve, COMMAND)
    if script is not None:
        python = os.path.join(os.path.dirname(os.path.realpath(script)), "python3")
        return (python, "-m", _MODULE) if find_command(serve, python) else (script, "serve")  # 1, 2
    return (sys.executable, "-P", "-m", _MODULE) if find_spec("sglang") is not None else None  # 3, 4


def _cautions(serve: Serve) -> list[str]:
    found = []
    if serve.key is not None:
        found.append(
            "SGLang takes its key on the command line only: every user of this machine can read "
            "it there: remove `key`, "
            "and each start gets a new one"
        )
    if serve.tuning.sampling:
        found.append(
            "SGLang up to 0.5.19 uses `sampling` for /generate only, not for chat: put the values into the model's "
            "generation_config.json for those"
        )
    return found


def _unsupported(serve: Serve) -> list[str]:
    is_its_own = serve.tuning.kv_cache_type == "bf16"
    return [] if is_its_own else foreign_cache_type(serve, "SGLang", "`fp8_e5m2` or `fp8_e4m3`")


def _refused_name(name: str) -> str:
    if ":" not in name:
        return ""
    return (
        f"SGLang refuses the served name '{name[:64]}': it reads what follows the colon as an adapter; "
        f"write '{name[:64].replace(':', '-')}' and keep the old name in `aliases`"
    )


def _in_container(image: str, model: str, name: str, context: int, parallel: int) -> list[str]:
    words = ["-m", _MODULE, "--model-path", model, "--served-model-name", name, "--host", "0.0.0.0"]
    words += ["--port", "30000", "--context-length", str(context), "--max-running-requests", str(parallel)]
    return ["-p", "127.0.0.1:{port}:30000", "--entrypoint", "python3", image, *words]


ENGINE: Engine = Engine(
    name="sglang",
    title="SGLang",
    launch=launch,
    missing=lambda serve: [] if _command(serve) else missing_engine(serve, "SGLang", COMMAND),
    options=WORDS,
    instead={**options.ON_GPU, "kv_offload_backend": "remove it: it moves the cache itself"},
    unsupported=_unsupported,
    cautions=_cautions,
    has_ranks=True,
    weights=Weights.FOLDER,
    refused_name=_refused_name,
    context_advice="for SGLang give a number; with one, `stoker fit {name}` says whether it fits",
    stretches=r"--json-model-override-args|SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
    refuses_long_context=True,
    memory=EngineMemory(on_device=2 * GIB, on_host=2 * GIB, batch=8192, pages_cache=True),
    caches={**TORCH_CACHES, "SGLANG_CACHE_DIR": "sglang", "SGLANG_DG_CACHE_DIR": "deep_gemm"},
    dialects=TEXT,
    traits={"early_usage": "continuous_usage_stats", "prefill": "continue"},
    signals={
        "queued": metric("sglang:num_queue_reqs"),
        "running": metric("sglang:num_running_reqs"),
        "kv_use": metric("sglang:token_usage", largest=True),
        "prompt_tokens": metric("sglang:prompt_tokens_total"),
        "generated_tokens": metric("sglang:generation_tokens_total"),
        "preemptions": metric("sglang:num_retracted_requests_total"),
        "prefix_hits": metric("sglang:cached_tokens_total"),
        "prefix_hit_share": metric("sglang:cache_hit_rate", largest=True),
    },
    # Without tags: all of it, in every version.
    sleep=SleepApi(
        sleep={1: (("/release_memory_occupation", {}),)},
        wake={1: (("/resume_memory_occupation", {}),)},
        needs="`--enable-memory-saver`",
    ),
    failures=(
        FailurePattern(FailureKind.STARTUP_MEMORY, r"Not enough memory\. Please try"),
        FailurePattern(FailureKind.CONTEXT_TOO_LONG, r"greater than the derived context_length"),
    ),
    advice={FailureKind.OUT_OF_MEMORY: options.OUT_OF_MEMORY_ON_GPU},
    program=COMMAND,
    packages={"sglang": "sglang"},
    install="pip install sglang",
    in_container=_in_container,
)
