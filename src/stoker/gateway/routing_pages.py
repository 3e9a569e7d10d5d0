"""What each tier is trusted with, and why: GET /admin/routing."""

from __future__ import annotations

import asyncio
from typing import Any

from stoker.domain.errors import ClientError
from stoker.domain.routing import includes_class
from stoker.domain.run import Fingerprint
from stoker.domain.spending import cloud_costs
from stoker.domain.tier import Demotion, ProfileRow, Tier
from stoker.gateway.flow import Flow
from stoker.routing.router import TierRouter
from stoker.store.decisions import DecisionLog
from stoker_lab.routing_report import report, verdicts_of
from stoker_lab.statistics.stats import wilson

CONSIDERED = 10_000
"""Of the newest decisions, for what routing saved."""


class RoutingPages:
    def __init__(self, flow: Flow, decisions: DecisionLog) -> None:
        self._flow = flow
        self._decisions = decisions

    async def document(self) -> dict[str, Any]:
        """`classes`, `cells` (one for each tier and class), and `report`, as `stoker decisions --routes --json` has it.

        Raises ClientError 404 without tiers.
        """
        dispatcher = self._flow.settings.dispatcher
        if dispatcher is None:
            text = "no tiers are configured: add [[tier]] to the configuration, then `stoker reload`"
            raise ClientError(text, code="no_tiers", status=404)
        router = dispatcher.router
        clouds, live = cloud_costs(router.settings), list(router.tier_quality.grades.values())
        quality = router.tier_quality
        verdicts = verdicts_of(
            quality.rows, [row for key, row in quality.grades.items() if not quality.grade_problem(key)]
        )
        recorded = await asyncio.to_thread(self._decisions.recent, CONSIDERED)
        return {
            "classes": [
                {"name": name, "high_risk": name in router.settings.high_risk,
                 "specialist": router.settings.specialist(name)}
                for name in router.settings.known
            ],
            "cells": [
                _cell(router, tier, name) for name in router.settings.known for tier in router.settings.tiers
            ],
            "report": await asyncio.to_thread(report, recorded, clouds, verdicts, live),
        }  # fmt: skip


def _cell(router: TierRouter, tier: Tier, task_class: str) -> dict[str, Any]:
    """One tier at one class. `state` is what people want to know first: `allow`, `allow-with-verify`, `deny`, `stale`,
    `not-measured`, `not-its-class`, or `no-cloud`.
    """
    quality, key = router.tier_quality, (tier.name, task_class)
    found = router.standing(tier, task_class)
    row, live = quality.rows.get(key), quality.grades.get(key)
    now = quality.fingerprints.get(tier.serve)
    if not includes_class(task_class, tier.classes):
        state = "not-its-class"
    elif tier.cloud and router.cloud_exclusion(task_class, may_use_cloud=True):
        state = "no-cloud"
    elif found.is_stale:
        state = "stale"
    elif row is None and live is None:
        state = "not-measured"
    else:
        state = found.verdict.value
    demotion = quality.demotions.get(key) if quality.is_demoted(key, tier.serve) else None
    return {
        "tier": tier.name, "class": task_class, "state": state, "verdict": found.verdict.value, "why": found.why,
        "checks": tier.mode(task_class).value, "measured": _evidence(row, now), "live": _evidence(live, now),
        "live_problem": quality.grade_problem(key), "contradiction": found.contradiction,
        "became_worse": quality.is_suspect(key), "demotion": _demotion(demotion),
    }  # fmt: skip


def _evidence(row: ProfileRow | None, now: Fingerprint | None) -> dict[str, Any] | None:
    """`low`, `high`: the share of right answers, at 95 %. `is_current`: measured on what runs now; None: unknown."""
    if row is None:
        return None
    bounds = wilson(row.passed, row.n)
    mark = (row.identity, row.execution)
    is_current = None if now is None else bool(row.identity) and mark == (now.identity, now.execution)
    return {
        "n": row.n, "passed": row.passed, "verdict": row.verdict.value, "low": bounds.low, "high": bounds.high,
        "latency": row.latency, "source": row.source, "dataset": row.dataset, "at": row.at or None,
        "identity": row.identity, "execution": row.execution, "is_current": is_current,
    }  # fmt: skip


def _demotion(found: Demotion | None) -> dict[str, Any] | None:
    return None if found is None else {"checks": list(found.checks), "at": found.at}
