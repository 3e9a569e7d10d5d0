"""Within a loop of tool calls nothing changes: the tier that answered last stays first. Pure.

1. its tier is not in the plan: it is denied, or fails  -> the plan as it is
2. it is first anyway                                   -> the plan as it is
3. otherwise                                            -> it goes first, and the others keep their order
"""

from __future__ import annotations

from stoker_auto.decide.policy import RoutePlan

KEPT = "kept while the session calls tools"


def with_tier_kept(plan: RoutePlan, tier: str) -> RoutePlan:
    """`tier`: that answered the session's last request."""
    kept = next((step for step in plan.steps if step.tier.name == tier), None)
    if kept is None or kept is plan.steps[0]:
        return plan  # 1, 2
    first = kept._replace(why=f"{KEPT}, {kept.why}")
    return plan._replace(steps=(first, *(step for step in plan.steps if step is not kept)))  # 3
