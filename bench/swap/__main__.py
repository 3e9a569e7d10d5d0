"""`python -m bench.swap [--quick] [--only phases|alternate | --conversation] [--rounds N] [--json FILE]`"""

from __future__ import annotations

import argparse
import http.client
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from bench import engines, machine, weights
from bench.engines import EngineSetup
from bench.processes import end_on_sigterm
from bench.swap import alternate, conversation, phases, report
from bench.swap.alternate import Alternation
from bench.swap.conversation import Case
from bench.swap.phases import Phases

LONG_LOAD = 5.0
SWAP = 3.0
SERVICE = 0.2


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.swap",
        description="What a swap costs beyond the engine's own time, and what hysteresis saves.",
        epilog="Run it on an idle machine. About twelve minutes, most of it without hysteresis. 1 if anything failed.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="under a minute: one round, 4 requests per client, swap 0.5 s: no figures"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", choices=("phases", "alternate"), help="one half of it")
    which.add_argument(
        "--conversation", action="store_true", help="instead: swapping back to a conversation of 8,000 tokens; 3 min"
    )
    parser.add_argument(
        "--rounds", type=int, help="of the phases: default 7 (3 for the 5 s load), of the conversation 5; --quick: 1"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    return parser.parse_args(argv)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


Found = TypeVar("Found")


class _Bench:
    """Runs the parts one by one; what fails is kept and the rest goes on."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self._folder = folder
        self._quick = quick
        self.failed: list[str] = []
        self.phases: list[Phases] = []
        self.alternations: list[Alternation] = []
        self.conversations: list[Case] = []
        self._llama: EngineSetup | None = None
        try:
            found, about = weights.find(folder)
            self._llama = engines.llama(found, about)
        except ModuleNotFoundError as error:
            self.failed.append(f"llama.cpp: no shipped models, and none can be written: {error}")

    def measure_phases(self, rounds: int | None) -> None:
        short = 1 if self._quick else None
        plan = [(engines.scripted(LONG_LOAD, 0.0), rounds or short or 3)]
        if self._llama is not None:
            plan.insert(0, (self._llama, rounds or short or 7))
        for kind, times in plan:
            folder = self._folder / f"phases-{kind.name}"
            with_switch = not self._quick or bool(kind.weights)
            self._keep(kind, partial(phases.measure, kind, folder, times, with_switch, _say), self.phases)

    def alternate(self) -> None:
        for kind, requests, deadline in self._alternations():
            for swap in (engines.HYSTERESIS_ON, engines.HYSTERESIS_OFF):
                folder = self._folder / f"alternate-{kind.name}-{'off' if swap else 'on'}"
                work = partial(alternate.run, kind, folder, requests, swap, deadline, _say)
                self._keep(kind, work, self.alternations)

    def converse(self, rounds: int | None) -> None:
        """Random weights: whether a cache is restored does not depend on what the model says."""
        pair = (self._folder / "long-a.gguf", self._folder / "long-b.gguf")
        try:
            for seed, path in enumerate(pair):
                weights.write_random(path, seed, weights.LONG)
        except ModuleNotFoundError as error:
            self.failed.append(f"conversation: its weights cannot be written: {error}")
            return
        for keep in (False, True):
            kind = engines.talking(pair, keep)
            work = partial(
                conversation.measure, kind, self._folder / kind.name, rounds or (1 if self._quick else 5), keep, _say
            )
            self._keep(kind, work, self.conversations)

    def _alternations(self) -> Iterator[tuple[EngineSetup, int, float]]:
        requests = 4 if self._quick else 50
        yield engines.scripted(0.5 if self._quick else SWAP, SERVICE), requests, 600.0
        if self._llama is not None and not self._quick:
            yield self._llama, requests, 300.0

    def _keep(self, kind: EngineSetup, work: Callable[[], Found], into: list[Found]) -> None:
        try:
            into.append(work())
        except (RuntimeError, OSError, KeyError, StopIteration, http.client.HTTPException) as error:
            self.failed.append(f"{kind.title}: {type(error).__name__}: {error}")
            _say(f"failed: {self.failed[-1]}")


def main(argv: Sequence[str] | None = None) -> int:
    found = _arguments(argv)
    end_on_sigterm()
    facts = machine.facts()
    if (warning := machine.warning(facts)) is not None:
        _say(warning)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        bench = _Bench(Path(folder), found.quick)
        if found.conversation:
            bench.converse(found.rounds)
        else:
            if found.only != "alternate":
                bench.measure_phases(found.rounds)
            if found.only != "phases":
                bench.alternate()
    seconds = time.monotonic() - began
    bench.failed += [failure for one in bench.alternations for failure in one.failures]
    verdicts = [] if found.quick else report.verdicts(bench.phases, bench.alternations)
    if found.json is not None:
        raw = {"machine": facts, "quick": found.quick, "seconds": seconds, "phases": bench.phases}
        raw |= {
            "alternations": bench.alternations,
            "conversations": bench.conversations,
            "failed": bench.failed,
            "verdicts": [v._asdict() for v in verdicts],
        }
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    print(machine.headline(facts))
    _print(bench, seconds, found.quick, report.render_verdicts(verdicts))
    return 1 if bench.failed else 0


def _print(bench: _Bench, seconds: float, quick: bool, verdicts: str) -> None:
    print(f"{seconds:.0f} s; median (lowest to highest){'; --quick: a check of the bench, not figures' * quick}\n")
    for one in bench.phases:
        print(report.render_phases(one) + "\n")
    if bench.alternations:
        print(report.render_alternations(bench.alternations) + "\n")
    if bench.conversations:
        print(report.render_conversations(bench.conversations) + "\n")
    print(verdicts)
    for failure in bench.failed:
        print(f"FAILED {failure}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
