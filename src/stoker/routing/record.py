"""Puts plans and attempts into the decision record. Pure; the record holds nothing of prompt or answer."""

from __future__ import annotations

from stoker.domain.decision import Attempt, Decision, Routed
from stoker.request.decide.policy import RoutePlan, RouteStep


def routed_of(plan: RoutePlan) -> Routed:
    """The plan for the decision record; it holds nothing of the prompt."""
    chosen = [f"{step.tier.name}: {step.verdict.value}, {step.why}" for step in plan.steps]
    excluded = [f"{one.tier}: dropped ({one.code}), {one.why}" for one in plan.excluded]
    return Routed(plan.task.name, plan.task.source.value, list(plan.task.notes), why=[*chosen, *excluded])


def record_attempt(step: RouteStep, attempt: Attempt, routed: Routed, decision: Decision) -> None:
    """An attempt is over: record its tokens and cost. Its outcome is `left` if nothing else is known of it."""
    attempt.outcome = attempt.outcome or "left"
    add_tokens(attempt, decision)
    if attempt.input_tokens is not None and attempt.output_tokens is not None:
        cached, written = attempt.cached_tokens or 0, attempt.cache_write_tokens or 0
        attempt.cost = step.tier.cost.of(attempt.input_tokens, attempt.output_tokens, cached, written)
    if attempt.outcome == "served":
        routed.tier, routed.verdict, routed.verify = step.tier.name, step.verdict.value, step.verify.value


def add_tokens(attempt: Attempt, decision: Decision) -> None:
    """One call of the attempt's tier is over: add what it used."""
    attempt.input_tokens = _sum(attempt.input_tokens, decision.input_tokens)
    attempt.output_tokens = _sum(attempt.output_tokens, decision.output_tokens)
    attempt.cached_tokens = _sum(attempt.cached_tokens, decision.cached_tokens)
    attempt.cache_write_tokens = _sum(attempt.cache_write_tokens, decision.cache_write_tokens)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)
