"""TierQuality changes only by its events, and each event changes what it has to."""

from __future__ import annotations

import pytest

from stoker.domain.run import Fingerprint
from stoker.domain.tier import LIVE, Demotion, GradedRow, ProfileRow, Tier, Verdict
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.judging import Judging

KEY = ("cheap", "chat")
TIER = Tier("cheap", "small")
MODEL = Fingerprint("weights", "flags")
JUDGE_MODEL = Fingerprint("wise")


def row(
    at: float = 1.0, verdict: Verdict = Verdict.ALLOW, latency: float | None = None, source: str = ""
) -> ProfileRow:
    return ProfileRow(*KEY, "weights", "flags", 40, 40, verdict, latency, source, at=at)


def graded(verdict: Verdict, at: float = 1.0) -> GradedRow:
    return GradedRow(*KEY, "weights", "flags", 40, 40, verdict, None, LIVE, "", at, "j", JUDGE_MODEL.identity)


def running(rows: dict[tuple[str, str], ProfileRow]) -> TierQuality:
    tier_quality = TierQuality(rows)
    tier_quality.on_identified("small", MODEL)
    return tier_quality


def standing(tier_quality: TierQuality) -> Verdict:
    return tier_quality.standing(TIER, "chat", is_high_risk=False).verdict


def test_an_alarm_counts_until_the_tier_is_measured_again() -> None:
    tier_quality = running({KEY: row()})
    assert standing(tier_quality) is Verdict.ALLOW
    tier_quality.on_alarm(*KEY)
    assert (standing(tier_quality), tier_quality.is_suspect(KEY)) == (Verdict.VERIFY, True)
    tier_quality.on_measured({KEY: row()})
    assert tier_quality.is_suspect(KEY), "the same row again measured nothing"
    tier_quality.on_measured({KEY: row(at=2.0)})
    assert (standing(tier_quality), tier_quality.is_suspect(KEY)) == (Verdict.ALLOW, False)


def test_a_demotion_holds_for_this_model_until_it_is_measured_again() -> None:
    tier_quality = running({KEY: row()})
    tier_quality.on_demoted(Demotion(*KEY, "weights", "flags", 1.0, ("stop",)))
    assert (standing(tier_quality), tier_quality.is_demoted(KEY, "small")) == (Verdict.DENY, True)
    tier_quality.on_identified("small", Fingerprint("others", "flags"))
    assert not tier_quality.is_demoted(KEY, "small")
    tier_quality.on_identified("small", MODEL)
    tier_quality.on_measured({KEY: row(at=2.0)})
    assert not tier_quality.is_demoted(KEY, "small")


def test_a_serve_that_stops_is_known_and_no_longer_verified() -> None:
    tier_quality = running({KEY: row()})
    assert (tier_quality.is_verified("small"), tier_quality.current_fingerprint("small")) == (True, MODEL)
    tier_quality.on_stopped("small")
    assert (tier_quality.is_verified("small"), tier_quality.current_fingerprint("small")) == (False, None)
    assert tier_quality.fingerprints == {"small": MODEL}, "its answers are expected to be as before"
    assert tier_quality.standing(TIER, "chat", is_high_risk=False).is_expected


def test_a_serve_that_is_configured_in_another_way_is_not_known() -> None:
    tier_quality = running({KEY: row()})
    tier_quality.on_configured({"small": MODEL})
    assert tier_quality.is_verified("small"), "it runs on"
    tier_quality.on_configured({})
    assert (tier_quality.fingerprints, tier_quality.is_verified("small")) == ({}, False)


def test_a_replica_that_is_not_identified_yet_is_not_forgotten_by_a_reload() -> None:
    tier_quality = TierQuality()
    tier_quality.on_measured({KEY: row()})
    for replica in ("small@0", "small@1"):
        tier_quality.on_started("small", replica)
    tier_quality.on_configured({}, ["small"])
    tier_quality.on_identified("small", MODEL, "small@0")
    assert "small" not in tier_quality.verified
    tier_quality.on_identified("small", MODEL, "small@1")
    assert "small" in tier_quality.verified


def test_a_changed_row_replaces_grades_but_the_first_profile_only_older_ones() -> None:
    grades = row(at=5.0, source=LIVE)
    tier_quality = TierQuality()
    tier_quality.on_restored(grades={KEY: grades})
    tier_quality.on_measured({KEY: row(at=1.0)})
    assert tier_quality.grades == {KEY: grades}, "the suite is older than the grades"
    tier_quality.on_measured({KEY: row(at=2.0)})
    assert tier_quality.grades == {}, "the row is new to this run"
    tier_quality.on_restored(grades={KEY: row(at=1.0, source=LIVE)})
    assert tier_quality.grades == {}, "the suite ran after them"


def test_grades_of_another_cloud_model_do_not_count() -> None:
    tier_quality = TierQuality({})
    tier_quality.on_judging(Judging("judge", "j", {"chat": JUDGE_MODEL}))
    tier_quality.on_graded(graded(Verdict.DENY))
    cloud = Tier("cheap", "small", cloud=True)
    assert tier_quality.standing(cloud, "chat", False, cloud_model="weights").verdict is Verdict.DENY
    assert tier_quality.standing(cloud, "chat", False, cloud_model="others").verdict is Verdict.ALLOW


def test_when_routing_ends_grades_and_demotions_stay() -> None:
    tier_quality = running({KEY: row(latency=2.0)})
    tier_quality.on_alarm(*KEY)
    tier_quality.on_graded(row(at=5.0, source=LIVE))
    tier_quality.on_demoted(Demotion(*KEY, "weights", "flags", 1.0, ("stop",)))
    assert tier_quality.slowest_answer("cheap") == 2.0
    tier_quality.on_routing_ended()
    assert (tier_quality.rows, tier_quality.fingerprints, tier_quality.is_suspect(KEY)) == ({}, {}, False)
    assert (tier_quality.is_verified("small"), tier_quality.slowest_answer("cheap")) == (False, None)
    tier_quality.on_measured({KEY: row()})
    assert (set(tier_quality.grades), set(tier_quality.demotions)) == ({KEY}, {KEY})


def test_what_others_hold_of_it_cannot_be_changed_and_follows_it() -> None:
    tier_quality = TierQuality({})
    views = tier_quality.rows, tier_quality.fingerprints, tier_quality.grades, tier_quality.demotions
    for view in views:
        with pytest.raises(TypeError):
            view["x"] = None  # type: ignore[index]
    tier_quality.on_measured({KEY: row()})
    assert views[0] == {KEY: row()}


def test_every_running_replica_has_to_be_the_measured_model() -> None:
    """Requests may go to each of them."""
    tier_quality = TierQuality({KEY: row()})
    tier_quality.on_identified("small", MODEL, "small@gpu0")
    assert (standing(tier_quality), tier_quality.is_verified("small")) == (Verdict.ALLOW, True)
    tier_quality.on_started("small", "small@gpu1")
    assert (standing(tier_quality), tier_quality.is_verified("small")) == (Verdict.VERIFY, False), "not looked at yet"
    tier_quality.on_identified("small", MODEL, "small@gpu1")
    assert standing(tier_quality) is Verdict.ALLOW
    tier_quality.on_identified("small", Fingerprint("other", "flags"), "small@gpu1")
    assert tier_quality.standing(TIER, "chat", is_high_risk=False).is_stale
    assert tier_quality.current_fingerprint("small") is None
    tier_quality.on_stopped("small", "small@gpu1")
    assert (standing(tier_quality), tier_quality.current_fingerprint("small")) == (Verdict.ALLOW, MODEL)
    tier_quality.on_stopped("small", "small@gpu0")
    assert (standing(tier_quality), tier_quality.is_verified("small")) == (Verdict.VERIFY, False)
