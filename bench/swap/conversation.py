"""Swapping back to a long conversation: what a saved KV cache saves, and what saving costs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench import engines
from bench.engines import EngineSetup
from bench.swap import calls
from bench.swap.plane import Plane

LETTERS = 8_000
"""Of the first message: about as many tokens, since the weights know only letters."""


class Seen(msgspec.Struct, frozen=True):
    """One turn, as `calls.Turn`."""

    first: float
    prompt: int
    read: int


class Round(msgspec.Struct, frozen=True):
    """One conversation: a turn, a turn, a swap away, a swap back for the third turn."""

    cold: Seen
    """Its first turn: all of it is read."""
    loaded: Seen
    """Its second, with the KV cache where it was."""
    back: Seen
    """Its third, which the serve was loaded for: stopping the other and the load are in the time."""
    stop: float
    """Seconds of the swap away that stopping took, saving included."""
    file: int | None
    """Bytes on disk; None: nothing is kept."""


class Case(msgspec.Struct, frozen=True):
    """All rounds, with conversations kept or not."""

    title: str
    kept: bool
    rounds: list[Round]


def measure(kind: EngineSetup, folder: Path, rounds: int, kept: bool, say: Callable[[str], None]) -> Case:
    """Every round is a new conversation. Raises RuntimeError or calls.Failed if something does not come up."""
    dice = random.Random(11)
    with Plane(kind, folder, engines.HYSTERESIS_OFF) as plane:
        plane.first_token("b")  # not counted: files come from disk
        seen = []
        for number in range(rounds):
            say(f"conversation {'kept' if kept else 'not kept'}: round {number + 1} of {rounds}")
            plane.switch("a")
            seen.append(_round(plane, folder, _words(dice), kept))
        return Case(kind.title, kept, seen)


def _round(plane: Plane, folder: Path, words: str, kept: bool) -> Round:
    messages = [{"role": "user", "content": words}]
    before = _files(folder)
    turns = []
    for question in ("And then?", "And what else?"):
        turns.append(plane.turn("a", messages))
        messages += [{"role": "assistant", "content": "So it was."}, {"role": "user", "content": question}]
    away = plane.switch("b")
    back = plane.turn("a", messages)
    written = [size for path, size in _files(folder).items() if path not in before]
    cold, loaded = (_seen(turn) for turn in turns)
    return Round(cold, loaded, _seen(back), float(away["phases"]["stop"]), max(written, default=None))


def _seen(turn: calls.Turn) -> Seen:
    return Seen(*turn)


def _files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (folder / "state" / "conversations").rglob("*.kv")}


def _words(dice: random.Random) -> str:
    letters = dice.choices("abcdefghijklmnopqrstuvwxyz     ", k=LETTERS)
    return "".join(letters)
