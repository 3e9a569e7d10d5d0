"""What a serve's engine makes of it: the command line, and what stands in the way of a start."""

from __future__ import annotations

from stoker.domain.serve import SUSPENDED, Serve
from stoker.engines import backends, options, own_command, weight_files
from stoker.engines.launch import Launch, LaunchPlace
from stoker.engines.record import Engine, Weights
from stoker.engines.registry import engine_of


def plan(serve: Serve, place: LaunchPlace) -> Launch:
    """How to start a process serve: its own `cmd`, or its engine's. Call it only when `problems` finds nothing."""
    engine = _engine(serve)
    return own_command.launch(serve, place) if engine is None or engine.launch is None else engine.launch(serve, place)


def problems(serve: Serve) -> list[str]:
    """What is missing on this machine for such a start: one sentence each. Takes milliseconds, touches nothing."""
    engine = _engine(serve)
    if engine is None or engine.launch is None:
        return own_command.problems(serve)
    refused = engine.refused_name(serve.served_name or serve.name)
    of_weights = {Weights.GGUF: weight_files.problems, Weights.FOLDER: weight_files.directory_problems}
    return [
        *engine.missing(serve),
        *([refused] if refused else []),
        *(of_weights[engine.weights](serve) if engine.weights in of_weights else []),
        *weight_files.problems_beside(serve),
        *([serve.context_problem] if serve.context_problem else []),
        *options.template_problems(serve, engine),
        *([] if "attention_backend" in engine.choices else backends.problems(serve)),
        *unsupported(serve),
    ]


def unsupported(serve: Serve) -> list[str]:
    """Settings of the serve that its engine does not support: one sentence each. Pure, for `config check`."""
    engine = _engine(serve)
    if engine is None or engine.launch is None:
        return []
    lacking = [*options.unsupported(serve, engine), *engine.unsupported(serve)]
    if engine.listed_as is not None and serve.served_name not in ("", engine.listed_as(serve.model)):
        lacking.append(
            f"serve '{serve.name}': {engine.title} names its model itself: remove `served_name`, and write "
            f"'{serve.served_name[:64]}' into `aliases`"
        )
    if engine.sleep is not None and serve.sleep_level not in (None, SUSPENDED, *engine.sleep.sleep):
        levels = " or ".join(f"`sleep_level = {level}`" for level in (*engine.sleep.sleep, SUSPENDED))
        lacking.append(
            f"serve '{serve.name}': engine {engine.title} has no sleep level {serve.sleep_level}: write {levels}"
        )
    return lacking


def cautions(serve: Serve) -> list[str]:
    """What works but is probably not meant: one sentence each. Pure."""
    engine, name = _engine(serve), serve.served_name or serve.name
    found = []
    if "/" in name and not serve.aliases and not serve.makes_media:
        short = name[:64].rpartition("/")[2]
        found.append(f"Claude Code cannot ask for '{name[:64]}', which has a slash: add '{short}' to `aliases`")
    return found if engine is None else [*found, *engine.cautions(serve)]


def _engine(serve: Serve) -> Engine | None:
    """None: it has its own command."""
    return None if serve.cmd is not None else engine_of(serve.engine)
