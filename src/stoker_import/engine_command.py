"""Recognises the commands of llama.cpp, vLLM and SGLang, and reads the options that Stoker has keys for. Pure.

All other options are kept: recognising a command never changes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LLAMA_SERVER = "llama-server"
_CONTAINERS = ("docker", "podman")
_IMAGES = {"llama.cpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang"}
"""Part of an image's name -> engine."""
_ALONE = frozenset((
    "--rm", "--init", "-d", "--detach", "-i", "-t", "-it", "--interactive", "--tty", "--privileged", "--read-only",
    "-P", "--publish-all", "--no-healthcheck", "--sig-proxy", "--oom-kill-disable", "--replace",
))  # fmt: skip
"""Options of `docker run` that have no value."""


class EngineWord(NamedTuple):
    """One option of an engine's command line, and its value, if it has one."""

    option: str
    value: str | None
    at: int
    """The index of the option among the command's words."""


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """What a command says about its engine. None: it does not say."""

    engine: str
    """`llama.cpp`, `vllm` or `sglang`."""
    first: int
    """The index of the engine's first argument among the command's words."""
    is_container: bool = False
    model: str | None = None
    served_name: str | None = None
    context: int | None = None
    """Tokens: for llama.cpp of all sequences together, for other engines of one."""
    parallel: int | None = None
    key: EngineWord | None = None
    """The option that holds the engine's API key."""
    words: tuple[EngineWord, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """`embeddings`, `reranking`, `mmproj`: what it answers, by its options."""


_MODEL = {
    "llama.cpp": ("-m", "--model"), "vllm": ("--model",), "sglang": ("--model-path", "--model"),
}  # fmt: skip
_NAME = {
    "llama.cpp": ("-a", "--alias"), "vllm": ("--served-model-name",), "sglang": ("--served-model-name",),
}  # fmt: skip
_CONTEXT = {
    "llama.cpp": ("-c", "--ctx-size"), "vllm": ("--max-model-len",), "sglang": ("--context-length",),
}  # fmt: skip
_PARALLEL = {
    "llama.cpp": ("-np", "--parallel"), "vllm": ("--max-num-seqs",), "sglang": ("--max-running-requests",),
}  # fmt: skip
_UNITS = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
"""A number in vLLM's notation, where 32k and 32K differ."""


def recognise(words: Sequence[str]) -> EngineCommand | None:
    """The engine that the command starts; None if Stoker does not know it."""
    if not words:
        return None
    program = re.split(r"[/\\]", words[0])[-1]
    if program in (LLAMA_SERVER, f"{LLAMA_SERVER}.exe"):
        return _read("llama.cpp", words, 1, False)
    if program == "vllm" and words[1:2] == ["serve"]:
        return _read("vllm", words, 2, False)
    if re.fullmatch(r"python[0-9.]*", program) and words[1:2] == ["-m"] and len(words) > 2:
        modules = {"vllm.entrypoints.openai.api_server": "vllm", "sglang.launch_server": "sglang"}
        if words[2] in modules:
            return _read(modules[words[2]], words, 3, False)
    if program in _CONTAINERS and "run" in words[1:3]:
        return _container(words)
    return None


def _container(words: Sequence[str]) -> EngineCommand | None:
    """A container: its image's name tells the engine, and its arguments are the engine's."""
    place = list(words).index("run") + 1
    while place < len(words) and words[place].startswith("-"):
        option = words[place]
        place += 1 if "=" in option or option in _ALONE else 2
    if place >= len(words):
        return None
    image = words[place]
    engine = next((engine for part, engine in _IMAGES.items() if part in image), None)
    return None if engine is None else _read(engine, words, place + 1, True)


def _read(engine: str, words: Sequence[str], first: int, is_container: bool) -> EngineCommand:
    options = tuple(_options(words, first))
    model = _last(options, _MODEL[engine])
    if engine == "vllm" and model is None and first < len(words) and not words[first].startswith("-"):
        model = words[first]
    name = _last(options, _NAME[engine])
    facts = {
        fact: True
        for fact, names in (("embeddings", ("--embedding", "--embeddings")), ("reranking", ("--reranking", "--rerank")),
                            ("mmproj", ("--mmproj", "-mm")))
        if any(option.option in names for option in options)
    }  # fmt: skip
    return EngineCommand(
        engine,
        first,
        is_container,
        model,
        name.split(",")[0] if name else None,
        _count(_last(options, _CONTEXT[engine])),
        _count(_last(options, _PARALLEL[engine])),
        next((option for option in options if option.option == "--api-key" and option.value), None),
        options,
        facts,
    )


def _options(words: Sequence[str], first: int) -> Iterator[EngineWord]:
    """`--option VALUE`, `--option=VALUE` and `--option`; a negative number is a value."""
    for at in range(first, len(words)):
        word = words[at]
        if not re.match(r"--?[A-Za-z]", word):
            continue
        option, equals, value = word.partition("=")
        if equals:
            yield EngineWord(option, value, at)
            continue
        after = words[at + 1] if at + 1 < len(words) else "-"
        yield EngineWord(word, None if re.match(r"--?[A-Za-z]", after) or after == "-" else after, at)


def _last(options: Sequence[EngineWord], names: Sequence[str]) -> str | None:
    return next((option.value for option in reversed(options) if option.option in names), None)


def _count(text: str | None) -> int | None:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKmM]?)", text or "")
    if found is None:
        return None
    return int(float(found[1]) * _UNITS.get(found[2], 1)) or None


def exact_llama_keys(command: EngineCommand, words: Sequence[str]) -> dict[str, Any] | None:
    """The keys of a `[[serve]]` without `cmd` that start the same engine; None if no keys can.

    Stoker always passes `-np`, and `-c` for all sequences together, to llama.cpp, so the command must have `-np`. The
    program has to be `llama-server` on PATH: another one can only be named in a `cmd`.
    """
    is_plain = words[0] == LLAMA_SERVER and command.engine == "llama.cpp" and not command.is_container
    if not is_plain or command.model is None or command.parallel is None or command.key is not None:
        return None
    if command.context is not None and command.context % command.parallel:
        return None
    if ".." in command.model.split("/"):
        return None  # a key has no `..`, and behind a symbolic link that is another file
    keys: dict[str, Any] = {"engine": "llama.cpp", "model": command.model}
    if command.context is not None:
        keys["context"] = command.context // command.parallel
    keys["parallel"] = command.parallel
    by_option = {option.at: option for option in command.words}
    consumed: set[int] = set()
    for option in command.words:
        key = _TYPED.get(option.option)
        if key is None:
            continue
        if key in ("threads", "gpu_layers"):
            if not re.fullmatch(r"[0-9]+", option.value or ""):
                continue
            keys[key] = int(option.value or 0)
        elif key == "host":
            keys[key] = option.value
        consumed |= {option.at, option.at + 1} if "=" not in words[option.at] else {option.at}
    rest = [word for at, word in enumerate(words) if at >= command.first and at not in consumed]
    if any(at < command.first or option.option in ("-hf", "-hfr", "--hf-repo") for at, option in by_option.items()):
        return None
    return {**keys, **({"extra_args": rest} if rest else {})}


_TYPED = {
    "-m": "model", "--model": "model", "-c": "context", "--ctx-size": "context", "-np": "parallel",
    "--parallel": "parallel", "-a": "served_name", "--alias": "served_name", "--port": "port", "--host": "host",
    "-t": "threads", "--threads": "threads", "-ngl": "gpu_layers", "--gpu-layers": "gpu_layers",
    "--n-gpu-layers": "gpu_layers",
}  # fmt: skip
"""Options that become keys; all others become `extra_args`."""
