"""Two serves loaded together on one GPU, by their memory; a third that has no place beside them."""

from __future__ import annotations

from functools import partial

from bench.gpu.stage import Figures, Skipped, Stage
from bench.swap import calls
from bench.swap.plane import Plane

CLIENT_ERRORS = (RuntimeError, OSError)


def share(stage: Stage) -> None:
    """The slot's memory is what the first two were measured to hold, and half of the third's file: it does not fit."""
    found = stage.models()
    if len(found) < 3:
        raise Skipped("three models are needed, and not all were written")
    paths = [path for _, path in found]
    serves = [stage.llama(f"model{number}", path, 'memory = "1MiB"') for number, path in enumerate(paths)]
    with stage.plane(serves) as plane:  # alone, to measure them
        sizes = []
        for number in (0, 1):
            plane.switch(f"model{number}")
            size = stage.measured(plane, f"model{number}")
            if size is None:
                raise Skipped("nobody reports how much memory an engine holds")
            sizes.append(size)
    room = (sum(sizes) + paths[2].stat().st_size // 2) // 2**20
    third = f'memory = "{paths[2].stat().st_size // 2**20}MiB"'
    serves[2] = stage.llama("model2", paths[2], third)
    with stage.plane(serves, slot=f'memory = "{room}MiB"') as plane:
        stage.attempt("two loaded together", partial(_together, stage, plane))
        stage.attempt("a third one comes", partial(_third, stage, plane))


def _together(stage: Stage, plane: Plane) -> tuple[Figures, str]:
    """Requests by turns: both stay loaded, and none fails."""
    for name in ("model0", "model1"):
        plane.switch(name)
        stage.measured(plane, name)
    before, failed = plane.swaps(), 0
    for number in range(stage.plan.changes):
        try:
            plane.first_token(f"model{number % 2}")
        except CLIENT_ERRORS:
            failed += 1
    loaded = sum(plane.serve(name)["state"] == "ready" for name in ("model0", "model1"))
    held = sum(stage.measured(plane, name) or 0 for name in ("model0", "model1"))
    figures = {"loaded_together": loaded, "requests": stage.plan.changes, "failed_requests": failed}
    return {**figures, "swaps": plane.swaps() - before, "held_gb": held / 1e9}, stage.computes_on


def _third(stage: Stage, plane: Plane) -> tuple[Figures, str]:
    """It answers, and whoever has no place beside it is stopped."""
    first = calls.chat(plane.port, "model2", plane.key).first
    left = [name for name in ("model0", "model1") if plane.serve(name)["state"] != "ready"]
    if not left:
        raise RuntimeError("all three are loaded, and their memory is more than the slot's")
    return {"stopped": len(left), "first_token_s": first}, stage.computes_on
