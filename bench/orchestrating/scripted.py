"""Planted faults: which of them reach the client, and how long the answer takes with and without overlap."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import NamedTuple

from bench.figures import table
from bench.orchestrating.blocks import KINDS, WORD, Fault, plant
from bench.orchestrating.plane import ScriptedPlane
from bench.orchestrating.plants import plants
from bench.routing.resample import Figure, figure

SHARE = 0.2
CHECKED = "check_names = true"
NO_NAMES = 'check_names = false\nvalidator = "validator"'

TASK = "Write a Python function for a shop, and a query for its orders."


class FaultCount(NamedTuple):
    """Faults of one kind."""

    planted: int = 0
    with_checks: int = 0
    """Of these, those that reached the client although blocks were checked."""
    without: int = 0
    """Those that reached it under the policy `simple`."""


def count_faults(folder: Path, requests: int, seed: int) -> dict[str, FaultCount]:
    """By kind. Raises RuntimeError for a request that fails."""
    counts = dict.fromkeys(KINDS, FaultCount())
    rng = Random(seed)
    with ScriptedPlane(folder, {"pair": CHECKED}) as plane:
        for _ in range(requests):
            faults = plant(rng, SHARE)
            answers = []
            for policy in ("block_by_block", "simple"):
                plane.script(faults)
                answer = plane.ask("pair", policy)
                if not answer.is_complete:
                    raise RuntimeError(f"{policy}: status {answer.status}: {answer.received[-300:]}")
                answers.append(answer.text)
            for fault in faults.values():
                counts[fault.kind] = _counted(counts[fault.kind], fault, *answers)
    return counts


def _counted(count: FaultCount, fault: Fault, checked: str, simple: str) -> FaultCount:
    reached = [WORD in checked, fault.text in simple]
    return FaultCount(count.planted + 1, count.with_checks + reached[0], count.without + reached[1])


class PlantCount(NamedTuple):
    """Plants of one kind, and the same blocks without the fault."""

    planted: int = 0
    reached: int = 0
    """Answers whose faulty block reached the client."""
    refused: int = 0
    """Blocks without the fault that were refused."""


def count_plants(folder: Path) -> dict[str, PlantCount]:
    """By kind. The worker writes the same block each time; what ends in an error reached nobody."""
    counts: dict[str, PlantCount] = {}
    with ScriptedPlane(folder, {"pair": f"{CHECKED}\nretries = 0"}) as plane:
        for plant in plants():
            passed = []
            for text in (plant.wrong, plant.right):
                plane.script_one(plant.fence, text)
                answer = plane.ask("pair", task=TASK)
                passed.append(answer.is_complete and text.strip() in answer.text)
            count = counts.get(plant.kind, PlantCount())
            counts[plant.kind] = PlantCount(
                count.planted + 1, count.reached + passed[0], count.refused + (not passed[1])
            )
    return counts


def show_plants(counts: dict[str, PlantCount]) -> str:
    rows = [[kind, *map(str, count)] for kind, count in counts.items()]
    rows.append(["all", *(str(sum(column)) for column in zip(*counts.values(), strict=True))])
    return table(["fault", "planted", "reached the client", "right blocks refused"], rows)


class OverlapTimes(NamedTuple):
    """Pairs of seconds, with overlap and without, and what the first of them wasted."""

    pairs: list[tuple[float, float]]
    wasted: list[tuple[int, int]]
    """Tokens that were thrown away."""

    def speed_up(self, seed: int) -> Figure:
        """The geometric mean of how many times faster overlap is."""
        return figure([self.pairs], lambda drawn: geometric_mean(b / a for a, b in drawn), Random(seed))


def time_overlap(folder: Path, pairs: int, share: float, seconds: float, seed: int) -> OverlapTimes:
    """`seconds`: of one block, and of one verdict. The two are asked in turn, the first one changes."""
    rng = Random(seed)
    found, wasted = [], []
    keys = {"ahead": NO_NAMES, "plain": f"{NO_NAMES}\noverlap = false"}
    with ScriptedPlane(folder, keys) as plane:
        plane.script({})
        for name in keys:
            plane.ask(name)
        for turn in range(pairs):
            faults = plant(rng, share) if share else {}
            faults = {number: fault for number, fault in faults.items() if fault.kind != "import"}
            took = {}
            for name in sorted(keys, reverse=bool(turn % 2)):
                plane.script(faults, seconds, seconds)
                answer = plane.ask(name)
                if not answer.is_complete or any(fault.text in answer.text for fault in faults.values()):
                    raise RuntimeError(f"{name}: status {answer.status}, or a fault reached the client")
                took[name] = answer
            found.append((took["ahead"].seconds, took["plain"].seconds))
            records = plane.decisions(2)
            ahead, plain = (records[took[name].request]["wasted_tokens"] for name in ("ahead", "plain"))
            wasted.append((ahead, plain))
    return OverlapTimes(found, wasted)


def show_faults(counts: dict[str, FaultCount]) -> str:
    rows = [[kind, *map(str, count)] for kind, count in counts.items()]
    rows.append(["all", *(str(sum(column)) for column in zip(*counts.values(), strict=True))])
    return table(["fault", "planted", "reached the client with checks", "without"], rows)


def show_overlap(times: dict[str, OverlapTimes], seed: int) -> str:
    rows = []
    for name, one in times.items():
        speed = one.speed_up(seed)
        ahead, plain = zip(*one.pairs, strict=True)
        waste, plain_waste = (sum(column) / len(one.wasted) for column in zip(*one.wasted, strict=True))
        rows.append(
            [
                name, str(len(one.pairs)), f"{sum(ahead) / len(ahead):.2f}", f"{sum(plain) / len(plain):.2f}",
                _interval(speed), f"{min(b / a for a, b in one.pairs):.2f}", f"{waste:.0f}", f"{plain_waste:.0f}",
            ]
        )  # fmt: skip
    head = ["", "pairs", "overlap, s", "plain, s", "times faster (95 %)", "worst pair", "wasted tokens", "plain"]
    return table(head, rows)


def _interval(seen: Figure) -> str:
    if seen.value is None or seen.low is None or seen.high is None:
        return "-"
    return f"{seen.value:.2f} ({seen.low:.2f} to {seen.high:.2f})"
