"""The text of a first stoker.toml: what was found, with a comment at each choice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.cli.clients.needs import AGENT_CONTEXT
from stoker.cli.commands.serves_experiment import slug
from stoker.cli.console.figures import size
from stoker.cli.machine.discover import Gpu, InstalledEngine, ModelFile

PARALLEL = 2
CONTEXT = 4096
"""Tokens, for a model whose context cannot be computed."""


_MEDIA = (
    "# Requests may give images by their address; without this, clients have to send the images themselves:",
    "# [media]",
    "# fetch = true                # from public hosts; `hosts = [...]` names those allowed",
    "",
)


@dataclass(frozen=True, slots=True)
class MachineInventory:
    """What `init` works from. `demo`: the models are the shipped ones, because no other was found."""

    gpus: Sequence[Gpu]
    models: Sequence[ModelFile]
    engines: Sequence[InstalledEngine]
    vault: Path
    demo: bool = False
    unusable: Sequence[Path] = ()
    """Files that are no GGUF files, though they are named so."""


@dataclass(frozen=True, slots=True)
class PlannedServe:
    """One `[[serve]]` of the file."""

    name: str
    model: ModelFile
    slot: str
    context: int | None = None
    """None: none could be computed. `problem` says why."""
    trained: int | None = None
    problem: str = ""


def plan_serves(found: MachineInventory) -> list[PlannedServe]:
    """A serve for each model, each with the largest context that fits. Reads the models' headers."""
    from stoker.domain.serve import Serve, Slot
    from stoker.fleet.memory.device import Device
    from stoker.fleet.memory.fit.auto_context import choose_context
    from stoker.fleet.memory.host import host_memory

    devices = [Device(gpu.index, gpu.uuid, gpu.name, gpu.vendor, gpu.memory, gpu.memory) for gpu in found.gpus]
    slots = [Slot(name, (str(gpu.index),)) for name, gpu in _slot_names(found)] or [Slot("cpu")]
    main = host_memory()
    names: set[str] = set()
    planned = []
    for place, model in enumerate(found.models):
        name, slot = _unused(slug(model.path.name), names), slots[place % len(slots)]
        names.add(name)
        serve = Serve(name, model=str(model.path), slot=slot.name, parallel=PARALLEL, auto_context=True)
        choice = choose_context(serve, slot, devices, main)
        planned.append(PlannedServe(name, model, slot.name, choice.context, choice.trained, choice.problem))
    return planned


def config_text(found: MachineInventory, port: int, planned: Sequence[PlannedServe]) -> str:
    """A configuration that `stoker config check` accepts. `planned`: what `plan_serves` found."""
    slots = _slot_names(found)
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
        *_MEDIA,
        *_serves(found, planned, slots[0][0] if slots else "cpu"),
        *_other_engines(found),
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


def _slot_names(found: MachineInventory) -> list[tuple[str, Gpu]]:
    return [(f"gpu{gpu.index}", gpu) for gpu in found.gpus]


def _serves(found: MachineInventory, planned: Sequence[PlannedServe], slot: str) -> list[str]:
    lines = ["# No GGUF file was found: these two tiny models come with Stoker."] if found.demo else []
    if not planned:
        lines += [
            "# No GGUF file was found. Put one into the vault, then:",
            "# [[serve]]",
            '# name = "mine"',
            '# model = "vault:FILE.gguf"',
            f'# slot = "{slot}"',
            '# context = "auto"             # the largest that fits',
            "",
        ]
    for place, serve in enumerate(planned):
        lines += ["[[serve]]", f"name = {quote(serve.name)}"]
        if place == 0:
            lines += ['engine = "llama.cpp"          # llama-server from PATH, else the embedded one']
        lines += [f"model = {quote(_reference(serve.model.path, found.vault))}   # {size(serve.model.size)}"]
        lines += [f"slot = {quote(serve.slot)}", *_context(serve)]
        if place == 0:
            lines += [
                '                              # "auto" computes it again whenever Stoker starts',
                f"parallel = {PARALLEL}                  # requests at once; memory grows with context x parallel",
                '# aliases = ["gpt-4o-mini"]   # further names that clients may use',
                '# idle_unload = "10m"         # stop the model after 10 minutes without a request',
            ]
        else:
            lines += [f"parallel = {PARALLEL}"]
        lines += [""]
    return lines


def _context(serve: PlannedServe) -> list[str]:
    """The line of the context, and why it has this value."""
    if serve.context is None:
        why = f"a guess: see `stoker fit {serve.name}`"
        return [f"context = {CONTEXT:<20}# tokens that one request may use; {why}"]
    if serve.context == serve.trained:
        why = "all that the model was trained for"
    else:
        why = f"the most that fit, of {serve.trained} that the model was trained for"
    few = serve.context < AGENT_CONTEXT
    agents = [f"                              # coding agents need about {AGENT_CONTEXT} or more"] if few else []
    return [f"context = {serve.context:<20}# tokens that one request may use: {why}", *agents]


def _other_engines(found: MachineInventory) -> list[str]:
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
