"""What each tier is trusted with, and why; how a prompt would be routed; and aliases that move: pages below /admin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from stoker.domain.errors import ClientError
from stoker.domain.routing import includes_class
from stoker.domain.run import Fingerprint
from stoker.domain.tier import Demotion, ProfileRow, Tier
from stoker.gateway.operations import PageRequest
from stoker.request.decide.names import Names
from stoker.store.decisions import DecisionLog
from stoker_auto.operations import PromoteRequest, RouteRequest
from stoker_auto.promotion.promotions import Promotions
from stoker_auto.routing.dispatch import Dispatcher
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing_report import report, verdicts_of
from stoker_auto.spending import cloud_costs
from stoker_lab.statistics.stats import wilson

CONSIDERED = 10_000
"""Of the newest decisions, for what routing saved."""


class AutoPages:
    """`dispatcher()`: that of the configuration now; None: no tier is configured. `names()`: those of serves."""

    def __init__(
        self,
        dispatcher: Callable[[], Dispatcher | None],
        promotions: Promotions,
        names: Callable[[], Names],
        decisions: DecisionLog,
    ) -> None:
        self._find_dispatcher = dispatcher
        self._promotions = promotions
        self._names = names
        self._decisions = decisions

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        """Raises ClientError: what is asked for is missing, unknown, or cannot be done."""
        match page.operation.verb, page.body:
            case "promote", PromoteRequest(alias, serve, evidence, reason, force):
                promotions = self._promotions_of(alias)
                alias, serve = _required(alias, "alias"), _required(serve, "serve")
                return await promotions.promote(alias, serve, evidence, reason, force)
            case "reset", PromoteRequest(alias):
                return await self._promotions_of(alias).reset(_required(alias, "alias"))
            case "route", RouteRequest() as request:
                return await self._route(request)
            case _:
                return await self._routing()

    def _dispatcher(self) -> Dispatcher:
        """Raises ClientError 404 without tiers."""
        dispatcher = self._find_dispatcher()
        if dispatcher is None:
            text = "no tiers are configured: add [[tier]] to the configuration, then `stoker reload`"
            raise ClientError(text, code="no_tiers", status=404)
        return dispatcher

    def _promotions_of(self, alias: str | None) -> Promotions:
        """Raises ClientError 404 if this alias cannot be moved."""
        dispatcher = self._find_dispatcher()
        tasks = {} if dispatcher is None else dispatcher.router.settings.aliases
        task = None if alias is None else tasks.get(alias)
        if task is not None:
            text = f"alias '{alias}' names a task, '{task}': only the configuration changes it"
            raise ClientError(text, code="unknown_alias", status=404, param="alias")
        choice = None if alias is None else self._names().choice(alias)
        if choice is not None:
            serves = ", ".join(choice.serves)
            text = f"alias '{alias}' chooses among several serves ({serves}): only the configuration changes it"
            raise ClientError(text, code="unknown_alias", status=404, param="alias")
        return self._promotions

    async def _route(self, request: RouteRequest) -> dict[str, Any]:
        """A preview of how a prompt would be routed. It sends nothing to a cloud."""
        dispatcher = self._dispatcher()
        router, classes = dispatcher.router, dispatcher.router.classes
        if classes.task_name(request.model) is None:
            text = f"'{request.model[:80]}' is not the name of a task; the names are {', '.join(classes.names)}"
            raise ClientError(text, code="unknown_model", param="model")
        if request.task is not None and classes.class_name(request.task) is None:
            text = f"there is no class '{request.task[:80]}'; the classes are {', '.join(router.settings.known)}"
            raise ClientError(text, code="unknown_class", param="class")
        outline = router.outline_of(_required(request.prompt, "prompt"))
        task = classes.classify_declared(outline, request.model, request.task)
        other = dispatcher.second_opinion
        if other is not None and other.wants(task):
            task = await other.settle(task, outline, may_use_cloud=False)
        return router.preview(outline, task)

    async def _routing(self) -> dict[str, Any]:
        """`classes`, `cells` (one for each tier and class); and `report`, as in `stoker decisions --routes --json`."""
        router = self._dispatcher().router
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


def _required(value: str | None, field: str) -> str:
    if not value:
        raise ClientError(f"'{field}' is missing", code="bad_field", param=field)
    return value


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
