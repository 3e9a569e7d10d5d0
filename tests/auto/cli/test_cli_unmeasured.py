"""Tiers of which nothing was measured: said at the start and by `doctor`, with the command that measures."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from stoker.cli.console.unmeasured import unmeasured_warnings
from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.routing import RouterSettings, Unmeasured
from stoker.domain.serve import Serve
from stoker.domain.tier import ProfileRow, Tier, Verdict
from stoker.store.profile import encode

NEAR, FAR = Tier("near", "a"), Tier("far", "b", cloud=True)


def settings(state: Path, *tiers: Tier, **router: object) -> Settings:
    configured = RouterSettings(tiers, **router) if tiers else None  # type: ignore[arg-type]
    paths = Paths(str(state), str(state), str(state))
    return Settings(ListenSettings(), paths, (), (Serve("a"), Serve("b")), router=configured)


def test_one_line_says_who_is_asked_and_what_measures(tmp_path: Path) -> None:
    (said,) = unmeasured_warnings(settings(tmp_path, NEAR, FAR))
    assert "asks a trusted cloud first" in said
    assert said.endswith("measure them: stoker eval bootstrap")
    (alone,) = unmeasured_warnings(settings(tmp_path, NEAR))
    assert "asks the cheapest local tier first" in alone
    (cheapest,) = unmeasured_warnings(settings(tmp_path, NEAR, FAR, unmeasured=Unmeasured.CHEAPEST))
    assert "asks the cheapest local tier first" in cheapest
    (closed,) = unmeasured_warnings(settings(tmp_path, NEAR, FAR, allow_cloud=False))
    assert "asks the cheapest local tier first" in closed


def test_once_anything_local_is_measured_or_nothing_is_local_it_says_nothing(tmp_path: Path) -> None:
    assert unmeasured_warnings(settings(tmp_path)) == []
    assert unmeasured_warnings(settings(tmp_path, FAR)) == []
    row = ProfileRow("near", "chat", "i", "e", 3, 0, Verdict.DENY)
    (tmp_path / "profile.json").write_bytes(encode([row]))
    assert unmeasured_warnings(settings(tmp_path, NEAR, FAR)) == []


def test_a_profile_that_cannot_be_read_is_said_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_bytes(b"{")
    assert unmeasured_warnings(settings(tmp_path, NEAR)) == []


def test_a_tier_that_only_judges_answers_nobody(tmp_path: Path) -> None:
    judge = replace(NEAR, name="judge", classes=())
    assert unmeasured_warnings(settings(tmp_path, judge, FAR)) == []
    (said,) = unmeasured_warnings(settings(tmp_path, NEAR, replace(FAR, classes=())))
    assert "the cheapest local tier first" in said
