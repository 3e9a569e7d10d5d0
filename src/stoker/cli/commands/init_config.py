"""The text of a first stoker.toml: what was found, with a comment at each choice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.cli.commands.serves_experiment import slug
from stoker.cli.console.figures import size
from stoker.cli.machine.discover import Gpu, InstalledEngine, ModelFile


@dataclass(frozen=True, slots=True)
class MachineInventory:
    """What `init` works from. `demo`: the models are the shipped ones, because no other was found."""

    gpus: Sequence[Gpu]
    models: Sequence[ModelFile]
    engines: Sequence[InstalledEngine]
    vault: Path
    demo: bool = False


def config_text(found: MachineInventory, port: int) -> str:
    """A configuration that `stoker config check` accepts."""
    slots = [(f"gpu{gpu.index}", gpu) for gpu in found.gpus]
    names = [name for name, _ in slots] or ["cpu"]
    parts = [
        "# Stoker's configuration. Check it: stoker config check. Every key: docs/reference/configuration.md",
        "# Run it:  stoker up --config THIS_FILE   then point clients at the URL that it prints.",
        "",
        "[front_door]",
        'host = "127.0.0.1"            # for other machines: "0.0.0.0", with keys:',
        f"port = {port}",
        '# keys = [{ name = "me", value = "env:STOKER_KEY", scope = "admin" }]',
        "",
        "[paths]",
        f"vault = {quote(str(found.vault))}   # `vault:NAME.gguf` is a file in this directory",
        "placement = false   # true: weights and caches have to be in the vault",
        "",
        *_slots(slots),
        "[swap]",
        "patience = 2                  # higher: fewer swaps; lower: shorter waits (in measured swap times)",
        'drain_timeout = "30s"         # how long running requests may take to end before their model stops',
        "",
        *_serves(found, names),
        *_later(found),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _slots(slots: list[tuple[str, Gpu]]) -> list[str]:
    if not slots:
        return ["# No GPU was found: models run on the CPU, one at a time.", "[slots.cpu]", "devices = []", ""]
    lines = []
    for name, gpu in slots:
        known = f", {size(gpu.memory)}" if gpu.memory else ""
        lines += [
            f"[slots.{name}]               # one model at a time; with `memory`, as many as fit",
            f"devices = [{gpu.index}]                # {_comment(gpu.name)}{known}, {_comment(gpu.uuid)}",
            "",
        ]
    return lines


def _serves(found: MachineInventory, slots: list[str]) -> list[str]:
    lines = ["# No GGUF file was found: these two tiny models come with Stoker."] if found.demo else []
    if not found.models:
        lines += [
            "# No GGUF file was found. Put one into the vault, then:",
            "# [[serve]]",
            '# name = "mine"',
            '# model = "vault:FILE.gguf"',
            f'# slot = "{slots[0]}"',
            "",
        ]
    names: set[str] = set()
    for place, model in enumerate(found.models):
        name = _unused(slug(model.path.name), names)
        names.add(name)
        lines += ["[[serve]]", f"name = {quote(name)}"]
        if place == 0:
            lines += ['engine = "llama.cpp"          # llama-server from PATH, else the embedded one']
        lines += [f"model = {quote(_reference(model.path, found.vault))}   # {size(model.size)}"]
        lines += [f"slot = {quote(slots[place % len(slots)])}"]
        if place == 0:
            lines += [
                "context = 4096                # tokens that one request may use",
                "parallel = 2                  # requests at once; memory grows with context x parallel",
                '# aliases = ["gpt-4o-mini"]   # further names that clients may use',
                '# idle_unload = "10m"         # stop the model after 10 minutes without a request',
            ]
        else:
            lines += ["context = 4096", "parallel = 2"]
        lines += [""]
    return lines


def _later(found: MachineInventory) -> list[str]:
    if not any(engine.name in ("vllm", "sglang") for engine in found.engines):
        return []
    return [
        "# Any other server with an OpenAI-like API, by its own command:",
        "# [[serve]]",
        '# name = "big"',
        '# engine = "openai"',
        '# model = "ORGANISATION/MODEL"',
        '# served_name = "big"',
        '# cmd = "vllm serve {model} --served-name big --host {host} --port {port}"',
    ]


def quote(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False)


def _reference(path: Path, vault: Path) -> str:
    if path.parent == vault:
        return f"vault:{path.name}"
    return str(path)


def _unused(name: str, taken: set[str]) -> str:
    if name not in taken and not name.startswith("auto"):
        return name
    return next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
