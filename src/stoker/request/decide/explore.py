"""Whether another tier than the first choice gets a request, so that more becomes known of it. Pure.

1. not drawn, or nobody is well                              -> the plan as it is
2. no other step has proved good enough and is at hand       -> the plan as it is
3. else                                                      -> one of those goes first; the others stay as they were

The steps are the plan's own: who was dropped stays dropped.
"""

from __future__ import annotations

from stoker.request.decide.policy import RoutePlan

EXPLORED = "explored"
"""The word in the reason of a step that goes first by chance."""


def with_exploration(plan: RoutePlan, rate: float, drawn: float) -> RoutePlan:
    """`drawn`: by chance, from 0 up to but not 1. Below `rate` it also says which one, each being as likely."""
    if drawn >= rate or plan.is_last_resort:
        return plan  # 1
    others = [step for step in plan.steps[1:] if step.is_at_hand]
    if not others:
        return plan  # 2
    chosen = others[min(int(drawn / rate * len(others)), len(others) - 1)]
    first = chosen._replace(why=f"{EXPLORED}, {chosen.why}")
    return plan._replace(steps=(first, *(step for step in plan.steps if step is not chosen)))  # 3
