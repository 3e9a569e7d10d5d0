"""`stoker decisions --routes`: what routing did, by class and tier."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stoker.cli.console import figures, terminal
from stoker.domain.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.cli.console.installation import Installation
    from stoker.domain.decision import Decision
    from stoker.domain.tier import Cost, ProfileRow
    from stoker_auto.routing_report import SilentFailures, TierRoute, Verdicts

UNGRADED = "not measured: no answer was graded (see [router.shadow], and `routing.shadow` in /status)"
UNMEASURED = "unmeasured"
_COLUMNS = ("CLASS", "TIER", "TRIED", "FIRST", "ANSWERED", "RATE (95 %)", "ESCALATED", "REPAIRS", "COST", "SAVED",
            "FINDINGS")  # fmt: skip
_RIGHT = ("TRIED", "FIRST", "ANSWERED", "RATE (95 %)", "ESCALATED", "REPAIRS", "COST", "SAVED")


def print_routes(installation: Installation, found: list[Decision], json: bool) -> None:
    from stoker.store.profile import configured_rows
    from stoker_auto.commands.live_grades import live_grades, uncounted_grades
    from stoker_auto.routing_report import report, verdicts_of
    from stoker_auto.spending import cloud_costs

    router = None if installation.settings is None else installation.settings.router
    clouds = cloud_costs(router)
    rows, spent = live_grades(installation)
    live, judged = list(rows.values()), spent.amount_on(time.time())
    try:
        measured = configured_rows(router, installation.state)
    except ConfigError as error:
        terminal.note(f"stoker: {error.message}; nothing counts as measured here")
        measured = {}
    uncounted = uncounted_grades(installation, rows)
    verdicts = verdicts_of(measured, [row for key, row in rows.items() if key not in uncounted])
    if json:
        terminal.emit(report(found, clouds, verdicts, live, judged))
    else:
        show(found, clouds, verdicts, live, judged, installation.place)
        if uncounted:
            where = ", ".join(f"{tier} at {task_class}" for tier, task_class in sorted(uncounted))
            terminal.note(f"grades of {where} do not count; why: stoker profile show{installation.place}")


def show(
    decisions: Sequence[Decision],
    clouds: Sequence[Cost],
    verdicts: Verdicts,
    live: Sequence[ProfileRow] = (),
    judged_today: float = 0.0,
    place: str = "",
) -> None:
    """`clouds`: the rates of the cloud tiers; none, and nothing is saved against them. `live`: what was graded.
    `place`: the options that lead to the same Stoker.
    """
    from stoker_auto.routing_report import (
        count_routed,
        count_untried,
        silent_failures_by_class,
        tier_routes,
        total_route,
        total_silent_failures,
    )  # fmt: skip

    rows = tier_routes(decisions, clouds, verdicts)
    if not rows:
        terminal.say("no routed requests are recorded yet")
        terminal.note(f'requests for the model "auto" or "auto:CLASS" are routed; try it: stoker route "PROMPT"{place}')
        return
    whole = total_route(rows)
    terminal.table(_COLUMNS, [*map(_cells, rows), ("all", *_cells(whole)[1:])], right=_RIGHT)
    untried = count_untried(decisions)
    none = f"; {untried} of them {'was' if untried == 1 else 'were'} sent to no tier" if untried else ""
    terminal.say(f"\n{count_routed(decisions)} of {len(decisions)} recorded requests were routed{none}")
    classes = silent_failures_by_class(live)
    terminal.say(f"silent failures  {_wrong(total_silent_failures(classes.values()))}")
    for name, one in classes.items() if len(classes) > 1 else ():
        terminal.say(f"  {name:<15}{_wrong(one)}")
    if whole.unmeasured:
        terminal.say(
            f"unmeasured       {whole.unmeasured} of {whole.first} first tries: nobody knows how good these answers "
            f"were; measure the tiers: stoker eval bootstrap{place}"
        )
    terminal.say(f"saved            {_saved_text(whole)}")
    terminal.say(
        f"other costs      subtracted: escalations {_money(whole.escalations)}, repairs about "
        f"{_money(whole.repaired)}; not subtracted: judging today {_money(judged_today)}, and suites (not recorded)"
    )


def _wrong(one: SilentFailures) -> str:
    if one.rate is None:
        return UNGRADED
    low, high = one.interval
    return f"{one.wrong} of {figures.counted(one.graded, 'graded answer')} wrong: {one.rate:.3f} ({low:.3f}-{high:.3f})"


def _cells(row: TierRoute) -> tuple[str, ...]:
    rate = UNMEASURED if row.unmeasured else figures.UNKNOWN
    if row.accept_rate is not None:
        rate = f"{row.accept_rate:.2f} ({row.accept_interval.low:.2f}-{row.accept_interval.high:.2f})"
    found = ", ".join(f"{check} {count}" for check, count in sorted(row.findings.items(), key=lambda one: -one[1]))
    return (
        row.task, row.tier, str(row.requests), str(row.first), str(row.accepted), rate, str(row.escalated),
        str(row.repairs), _money(row.cost), _money(row.saved), found or figures.UNKNOWN,
    )  # fmt: skip


def _money(value: float | None) -> str:
    return figures.UNKNOWN if value is None else f"{value:.4g}"


def _saved_text(whole: TierRoute) -> str:
    if whole.unmeasured == whole.first and whole.first:
        return "unknown: nothing was measured at these classes"
    if whole.saved is None or whole.always_cloud is None:
        return (
            "unknown: no tier of this configuration is a cloud, no answering tier has an allow, or no tokens are known"
        )
    return (
        f"{_money(whole.saved)} of the {_money(whole.always_cloud)} that the most expensive cloud tier would have cost"
    )
