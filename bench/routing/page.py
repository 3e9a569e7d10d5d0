"""The part of bench/routing.md that is made by the bench. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.routing import report
from bench.routing.figures import RoutingFigures
from bench.routing.routing_stoker import COSTS

BEGIN, END = "<!-- bench.routing -->", "<!-- /bench.routing -->"
EMPTY = f"# Routing\n\n## What routing saves, and what it costs\n\n{BEGIN}\n{END}\n"


def put(text: str, block: str) -> str:
    """`text` with `block` between the two marks. Raises ValueError if they are not there, once each and in order."""
    before, mark, rest = text.partition(BEGIN)
    _, other, after = rest.partition(END)
    if not mark or not other or BEGIN in rest or END in after:
        raise ValueError(f"the page wants the marks {BEGIN} and {END}, once each")
    return f"{before}{BEGIN}\n{block.strip()}\n{END}{after}"


def block(all_figures: Sequence[RoutingFigures], picture: str = "") -> str:
    """Markdown: a section for each set of tiers. No date and no machine: quality does not depend on them. `picture`: a
    file beside the page.
    """
    first = all_figures[0]
    costs = ", ".join(f"{name} {cost.input:g} / {cost.output:g}" for name, cost in COSTS.items())
    head = (
        f"Made by `python -m bench.routing --n {first.n} --seed {first.seed}`. A million tokens in / out cost: {costs}."
    )
    shown = [f"![Quality over cost: the curve, and where each policy lies]({picture})"] if picture else []
    return "\n\n".join([head, *shown, *(section(one) for one in all_figures)])


def section(figures: RoutingFigures) -> str:
    """The texts between the tables say what these hold; what they mean is for the page to say."""
    parts = (
        f"### Tiers: {', '.join(figures.tiers)}",
        report.reached_table(figures),
        "**The tiers.** Passed at the suites and the verdict that follows, then the share that was right on the "
        "paired set. The cloud's suite row is for the static table only: it is in no profile.",
        report.tiers_table(figures),
        "**The policies.** In brackets 95 % intervals by resampling fixtures, paired.",
        report.policies_table(figures),
        "**Class by class.**",
        report.classes_table(figures.classes),
        "**The curve.** Each class goes to the cheapest local tier whose lower bound in the profile (Wilson, 95 %) is "
        "at least a threshold, else to the cloud. The threshold goes from 0 (all to the cheapest) to above 1 (all to "
        "the cloud); between two of them lies every mix by chance.",
        report.curves_table(figures.curves),
        f"AIQ: {', '.join(f'{name} {value:.4f}' for name, value in figures.aiq.items())}.",
    )
    return "\n\n".join(parts)
