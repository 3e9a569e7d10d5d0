"""What an engine prints about itself while it starts, as facts: how much cache it has, and where the time went.

kv_tokens       tokens that its KV cache holds, of all requests together
full_contexts   requests of the whole context that it holds at once
load_s, compile_s, graph_s    seconds for the weights, for compiling, for capturing graphs
devices         what it computes with: PCI addresses of devices (llama.cpp), else `cuda`, `xpu` or `cpu`
"""

from __future__ import annotations

import re
from pathlib import Path

from stoker.engines.record import Facts

_MOST = 4 * 2**20
"""Bytes of the output of one start."""
_CACHE = re.compile(r"(?:GPU KV cache size: |max_total_num_tokens=)([\d,]{1,20})")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]{1,20}) tokens per request: ([\d.]{1,12})x")
_SECONDS = {
    "load_s": re.compile(
        r"Model loading took [^\n]{1,40} and ([\d.]{1,12}) sec|Load weight end\. elapsed=([\d.]{1,12}) ?s"
    ),
    "compile_s": re.compile(r"torch\.compile (?:takes|took) ([\d.]{1,12}) s in total"),
    "graph_s": re.compile(
        r"Graph capturing finished in ([\d.]{1,12}) sec|Capture cuda graph end\. Time elapsed: ([\d.]{1,12}) s"
    ),
}


PROCESSOR = "cpu"
_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_USING = re.compile(rf"using device (\S{{1,40}}) \([^\n]{{0,200}}\) \(({_ADDRESS}|unknown id)\) - \d+ MiB free")
"""llama.cpp, `llama_prepare_model_devices` (src/llama.cpp): name, description, PCI address, free memory."""
_NO_GPU = "no usable GPU found"
"""llama.cpp (common/arg.cpp), if it was asked to use one; some builds print it before they look."""
_VLLM = re.compile(r"device_config=(cuda|xpu|cpu)\b")
"""`VllmConfig.__str__` (vllm/config/vllm.py)."""
_SGLANG, _SGLANG_DEVICE = re.compile(r"ServerArgs\([^\n]*"), re.compile(r"\bdevice='(cuda|xpu|cpu)'")
"""The line of its `ServerArgs`, and what of it counts."""


def devices(log: str) -> str:
    """What the engine says that it computes with, as the fact `devices`; empty: it does not say, or not of all."""
    places = [place for name, place in _USING.findall(log) if name != "CPU"]
    if places:
        return "" if "unknown id" in places else ", ".join(dict.fromkeys(place.lower() for place in places))
    if _NO_GPU in log and "using device" not in log:
        return PROCESSOR
    arguments = _SGLANG.search(log)
    found = _VLLM.search(log) or (_SGLANG_DEVICE.search(arguments[0]) if arguments is not None else None)
    return found[1] if found is not None else ""


def capacity(log: str, context: int | None) -> tuple[int | None, float | None]:
    """(tokens of cache, requests of `context` tokens at once), as vLLM or SGLang print them. None: it does not say."""
    sizes = _CACHE.findall(log)
    tokens = int(sizes[-1].replace(",", "")) if sizes else None
    for length, figure in reversed(_CONCURRENCY.findall(log)):
        if context is None or int(length.replace(",", "")) == context:
            return tokens, float(figure)
    return tokens, round(tokens / context, 2) if tokens is not None and context else None


def facts_of(log: str, context: int | None = None, served: Facts | None = None) -> Facts:
    """From the output of a start; of llama.cpp from what it says over HTTP (`served`). Missing values are left out."""
    tokens, requests = capacity(log, context)
    served = served or {}
    slots, own = served.get("total_slots"), served.get("n_ctx")
    if tokens is None and isinstance(slots, int) and isinstance(own, int):
        tokens, requests = slots * own, float(slots)
    facts: Facts = {}
    if said := devices(log):
        facts["devices"] = said
    if tokens is not None:
        facts["kv_tokens"] = tokens
    if requests is not None:
        facts["full_contexts"] = requests
    for name, pattern in _SECONDS.items():
        if found := pattern.findall(log):
            last = found[-1]
            number = last if isinstance(last, str) else next(filter(None, last))
            facts[name] = float(number.rstrip("."))
    return facts


def read(path: Path | None, start: int) -> str:
    """The output of the start that begins at byte `start`; empty where it cannot be read. Blocks for milliseconds."""
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
