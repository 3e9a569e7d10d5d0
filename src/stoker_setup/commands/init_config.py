"""The text of a first stoker.toml: what was found, with a comment at each choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stoker.cli.console.figures import size
from stoker.cli.machine.serve_plan import CONTEXT, PARALLEL, GpuSlot, MachineInventory, PlannedServe, gpu_slots
from stoker.engines.record import Weights
from stoker.engines.registry import DEFAULT, those
from stoker_setup.adding import comment, quote
from stoker_setup.clients.needs import AGENT_CONTEXT

_MEDIA = (
    "# Requests may give images by their address; without this, clients have to send the images themselves:",
    "# [media]",
    "# fetch = true                # from public hosts; `hosts = [...]` names those allowed",
    "",
)


def config_text(found: MachineInventory, port: int, planned: Sequence[PlannedServe]) -> str:
    """A configuration that `stoker config check` accepts. `planned`: what `plan_serves` found."""
    slots = gpu_slots(found.gpus)
    parts = [
        head_text(found, port),
        *_serves(found, planned, slots[0].name if slots else "cpu"),
        *_other_engines(found),
    ]
    return "\n".join(parts).rstrip() + "\n"


def head_text(found: MachineInventory, port: int) -> str:
    """All of it but the serves."""
    parts = [
        "# Stoker's configuration. Check it: stoker config check. Every key: docs/reference/configuration.md",
        "# Run it: stoker up --config THIS_FILE; then point clients at the URL that it prints.",
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
        *_slots(gpu_slots(found.gpus), found.in_main_memory),
        "[swap]",
        "patience = 2                  # higher: fewer swaps; lower: shorter waits (in measured swap times)",
        'drain_timeout = "30s"         # how long running requests may take to end before their model stops',
        "",
        *_MEDIA,
    ]
    return "\n".join(parts)


def _slots(slots: list[GpuSlot], in_main_memory: Sequence[str]) -> list[str]:
    if not slots:
        found, where = "No GPU was found", "on the CPU"
        if in_main_memory:
            which = comment(", ".join(in_main_memory))
            found, where = "No GPU with memory of its own was found", f"in main memory, on {which} or the CPU"
        return [f"# {found}: models run {where}, one at a time.", "[slots.cpu]", "devices = []", ""]
    lines = []
    for name, word, gpu in slots:
        known = f", {size(gpu.memory)}" if gpu.memory else ""
        named = f"devices = [{word if isinstance(word, int) else quote(word)}]"
        lines += [
            f"[slots.{name}]               # one model at a time; with `memory`, as many as fit",
            f"{named:<29}# {comment(gpu.name)}{known}, {comment(gpu.uuid)}",
        ]
        if gpu.memory is None:
            lines += ['# Its driver does not show its memory: say what each serve may take, as `memory = "12GiB"`.']
        lines += [""]
    return lines


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
            lines += [f"engine = {quote(DEFAULT.name)}          # {DEFAULT.program} from PATH, else the embedded one"]
        origin = f", from {comment(serve.model.origin)}" if serve.model.origin else ""
        lines += [f"model = {quote(_reference(serve.model.path, found.vault))}   # {size(serve.model.size)}{origin}"]
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
    of_folders = those(lambda engine: engine.weights is Weights.FOLDER)
    if not any(engine.name in of_folders for engine in found.engines):
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


def _reference(path: Path, vault: Path) -> str:
    if path.parent == vault:
        return f"vault:{path.name}"
    return str(path)
