"""`python -m bench.routing [--n 1500] [--seed 7] [--quick] [--suites DIR] [--json FILE] [--from FILE] [--page FILE]`"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import machine
from bench.processes import end_on_sigterm
from bench.routing import answers, asking, cloud, figures, page, paired, picture, policies, report
from bench.routing.asking import Cell
from bench.routing.figures import RoutingFigures
from bench.routing.routing_stoker import CLOUD, COSTS, LOCAL, RoutingStoker
from stoker.domain.tier import ProfileRow
from stoker_lab.suites.fixture import Fixture

WRONG = 0.05
"""Of each class, what the cloud answers wrongly."""
QUICK = 120


SETTINGS = (LOCAL, LOCAL[:1])
"""Local tiers beside the cloud: both models; and the weak one alone, where the cloud is needed."""


class RawAnswers(msgspec.Struct):
    """Everything that was asked."""

    asked: dict[str, list[Cell]]
    """By tier, in the order of the fixtures."""
    routed: list[dict[str, list[Cell]]]
    """For each of SETTINGS, by way of asking."""
    rows: list[ProfileRow]
    """Of all tiers, by the suites."""


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.routing",
        description="What routing by measured quality saves, and what it costs in quality.",
        epilog="1 if a figure is missed.",
    )
    parser.add_argument("--n", type=int, default=report.MIN_FIXTURES, help="fixtures of the paired set")
    parser.add_argument("--seed", type=int, default=7, help="of the fixtures, the cloud's mistakes and the intervals")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK} fixtures: to see that it runs")
    parser.add_argument(
        "--suites", type=Path, metavar="DIR", help="make the profile of these fixtures, not the shipped"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="earlier", help="ask nothing: the figures of an earlier run's --json"
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="put the tables between the marks of this page, and the curve beside it",
    )
    return parser.parse_args(argv)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def ask_all(fixtures: list[Fixture], seed: int, suites: Path | None) -> RawAnswers:
    """A profile first, then every fixture to every tier, then through the router; that once more without ember."""
    shipped = paired.shipped()
    mistaken = answers.mistaken(fixtures, WRONG, seed) | answers.mistaken(shipped, WRONG, seed)
    raw = RawAnswers({}, [], [])
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        cloud.Cloud(cloud.book([*shipped, *fixtures], mistaken)) as sky,
    ):
        for local in SETTINGS:
            with RoutingStoker(Path(folder) / "-".join(local), sky.port, local) as stoker:
                _say(f"bootstrap of {' and '.join(local)}")
                rows = stoker.bootstrap(suites)
                if not raw.asked:
                    raw.rows += rows
                    raw.rows += figures.as_rows(asking.ask_tier(stoker, CLOUD, shipped))
                    raw.asked |= {tier: asking.ask_tier(stoker, tier, fixtures) for tier in COSTS}
                ways = {way: asking.ask_auto(stoker, fixtures, way == figures.DECLARED) for way in figures.WAYS}
                raw.routed.append(ways)
    return raw


def figures_by_setting(raw: RawAnswers, seed: int) -> list[RoutingFigures]:
    """The figures of each setting."""
    return [
        figures.routing_figures(policies.pairs(raw.asked.values(), ways), raw.rows, (*local, CLOUD), seed)
        for local, ways in zip(SETTINGS, raw.routed, strict=True)
    ]


class Document(msgspec.Struct):
    """What `--json` writes, and `--from` reads."""

    machine: dict[str, Any]
    figures: list[RoutingFigures] = msgspec.field(name="found")
    raw: RawAnswers | None = msgspec.field(default=None, name="seen")


def write(path: Path, all_figures: list[RoutingFigures]) -> None:
    """The page, and the picture that it shows: beside it, by its name."""
    before = path.read_text() if path.exists() else page.EMPTY
    path.with_suffix(".svg").write_text(picture.picture(all_figures))
    path.write_text(page.put(before, page.block(all_figures, path.with_suffix(".svg").name)))


def run(given: argparse.Namespace) -> Document:
    """Everything asked anew."""
    end_on_sigterm()
    facts = machine.facts()
    fixtures = paired.paired(QUICK if given.quick else given.n, given.seed, paired.shipped())
    raw = ask_all(fixtures, given.seed, given.suites)
    _say("intervals")
    return Document(facts, figures_by_setting(raw, given.seed), raw)


def main(argv: Sequence[str] | None = None) -> int:
    given = _arguments(argv)
    if given.earlier is not None:
        document = msgspec.json.decode(given.earlier.read_bytes(), type=Document)
    else:
        document = run(given)
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))
    if given.page is not None:
        write(given.page, document.figures)
    print("\n\n".join([machine.headline(document.machine), *(report.shown(one) for one in document.figures)]))
    return 0 if all(is_so for one in document.figures for *_, is_so in report.reached(one)) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
