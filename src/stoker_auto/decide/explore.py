"""Whether another tier than the first choice gets a request, so that more is learned about that tier. Pure.

1. chance did not choose this request, or no tier is healthy  -> the plan stays as it is
2. no other step is proved good enough and at hand            -> the plan stays as it is
3. else                                                       -> one of those goes first; the others keep their order

Only steps of the plan are used: excluded tiers stay excluded.
"""

from __future__ import annotations

from stoker_auto.decide.policy import RoutePlan

EXPLORED = "explored"
"""Word in the reason of a step that goes first by chance."""


def with_exploration(plan: RoutePlan, rate: float, drawn: float) -> RoutePlan:
    """`drawn`: a random number in [0, 1). If it is below `rate`, it also chooses the step, all being equally likely."""
    if drawn >= rate or plan.is_last_resort:
        return plan  # 1
    others = [step for step in plan.steps[1:] if step.is_at_hand]
    if not others:
        return plan  # 2
    chosen = others[min(int(drawn / rate * len(others)), len(others) - 1)]
    first = chosen._replace(why=f"{EXPLORED}, {chosen.why}")
    return plan._replace(steps=(first, *(step for step in plan.steps if step is not chosen)))  # 3
