"""Puts plans and attempts into the decision record. Pure; the record holds nothing of prompt or answer."""

from __future__ import annotations

from stoker.domain.decision import Attempt, Routed
from stoker_auto.decide.policy import RoutePlan, RouteStep


def routed_of(plan: RoutePlan) -> Routed:
    """The plan for the decision record; it holds nothing of the prompt."""
    chosen = [f"{step.tier.name}: {step.verdict.value}, {step.why}" for step in plan.steps]
    excluded = [f"{one.tier}: dropped ({one.code}), {one.why}" for one in plan.excluded]
    return Routed(plan.task.name, plan.task.source.value, list(plan.task.notes), why=[*chosen, *excluded])


def record_attempt(step: RouteStep, attempt: Attempt, routed: Routed) -> None:
    """An attempt is over: record its cost, and whether its tier answered."""
    if attempt.input_tokens is not None and attempt.output_tokens is not None:
        cached, written = attempt.cached_tokens or 0, attempt.cache_write_tokens or 0
        attempt.cost = step.tier.cost.of(attempt.input_tokens, attempt.output_tokens, cached, written)
    if attempt.outcome == "served":
        routed.tier, routed.verdict, routed.verify = step.tier.name, step.verdict.value, step.verify.value
