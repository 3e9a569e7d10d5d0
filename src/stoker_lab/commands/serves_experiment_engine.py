"""How an experiment runs a model that an engine fetches from the hub, or that runs in a container. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.cli.console.errors import UsageError
from stoker.engines.record import Weights
from stoker.engines.registry import engine_of, those

FETCHED_WITHIN = 4 * 3600.0
"""Seconds until ready: the engine downloads the weights first."""
_HUB_CACHE = ".cache/huggingface"


@dataclass(frozen=True, slots=True)
class ExperimentCommand:
    """`cmd` and `stop` of the serve. None: as the engine's adapter does it."""

    cmd: tuple[str, ...] | None = None
    stop: tuple[str, ...] | None = None


def check_engine(engine: str | None, cmd: str | None, container: str | None) -> None:
    """Raises UsageError for options that do not go together."""
    engines = those(lambda one: one.in_container)
    if engine is not None and engine not in engines:
        raise UsageError(f"--engine {engine}: not known; one of {', '.join(engines)}, or a command with --cmd")
    if cmd is not None and (engine or container):
        raise UsageError("--cmd says how to start the server itself: leave out --engine and --container")
    if container is not None and engine is None:
        raise UsageError(f"--container {container}: say which engine it holds: --engine {'|'.join(engines)}")


def find_weights(model: str, engine: str | None) -> str:
    """The absolute path of weights on this machine, or the hub's id as it is given. Raises UsageError."""
    path = Path(model.removeprefix("file:")).expanduser().absolute()
    if path.is_file() or (path.is_dir() and engine is not None and engine_of(engine).weights is Weights.FOLDER):
        return str(path)
    if is_hub_id(model) and engine is not None:
        return model
    if is_hub_id(model):
        engines = "|".join(those(lambda one: one.in_container))
        advice = f"for a model of the hub add --engine {engines}, or give the server's command with --cmd"
    else:
        advice = "name a GGUF file, a model of the hub (ORG/REPO), or give the server's command with --cmd"
    raise UsageError(f"--model {model}: there is no such file; {advice}")


def is_hub_id(model: str) -> bool:
    """Whether it reads as ORG/REPO, or ORG/REPO:QUANTIZATION."""
    return model.count("/") == 1 and not model.startswith((".", "~", "/")) and not model.endswith((".gguf", "/"))


def command(
    engine: str, model: str, name: str, plain: str, context: int, parallel: int, image: str | None,
    devices: Sequence[str],
) -> ExperimentCommand:  # fmt: skip
    """`model`: what `find_weights` found. `plain`: a name that a container can have. `devices`: options of
    `docker run` that give the container its GPUs.
    """
    if image is not None:
        container = f"stoker-experiment-{plain}"
        words = ["docker", "run", "--rm", "--name", container, *devices, "--ipc=host", *_mounts(model)]
        if (in_container := engine_of(engine).in_container) is not None:
            words += in_container(image, model, name, context, parallel)
        return ExperimentCommand(tuple(words), ("docker", "rm", "--force", container))
    from_hub = engine_of(engine).from_hub
    if from_hub is not None and not os.path.isabs(model):
        return ExperimentCommand(tuple(from_hub(model, name, context, parallel)))
    return ExperimentCommand()


def _mounts(model: str) -> list[str]:
    if os.path.isabs(model):
        folder = model if os.path.isdir(model) else os.path.dirname(model)
        return ["-v", f"{folder}:{folder}:ro"]
    return ["-v", f"{Path.home() / _HUB_CACHE}:/root/{_HUB_CACHE}"]
