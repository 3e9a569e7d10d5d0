"""What to do if no tier may serve a class: for each kind of reason a sentence with the command to type. Pure.

1. not measured, and fixtures of the class ship with Stoker   -> measure just these tiers at just this class
2. not measured, and none ship                                -> own fixtures, or another tier, or less caution
3. measured, but it has changed, or became worse since        -> measure these tiers again
4. allowed, but what runs now was never identified            -> load them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stoker.domain.task import WITH_FIXTURES

NOT_MEASURED, NOT_LOOKED_AT = "not measured at", "has to be loaded once"
STALE = ("changed since", "before it changed", "became worse")
"""The words by which `standing` and `demotion` give these reasons."""


class Denied(Protocol):
    """A tier that only its verdict keeps from serving the class."""

    @property
    def tier(self) -> str: ...

    @property
    def serve(self) -> str: ...

    @property
    def why(self) -> str: ...


def advice(task_class: str, denied: Sequence[Denied]) -> str:
    """What to type; empty if no command helps."""

    def tiers(*signs: str) -> str:
        return " ".join(one.tier for one in denied if any(sign in one.why for sign in signs))

    says: list[str] = []
    if unmeasured := tiers(NOT_MEASURED):
        command = f"stoker eval bootstrap {unmeasured} --class {task_class}"
        if task_class in WITH_FIXTURES:  # 1
            says.append(f"measure it: {command}")
        else:  # 2
            says.append(
                f"no fixtures of this class ship with Stoker: write some and type {command} --suites DIR, add a cloud "
                "tier, or take the class out of [router] high_risk"
            )
    if stale := tiers(*STALE):  # 3
        says.append(f"measure it again: stoker eval calibrate {stale}{_suites(task_class)}")
    if serve := next((one.serve for one in denied if NOT_LOOKED_AT in one.why), ""):  # 4
        says.append(f"load it: stoker serves up {serve}")
    return "; ".join(says)


def _suites(task_class: str) -> str:
    return "" if task_class in WITH_FIXTURES else " --suites DIR"
