"""vLLM: the command line of `vllm serve`."""

from __future__ import annotations

from stoker.domain.host_port import host_port
from stoker.domain.serve import Serve
from stoker.engines import backends, options, weight_files
from stoker.engines.launch import Launch, LaunchPlace, find_engine, own_address
from stoker.engines.options import OptionTable, document, option, switch, template_switch
from stoker.engines.served_names import name_problem

COMMAND = "vllm"


def _rendezvous(address: str) -> tuple[str, ...]:
    host, _, port = address.rpartition(":")
    return ("--master-addr", host.strip("[]"), "--master-port", port)


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
INSTEAD = options.ON_GPU


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    """The key is passed in the environment. `sleep_level` opens vLLM's development endpoints, which need no key."""
    argv = [find_engine(serve, COMMAND) or COMMAND, "serve", serve.model]
    argv += ["--served-model-name", serve.served_name or serve.name, "--host", serve.host, "--port", str(place.port)]
    argv += options.render(serve, WORDS, backends.chosen(serve))
    environment = {"VLLM_API_KEY": place.key}
    if (address := own_address(serve, place)) is not None:  # otherwise the engine picks one, possibly a public one
        environment["VLLM_HOST_IP"] = address
    if serve.sleep_level is not None:
        argv.append("--enable-sleep-mode")
        environment["VLLM_SERVER_DEV_MODE"] = "1"
    return Launch((*argv, *_rank(place), *serve.extra_args), environment)


def _rank(place: LaunchPlace) -> tuple[str, ...]:
    if (rank := place.rank) is None:
        return ()
    words = ("--distributed-executor-backend", "mp", "--nnodes", str(rank.count), "--node-rank", str(rank.number))
    return (*words, *_rendezvous(host_port(rank.host, rank.port)), *(("--headless",) if rank.number > 0 else ()))


def problems(serve: Serve) -> list[str]:
    """What prevents a start: one sentence each. Takes milliseconds."""
    found = [] if find_engine(serve, COMMAND) else [_missing(serve)]
    refused = name_problem(serve.engine, serve.served_name or serve.name)
    found += [refused] if refused else []
    found += weight_files.directory_problems(serve) + options.template_problems(serve, takes_names=False)
    return [*found, *backends.problems(serve), *unsupported(serve)]


def unsupported(serve: Serve) -> list[str]:
    """One sentence for each key that vLLM cannot express. Pure."""
    return [*options.unsupported(serve, WORDS, INSTEAD), *options.cache_type_problems(serve)]


def _missing(serve: Serve) -> str:
    return (
        f"serve '{serve.name}': vLLM is needed, and there is no `{COMMAND}` on PATH: type `pip install vllm`, or add "
        "the directory that it is in to `env.PATH`"
    )
