"""`python -m bench.routing [--n 1500] [--seed 7] [--quick] [--suites DIR] [--json FILE] [--page FILE]`"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import machine
from bench.processes import end_on_sigterm
from bench.routing import answers, asking, cloud, figures, page, paired, policies, report
from bench.routing.asking import Cell
from bench.routing.place import CLOUD, COSTS, Place
from stoker.domain.tier import Row
from stoker.measure.suites.fixture import Fixture

WRONG = 0.05
"""Of each class, what the cloud answers wrongly."""
QUICK = 120


class Seen(msgspec.Struct):
    """Everything that was asked."""

    asked: list[list[Cell]]
    """By tier, in the order of the fixtures."""
    routed: dict[str, list[Cell]]
    rows: list[Row]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.routing",
        description="What routing by measured quality saves, and what it costs in quality.",
        epilog="1 if a figure is missed.",
    )
    parser.add_argument("--n", type=int, default=report.LEAST_FIXTURES, help="fixtures of the paired set")
    parser.add_argument("--seed", type=int, default=7, help="of the fixtures, the cloud's mistakes and the intervals")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK} fixtures: to see that it runs")
    parser.add_argument("--suites", type=Path, metavar="DIR", help="make the profile of these fixtures, not the shipped")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables between the marks of this page")
    return parser.parse_args(argv)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def see(fixtures: list[Fixture], seed: int, suites: Path | None) -> Seen:
    """A profile first, then every fixture to every tier, then both ways through the router."""
    shipped = paired.shipped()
    mistaken = answers.mistaken(fixtures, WRONG, seed) | answers.mistaken(shipped, WRONG, seed)
    book = cloud.book([*shipped, *fixtures], mistaken)
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        cloud.Cloud(book) as sky,
        Place(Path(folder), sky.port) as place,
    ):
        _say("bootstrap of the local tiers")
        rows = place.bootstrap(suites)
        rows += figures.as_rows(asking.ask_tier(place, CLOUD, shipped))
        asked = [asking.ask_tier(place, tier, fixtures) for tier in COSTS]
        routed = {way: asking.ask_auto(place, fixtures, declares=way == figures.DECLARED) for way in figures.WAYS}
    return Seen(asked, routed, rows)


def main(argv: Sequence[str] | None = None) -> int:
    given = _arguments(argv)
    end_on_sigterm()
    facts = machine.facts()
    fixtures = paired.paired(QUICK if given.quick else given.n, given.seed, paired.shipped())
    seen = see(fixtures, given.seed, given.suites)
    found = figures.found(policies.pairs(seen.asked, seen.routed), seen.rows, given.seed)
    if given.json is not None:
        document = {"machine": facts, "found": found, "seen": seen}
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))
    if given.page is not None:
        before = given.page.read_text() if given.page.exists() else page.EMPTY
        given.page.write_text(page.put(before, page.block(found)))
    print(f"{machine.headline(facts)}\n\n{report.shown(found)}")
    return 0 if all(is_so for *_, is_so in report.reached(found)) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
