"""While tools can change files, no trick brings high-risk work to a tier that was not measured at it; and harmless work
of the same shapes still reaches the cheap one.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.auto.decide.agent_sessions import DIALECTS, Session, request, sessions

from stoker.domain.dialect import Dialect
from stoker.domain.routing import RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver, Serve
from stoker.domain.task import CLASSES, HIGH_RISK
from stoker.domain.tier import Cost, ProfileRow, Tier, Verdict
from stoker_auto.routing.router import RoutingConstraints, TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_content.outline import outline

TRICKS = ("reference", "aside", "command", "plan", "lost")
"""Work by reference; another question in between; a command by name; a plan in another language; lost history."""


class _Fleet:
    def is_loaded(self, name: str) -> bool:
        return True

    def displaces(self, name: str) -> bool:
        return False

    def unavailable_reason(self, name: str, now: float) -> str:
        return ""


def router() -> TierRouter:
    """A cheap tier, measured to be good enough at all but high-risk work, where it is denied once and unmeasured once;
    and a strong one, measured to be good enough at everything.
    """
    tiers = (Tier("cheap", "cheap"), Tier("strong", "strong", cost=Cost(1.0, 1.0)))
    rows = {
        (tier.name, name): ProfileRow(tier.name, name, "i", "e", 40, 40, Verdict.ALLOW)
        for tier in tiers
        for name in CLASSES
        if tier.name == "strong" or name not in HIGH_RISK
    }
    rows["cheap", "planning"] = ProfileRow("cheap", "planning", "i", "e", 40, 3, Verdict.DENY)
    quality = TierQuality(rows)
    serves = [Serve(name, Driver.EXTERNAL) for name in ("cheap", "strong")]
    made = TierRouter(RouterSettings(tiers), serves, quality, _Fleet(), lambda: 0.0)
    for one in serves:
        quality.on_identified(one.name, Fingerprint("i", "e"))
    return made


ROUTER = router()


def asked(one: Session, dialect: Dialect) -> tuple[str, list[str]]:
    """The class of the session's last turn, and the tiers that may serve it, in order."""
    dialect, body = request(dialect, one)
    seen = ROUTER.classes.with_tokens(outline(dialect, body)[0], None)
    task = ROUTER.classes.classify_declared(seen, "auto", None)
    plan = ROUTER.plan(task, seen, RoutingConstraints())
    return f"{task.name} {task.notes}", [step.tier.name for step in plan.steps]


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_brings_high_risk_work_to_a_tier_that_was_not_measured_at_it(trick: str) -> None:
    risky = sessions(trick, True)
    assert len(risky) >= 10
    assert len({one.lang for one in risky}) >= 6
    found = [(one, dialect, *asked(one, dialect)) for one in risky for dialect in DIALECTS]
    assert [one for one in found if one[3] != ["strong"]] == []


@pytest.mark.parametrize("trick", TRICKS)
def test_harmless_work_of_the_same_shapes_reaches_the_cheap_tier(trick: str) -> None:
    """All but a few: a false alarm costs less than a miss."""
    harmless = sessions(trick, False)
    found = [(one, dialect, *asked(one, dialect)) for one in harmless for dialect in DIALECTS]
    closed = [one for one in found if one[3][0] != "cheap"]
    assert len(closed) <= len(found) / 6, closed


def test_what_goes_on_with_a_request_that_came_with_a_file_is_not_seen() -> None:
    """What the file asks for cannot be seen. What says itself that it breaks little is."""

    def chosen(attached: bool, last: str) -> list[str]:
        text = {"type": "text", "text": "Implement the login flow in the settings module"}
        file = [{"type": "file", "file": {"filename": "a.md", "file_data": "data:text/plain;base64,YQ=="}}]
        tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("read", "write_file")]
        messages = [
            {"role": "user", "content": [text, *(file if attached else ())]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": last},
        ]
        body = msgspec.json.encode({"model": "auto", "messages": messages, "tools": tools})
        seen = ROUTER.classes.with_tokens(outline(Dialect.CHAT, body)[0], None)
        task = ROUTER.classes.classify_declared(seen, "auto", None)
        return [step.tier.name for step in ROUTER.plan(task, seen, RoutingConstraints()).steps]

    assert chosen(True, "continue") == ["strong"]
    assert chosen(True, "Fix the typo in the button label in header.py")[0] == "cheap"
