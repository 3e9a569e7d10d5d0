"""The embedded engine: llama.cpp and its HTTP server (the xllamacpp wheel) in a process of its own.

`python -m stoker.engines.embedded -m MODEL --port PORT ...`; it accepts some of llama-server's options. Only the
standard library is imported before the engine, because each import slows down every swap.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from stoker.system.processes import end_with_parent

KEY_VARIABLE = "STOKER_ENGINE_KEY"
_REFUSED = 2
_FAILED = 1
_LOG_LAG = 0.2
_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")
_SAMPLERS: dict[str, tuple[str, str, type[int] | type[float]]] = {
    "--temp": ("temp", "TEMP", float),
    "--top-k": ("top_k", "TOP_K", int),
    "--top-p": ("top_p", "TOP_P", float),
    "--min-p": ("min_p", "MIN_P", float),
    "--repeat-penalty": ("penalty_repeat", "PENALTY_REPEAT", float),
}
"""Option -> llama.cpp's field, its flag for "set by the user", and its type."""


class _Refused(Exception):
    """The command line cannot be used."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


def refusal(extra_args: Sequence[str]) -> str | None:
    """Why the embedded engine does not take these `extra_args`; None if it does."""
    try:
        option_parser().parse_args(["-m", "x", "--port", "1", *extra_args])
    except _Refused as refused:
        return _advice(str(refused))
    return None


def _advice(problem: str) -> str:
    from stoker.domain.nearest import nearest

    meant = [near for word in problem.split() if word.startswith("--") and (near := nearest(word, taken_options()))]
    similar = f" (it takes {', '.join(dict.fromkeys(meant))})" if meant else ""
    return (
        f"{problem}{similar}; what the embedded engine takes: stoker docs embedded engine options; "
        "a `llama-server` on PATH takes all of llama.cpp's options"
    )


def taken_options() -> list[str]:
    """Those that a serve may pass on, by their long names."""
    actions = option_parser()._actions
    return [action.option_strings[-1] for action in actions if action.option_strings and action.help]


def option_parser() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    ours = parser.add_argument
    ours("-m", "--model", required=True)
    ours("--alias", default="")
    ours("--host", default="127.0.0.1")
    ours("--port", type=int, required=True)
    ours("--parent", type=int, default=None)
    ours("--metrics", action="store_true")
    ours("--no-slots", dest="slots", action="store_false", default=False)
    ours("--jinja", action="store_true")  # no effect: templates are always Jinja here
    ours("-np", "--parallel", type=int, default=1, help="sequences at once")
    ours("-c", "--ctx-size", type=int, default=0, help="context of all sequences together")
    ours("-t", "--threads", type=int, default=None, help="threads")
    ours("-ngl", "--n-gpu-layers", type=int, default=None, help="layers on the GPU")
    ours("-b", "--batch-size", type=int, default=None, help="tokens per logical batch")
    ours("-ub", "--ubatch-size", type=int, default=None, help="tokens per physical batch")
    ours("--embedding", "--embeddings", action="store_true", help="serve embeddings")
    ours("--rerank", "--reranking", action="store_true", help="serve reranking")
    ours("--pooling", choices=("none", "mean", "cls", "last", "rank"), default=None, help="pooling of embeddings")
    ours("--slots", action="store_true", help="GET /slots")
    ours("--slot-save-path", default="", help="where KV caches may be saved")
    ours("--cache-ram", type=int, default=64, help="MiB of prompt cache")
    ours("-ctk", "--cache-type-k", choices=_CACHE_TYPES, default=None, help="type of the KV cache's keys")
    ours("-ctv", "--cache-type-v", choices=_CACHE_TYPES, default=None, help="type of the KV cache's values")
    ours("-md", "--model-draft", default=None, help="a draft model")
    ours("--spec-type", choices=("draft-mtp",), default=None, help="the model's own layers predict further tokens")
    ours("--mmproj", default=None, help="the projector of a model that reads images or sound")
    ours("--lora", action="append", default=[], help="an adapter; may be repeated")
    ours("-fa", "--flash-attn", choices=("on", "off", "auto"), default="auto", help="flash attention")
    ours("--no-cache-prompt", dest="cache_prompt", action="store_false", help="forget prompts")
    ours("--chat-template", default=None, help="a chat template by its name")
    ours("--chat-template-file", default=None, help="a chat template")
    ours("--reasoning", choices=("on", "off", "auto"), default="auto", help="thinking before the answer")
    ours("--reasoning-format", choices=_FORMATS, default=None, help="where thinking goes")
    for option, (_, _, kind) in _SAMPLERS.items():
        ours(option, type=kind, default=None, help="sampling where a request names none")
    ours("--no-warmup", dest="warmup", action="store_false", help="no empty run before ready")
    ours("--sleep-idle-seconds", type=int, default=None, help="seconds of idleness before the engine sleeps")
    return parser


def main(words: Sequence[str]) -> int:
    """Serve until a signal. 1: the engine failed; 2: options that cannot be used. The last line printed says why."""
    # Whatever we inherited: SIGTERM ends this process at once, also while weights are being read. Stoker has drained
    # it by then, and llama.cpp's own shutdown may wait for connections that a client keeps open.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        options = option_parser().parse_args(words)
    except _Refused as refused:
        return _say(_REFUSED, _advice(str(refused)))
    if options.parent is not None and not end_with_parent(options.parent):
        return _say(_FAILED, "the Stoker that started this engine has ended")
    try:
        import xllamacpp
    except ImportError as error:
        fix = "apt install libgomp1" if "libgomp" in str(error) else "pip install xllamacpp"
        return _say(_FAILED, f"xllamacpp cannot be imported ({error}): type `{fix}`")
    try:
        server = xllamacpp.Server(engine_parameters(xllamacpp, options))  # returns once it listens
    except OSError as error:
        return _say(_FAILED, f"{error.filename} cannot be read: {error.strerror}")
    except RuntimeError:
        # llama.cpp writes its log from a thread that cannot be joined; exiting at once would lose the last lines.
        time.sleep(_LOG_LAG)
        return _say(_FAILED, f"llama.cpp could not serve {options.model} on port {options.port}: the reason is above")
    while server is not None:
        signal.pause()
    return 0


def engine_parameters(xllamacpp: Any, options: argparse.Namespace) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    if options.alias:
        params.model_alias = {options.alias}
    params.hostnames = [options.host]
    params.port = options.port
    params.n_parallel = options.parallel
    params.n_ctx = options.ctx_size
    params.cache_ram_mib = options.cache_ram
    params.warmup = options.warmup
    params.endpoint_metrics = options.metrics
    params.endpoint_slots = options.slots
    params.slot_save_path = options.slot_save_path
    params.embedding = options.embedding or options.rerank
    if options.threads is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    for option, field in (
        (options.n_gpu_layers, "n_gpu_layers"),
        (options.batch_size, "n_batch"),
        (options.ubatch_size, "n_ubatch"),
        (options.sleep_idle_seconds, "sleep_idle_seconds"),
    ):
        if option is not None:
            setattr(params, field, option)
    params.cache_prompt = options.cache_prompt
    for kind, field in ((options.cache_type_k, "cache_type_k"), (options.cache_type_v, "cache_type_v")):
        if kind is not None:
            setattr(params, field, getattr(xllamacpp.ggml_type, f"GGML_TYPE_{kind.upper()}"))
    attention = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[options.flash_attn]
    params.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{attention}")
    _set_companions(xllamacpp, params, options)
    _set_sampling(xllamacpp, params, options)
    _set_chat(xllamacpp, params, options)
    pooling = options.pooling or ("rank" if options.rerank else None)
    if pooling is not None:
        params.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{pooling.upper()}")
    key = os.environ.pop(KEY_VARIABLE, None)
    if key:
        params.api_keys = [key]
    return params


def _set_companions(xllamacpp: Any, params: Any, options: argparse.Namespace) -> None:
    """The files that are loaded with the model."""
    kinds = xllamacpp.common_speculative_type
    if options.model_draft is not None:
        params.speculative.draft.mparams.path = options.model_draft
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    elif options.spec_type is not None:
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_MTP]
        params.load_mtp = True
    if options.mmproj is not None:
        params.mmproj.path = options.mmproj
    adapters = []
    for path in options.lora:
        adapter = xllamacpp.CommonAdapterLoraInfo()
        adapter.path, adapter.scale = path, 1.0
        adapters.append(adapter)
    if adapters:
        params.lora_adapters = adapters


def _set_sampling(xllamacpp: Any, params: Any, options: argparse.Namespace) -> None:
    """Marks options as set by the user: the model's own recommendations replace all others."""
    for option, (field, mark, _) in _SAMPLERS.items():
        value = getattr(options, option.strip("-").replace("-", "_"))
        if value is not None:
            setattr(params.sampling, field, value)
            bit = getattr(xllamacpp.common_params_sampling_config, f"COMMON_PARAMS_SAMPLING_CONFIG_{mark}")
            params.sampling.user_sampling_config |= int(bit)


def _set_chat(xllamacpp: Any, params: Any, options: argparse.Namespace) -> None:
    """Raises OSError for a template that cannot be read."""
    if options.chat_template_file is not None:
        with open(options.chat_template_file, encoding="utf-8") as file:
            params.chat_template = file.read()
    elif options.chat_template is not None:
        params.chat_template = options.chat_template
    if options.reasoning != "auto":
        params.enable_reasoning = int(options.reasoning == "on")
        params.default_template_kwargs = {"enable_thinking": "true" if options.reasoning == "on" else "false"}
    if options.reasoning_format is not None:
        name = options.reasoning_format.upper().replace("-", "_")
        params.reasoning_format = getattr(xllamacpp.common_reasoning_format, f"COMMON_REASONING_FORMAT_{name}")


def _say(code: int, sentence: str) -> int:
    sys.stdout.flush()
    print(f"stoker embedded engine: {sentence}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    # Past the destructors of the engine, which may wait for their threads.
    os._exit(main(sys.argv[1:]))
