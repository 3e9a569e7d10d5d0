"""Evidence changes only by its events, and each event changes what it has to."""

from __future__ import annotations

import pytest

from stoker.domain.run import Fingerprint
from stoker.domain.tier import LIVE, Demotion, ProfileRow, Tier, Verdict
from stoker.routing.evidence import Evidence

KEY = ("cheap", "chat")
TIER = Tier("cheap", "small")
MODEL = Fingerprint("weights", "flags")


def row(
    at: float = 1.0, verdict: Verdict = Verdict.ALLOW, latency: float | None = None, source: str = ""
) -> ProfileRow:
    return ProfileRow(*KEY, "weights", "flags", 40, 40, verdict, latency, source, at=at)


def running(rows: dict[tuple[str, str], ProfileRow]) -> Evidence:
    evidence = Evidence(rows)
    evidence.on_identified("small", MODEL)
    return evidence


def standing(evidence: Evidence) -> Verdict:
    return evidence.standing(TIER, "chat", is_high_risk=False).verdict


def test_an_alarm_counts_until_the_tier_is_measured_again() -> None:
    evidence = running({KEY: row()})
    assert standing(evidence) is Verdict.ALLOW
    evidence.on_alarm(*KEY)
    assert (standing(evidence), evidence.is_suspect(KEY)) == (Verdict.VERIFY, True)
    evidence.on_measured({KEY: row()})
    assert evidence.is_suspect(KEY), "the same row again measured nothing"
    evidence.on_measured({KEY: row(at=2.0)})
    assert (standing(evidence), evidence.is_suspect(KEY)) == (Verdict.ALLOW, False)


def test_a_demotion_holds_for_this_model_until_it_is_measured_again() -> None:
    evidence = running({KEY: row()})
    evidence.on_demoted(Demotion(*KEY, "weights", "flags", 1.0, ("stop",)))
    assert (standing(evidence), evidence.is_demoted(KEY, "small")) == (Verdict.DENY, True)
    evidence.on_identified("small", Fingerprint("others", "flags"))
    assert not evidence.is_demoted(KEY, "small")
    evidence.on_identified("small", MODEL)
    evidence.on_measured({KEY: row(at=2.0)})
    assert not evidence.is_demoted(KEY, "small")


def test_a_serve_that_stops_is_known_and_no_longer_verified() -> None:
    evidence = running({KEY: row()})
    assert (evidence.is_verified("small"), evidence.current_fingerprint("small")) == (True, MODEL)
    evidence.on_stopped("small")
    assert (evidence.is_verified("small"), evidence.current_fingerprint("small")) == (False, None)
    assert evidence.fingerprints == {"small": MODEL}, "its answers are expected to be as before"
    assert evidence.standing(TIER, "chat", is_high_risk=False).is_expected


def test_a_serve_that_is_configured_in_another_way_is_not_known() -> None:
    evidence = running({KEY: row()})
    evidence.on_configured({"small": MODEL})
    assert evidence.is_verified("small"), "it runs on"
    evidence.on_configured({})
    assert (evidence.fingerprints, evidence.is_verified("small")) == ({}, False)


def test_a_changed_row_replaces_grades_but_the_first_profile_only_older_ones() -> None:
    grades = row(at=5.0, source=LIVE)
    evidence = Evidence()
    evidence.on_restored(grades={KEY: grades})
    evidence.on_measured({KEY: row(at=1.0)})
    assert evidence.grades == {KEY: grades}, "the suite is older than the grades"
    evidence.on_measured({KEY: row(at=2.0)})
    assert evidence.grades == {}, "the row is new to this run"
    evidence.on_restored(grades={KEY: row(at=1.0, source=LIVE)})
    assert evidence.grades == {}, "the suite ran after them"


def test_grades_of_another_cloud_model_do_not_count() -> None:
    evidence = Evidence({})
    evidence.on_graded(row(verdict=Verdict.DENY, source=LIVE))
    cloud = Tier("cheap", "small", cloud=True)
    assert evidence.standing(cloud, "chat", False, cloud_model="weights").verdict is Verdict.DENY
    assert evidence.standing(cloud, "chat", False, cloud_model="others").verdict is Verdict.ALLOW


def test_when_routing_ends_grades_and_demotions_stay() -> None:
    evidence = running({KEY: row(latency=2.0)})
    evidence.on_alarm(*KEY)
    evidence.on_graded(row(at=5.0, source=LIVE))
    evidence.on_demoted(Demotion(*KEY, "weights", "flags", 1.0, ("stop",)))
    assert evidence.slowest_answer("cheap") == 2.0
    evidence.on_routing_ended()
    assert (evidence.rows, evidence.fingerprints, evidence.is_suspect(KEY)) == ({}, {}, False)
    assert (evidence.is_verified("small"), evidence.slowest_answer("cheap")) == (False, None)
    evidence.on_measured({KEY: row()})
    assert (set(evidence.grades), set(evidence.demotions)) == ({KEY}, {KEY})


def test_what_others_hold_of_it_cannot_be_changed_and_follows_it() -> None:
    evidence = Evidence({})
    views = evidence.rows, evidence.fingerprints, evidence.grades, evidence.demotions
    for view in views:
        with pytest.raises(TypeError):
            view["x"] = None  # type: ignore[index]
    evidence.on_measured({KEY: row()})
    assert views[0] == {KEY: row()}
