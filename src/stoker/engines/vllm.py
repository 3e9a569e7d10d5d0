"""vLLM: the command line of `vllm serve`."""

from __future__ import annotations

import json

from stoker.domain.dialect import TEXT
from stoker.domain.host_port import host_port
from stoker.domain.serve import SPECULATIVE_WORDS, Serve
from stoker.engines import backends, options
from stoker.engines.launch import Launch, LaunchPlace, find_engine, missing_engine, own_address, sleeps_by_itself
from stoker.engines.llama_cpp import foreign_cache_type
from stoker.engines.options import document, option, switch, template_switch
from stoker.engines.record import (
    GIB,
    TORCH_CACHES,
    Engine,
    EngineMemory,
    FailureKind,
    FailurePattern,
    MetricName,
    MetricRow,
    OptionTable,
    SleepApi,
    Weights,
    metric,
)

COMMAND = "vllm"


def _rendezvous(address: str) -> tuple[str, ...]:
    host, _, port = address.rpartition(":")
    return ("--master-addr", host.strip("[]"), "--master-port", port)


def _speculative(given: str) -> tuple[str, ...]:
    if given in SPECULATIVE_WORDS:
        return _speculative_config({"method": "mtp", "num_speculative_tokens": 1}) if given == "mtp" else ()
    return _speculative_config({"model": given, "num_speculative_tokens": 4})


def _speculative_config(settings: dict[str, object]) -> tuple[str, ...]:
    return ("--speculative-config", json.dumps(settings))


WORDS: OptionTable = {
    "context": option("--max-model-len"),
    "parallel": option("--max-num-seqs"),
    "tensor_parallel": option("--tensor-parallel-size"),
    "pipeline_parallel": option("--pipeline-parallel-size"),
    "memory_fraction": option("--gpu-memory-utilization"),
    "batched_tokens": option("--max-num-batched-tokens"),
    "dtype": option("--dtype"),
    "quantization": option("--quantization"),
    "kv_cache_type": option("--kv-cache-dtype"),
    "speculative": _speculative,
    "adapters": lambda given: ("--enable-lora", "--lora-modules", *options.named_paths(given)),
    "kv_offload": lambda size: ("--kv-offloading-size", options.number(size / GIB)),
    "kv_offload_backend": option("--kv-offloading-backend"),
    "attention_backend": option("--attention-backend"),
    "prefix_caching": switch(("--enable-prefix-caching",), ("--no-enable-prefix-caching",)),
    "graphs": switch(off=("--enforce-eager",)),
    "tool_parser": option("--tool-call-parser", "--enable-auto-tool-choice"),
    "reasoning_parser": option("--reasoning-parser"),
    "chat_template": option("--chat-template"),
    "thinking": template_switch("--default-chat-template-kwargs"),
    "sampling": document("--override-generation-config"),
    "rendezvous": _rendezvous,
    "trust_remote_code": switch(("--trust-remote-code",)),
    "metrics": switch(off=("--disable-log-stats",)),
}


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    """The key is passed in the environment. `sleep_level` opens vLLM's development endpoints, which need no key."""
    argv = [find_engine(serve, COMMAND) or COMMAND, "serve", serve.model]
    argv += ["--served-model-name", serve.served_name or serve.name, "--host", serve.host, "--port", str(place.port)]
    argv += options.render(serve, WORDS, backends.chosen(serve))
    environment = {"VLLM_API_KEY": place.key}
    if (address := own_address(serve, place)) is not None:  # otherwise the engine picks one, possibly a public one
        environment["VLLM_HOST_IP"] = address
    if sleeps_by_itself(serve):
        argv.append("--enable-sleep-mode")
        environment["VLLM_SERVER_DEV_MODE"] = "1"
    return Launch((*argv, *_rank(place), *serve.extra_args), environment)


def _rank(place: LaunchPlace) -> tuple[str, ...]:
    if (rank := place.rank) is None:
        return ()
    words = ("--distributed-executor-backend", "mp", "--nnodes", str(rank.count), "--node-rank", str(rank.number))
    return (*words, *_rendezvous(host_port(rank.host, rank.port)), *(("--headless",) if rank.number > 0 else ()))


def _cautions(serve: Serve) -> list[str]:
    if not sleeps_by_itself(serve) or serve.host.startswith(("127.", "::1")):
        return []
    return [
        f"`sleep_level` opens vLLM's development endpoints, which ask for no key, and host {serve.host} can be "
        "reached from other machines: use 127.0.0.1"
    ]


def _in_container(image: str, model: str, name: str, context: int, parallel: int) -> list[str]:
    words = ["serve", model, "--served-model-name", name, "--host", "0.0.0.0", "--port", "8000"]
    words += ["--max-model-len", str(context), "--max-num-seqs", str(parallel)]
    return ["-p", "127.0.0.1:{port}:8000", "-e", "VLLM_API_KEY", "--entrypoint", COMMAND, image, *words]


def _sleep(level: int) -> tuple[tuple[str, dict[str, object]], ...]:
    return ((f"/sleep?level={level}&sleep_level={level}", {}),)  # the second is the spelling of early builds


ENGINE: Engine = Engine(
    name="vllm",
    title="vLLM",
    launch=launch,
    missing=lambda serve: [] if find_engine(serve, COMMAND) else missing_engine(serve, "vLLM", COMMAND),
    options=WORDS,
    instead=options.ON_GPU,
    choices={"kv_offload_backend": ("native", "lmcache")},
    unsupported=lambda serve: foreign_cache_type(serve, "vLLM", "`fp8`"),
    cautions=_cautions,
    takes_template_names=False,
    has_ranks=True,
    key_variable="VLLM_API_KEY",
    weights=Weights.FOLDER,
    context_advice='vLLM chooses it itself: leave `context` out, and set `extra_args = ["--max-model-len", "auto"]`',
    stretches=r"--(rope|hf-overrides)|VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    refuses_long_context=True,
    memory=EngineMemory(on_device=2 * GIB, on_host=2 * GIB, batch=8192, pages_cache=True),
    takes_uuids=False,  # 0.10 to 0.20 end with "failed to be inspected" (vllm-project/vllm#20939, #41848)
    caches={**TORCH_CACHES, "VLLM_CACHE_ROOT": "vllm"},
    variables=(),  # not VLLM_: an inherited VLLM_SERVER_DEV_MODE would open endpoints that ask for no key
    dialects=TEXT,
    traits={"early_usage": "continuous_usage_stats", "prefill": "continue"},
    signals={
        # a deferred request waits for something outside the engine: more memory would not help
        "queued": MetricRow((
            MetricName("vllm:num_requests_waiting_by_reason", ("reason", "capacity")),
            MetricName("vllm:num_requests_waiting"),
        )),
        "running": metric("vllm:num_requests_running"),
        "kv_use": metric("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", largest=True),
        "prompt_tokens": metric("vllm:prompt_tokens_total"),
        "generated_tokens": metric("vllm:generation_tokens_total"),
        "preemptions": metric("vllm:num_preemptions_total"),
        "prefix_queries": metric("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        "prefix_hits": metric("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        "prefix_hit_share": metric("vllm:gpu_prefix_cache_hit_rate", largest=True),
    },
    sleep=SleepApi(
        sleep={1: _sleep(1), 2: _sleep(2)},
        wake={
            1: (("/wake_up", {}),),
            # Level 2 dropped the weights: without the reload it answers gibberish (vllm-project/vllm#29341). The KV
            # cache comes last, so that it need not fit beside the memory that the reload uses.
            2: (
                ("/wake_up?tags=weights", {}),
                ("/collective_rpc", {"method": "reload_weights"}),
                ("/wake_up?tags=kv_cache", {}),
            ),
        },
        needs="`--enable-sleep-mode` and VLLM_SERVER_DEV_MODE=1",
    ),
    asleep_page="/is_sleeping",
    failures=(
        FailurePattern(
            FailureKind.STARTUP_MEMORY,
            r"less than desired [GC]PU memory utilization|No available memory for the cache blocks"
            r"|larger than the (available KV cache memory|maximum number of tokens that can be stored in KV cache)",
        ),
        FailurePattern(FailureKind.CONTEXT_TOO_LONG, r"greater than the derived max_model_len"),
    ),
    advice={FailureKind.OUT_OF_MEMORY: options.OUT_OF_MEMORY_ON_GPU},
    program=COMMAND,
    packages={"vllm": "vllm"},
    install="pip install vllm",
    in_container=_in_container,
)  # fmt: skip
