"""What a configuration says of measurements that is allowed but probably not meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.domain.access import Settings


def warnings(settings: Settings) -> list[str]:
    """Of gates and the judge: one sentence each."""
    found = undecidable_conditions(settings)
    if settings.router is not None and settings.router.shadow.rate:
        from stoker_lab.commands.judge import judge_warnings

        found += judge_warnings(settings)
    return found


def undecidable_conditions(settings: Settings) -> list[str]:
    """Conditions of gates that nothing can decide, and what they need: one sentence each."""
    if not settings.gates:
        return []
    from stoker.domain.task import CLASSES
    from stoker_lab.gate import measurements
    from stoker_lab.suites import fixture

    classes = settings.router.known if settings.router is not None else CLASSES
    conditions = [(gate.name, one) for gate in settings.gates for one in gate.conditions]
    is_of_class = any(measurements.class_of(one, classes) for _, one in conditions)
    fixtures = fixture.sizes(fixture.shipped_fixtures()) if is_of_class else {}
    return [
        f"gate '{name}' cannot be decided: {text}"
        for name, one in conditions
        if (text := measurements.why_undecidable(one, fixtures, classes))
    ]
