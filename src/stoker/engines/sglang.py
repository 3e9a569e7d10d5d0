"""SGLang: the command line of `python -m sglang.launch_server`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from stoker.domain.host_port import host_port
from stoker.domain.serve import Driver, Serve
from stoker.engines import backends, options, weight_files
from stoker.engines.launch import Launch, LaunchPlace, find_command, find_engine, own_address
from stoker.engines.options import OptionTable, document, option, switch, template_switch
from stoker.engines.served_names import name_problem

COMMAND = "sglang"
_MODULE = "sglang.launch_server"

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
INSTEAD = options.ON_GPU


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    """SGLang accepts its key only on the command line, where every user of the machine can read it."""
    argv = [*(_command(serve) or (COMMAND, "serve")), "--model-path", serve.model]
    argv += ["--served-model-name", serve.served_name or serve.name, "--host", serve.host, "--port", str(place.port)]
    argv += options.render(serve, WORDS, backends.chosen(serve))
    if serve.sleep_level is not None:
        # Without the copy in host memory, the weights are garbage after a release.
        argv += ["--enable-memory-saver", "--enable-weights-cpu-backup"]
    address = own_address(serve, place)  # otherwise the engine picks one, possibly a public one
    environment = {"SGLANG_HOST_IP": address} if address is not None else {}
    if (rank := place.rank) is not None:
        argv += ["--nnodes", str(rank.count), "--node-rank", str(rank.number)]
        argv += ["--dist-init-addr", host_port(rank.host, rank.port)]
    return Launch((*argv, "--api-key", place.key, *serve.extra_args), environment)


def problems(serve: Serve) -> list[str]:
    """What prevents a start: one sentence each. Takes milliseconds."""
    found = [] if _command(serve) else [_missing(serve)]
    refused = name_problem(serve.engine, serve.served_name or serve.name)
    found += [refused] if refused else []
    found += weight_files.directory_problems(serve) + options.template_problems(serve)
    return [*found, *backends.problems(serve), *unsupported(serve)]


def unsupported(serve: Serve) -> list[str]:
    """One sentence for each key that SGLang cannot express. Pure."""
    found = [*options.unsupported(serve, WORDS, INSTEAD), *options.cache_type_problems(serve)]
    if serve.sleep_level not in (None, 1):
        found.append(f"serve '{serve.name}': engine SGLang has only one sleep level: write `sleep_level = 1`")
    return found


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


def _missing(serve: Serve) -> str:
    return (
        f"serve '{serve.name}': SGLang is needed, and there is no `{COMMAND}` on PATH: type `pip install sglang`, or "
        "add the directory that it is in to `env.PATH`"
    )
