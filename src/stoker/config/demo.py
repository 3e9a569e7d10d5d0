"""The settings of `stoker up --demo`: two tiny models that take turns in one slot, and an orchestrator."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from stoker.config.build import SPOKEN
from stoker.domain.access import CompatPaths, FrontDoor, Paths, Settings, WarmPool
from stoker.domain.orchestrator import Orchestrator
from stoker.domain.serve import Serve, Slot

_ALIASES = {
    "spark": ("gpt-4o-mini", "claude-haiku-demo"),
    "ember": ("gpt-4o", "claude-sonnet-demo"),
}
SLOT = "demo"


def demo(state: Path, port: int, models: Path | None = None) -> Settings:
    """Loopback without keys on `port`, everything under `state`; the weights are package data, or lie in `models`.

    Reads no file. The engines stop with Stoker.
    """
    state = state.absolute()
    folder = Path(str(resources.files("stoker") / "models")) if models is None else models.absolute()
    return Settings(
        front_door=FrontDoor(port=port),
        paths=Paths(state=str(state), logs=str(state / "logs"), vault=str(state / "vault")),
        slots=(Slot(name=SLOT),),
        serves=tuple(_serve(name, folder / f"{name}.gguf", state) for name in _ALIASES),
        orchestrators=(Orchestrator(name="pair", worker="ember", check_names=False),),
        compat=CompatPaths(llama_swap=True, llama_cpp=True),
        warm=WarmPool(0),  # a megabyte needs no keeping
    )


def _serve(name: str, weights: Path, directory: Path) -> Serve:
    return Serve(
        name=name,
        model=str(weights),
        served_name=name,
        aliases=_ALIASES[name],
        slot=SLOT,
        context=2048,
        parallel=4,
        max_active=4,
        queue_timeout=30.0,
        ready_timeout=60.0,
        threads=1,
        purpose="shows that Stoker works",
        dialects=SPOKEN["llama.cpp"],
        directory=str(directory),
        embedded=None,
        die_with_parent=True,
        extra_args=("--temp", "0"),  # tiny models answer right when nothing is left to chance
    )
