"""`stoker eval bootstrap --from`: the same files give the same profile, without a model and without a Stoker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.cli.main import run
from stoker.domain.run import Fingerprint, Outcome, Run, RunKind, Subject
from stoker.store.profile import load
from stoker_lab.artifacts import result_file
from stoker_lab.suites import fixture
from stoker_lab.suites.grading import GradedFixture, GradeOutcome

Captured = pytest.CaptureFixture[str]
TIERS = """
[[tier]]
name = "small"
serve = "fast"
cost = { input = 0.0, output = 0.0 }

[[tier]]
name = "big"
serve = "slow"
cost = { input = 1.0, output = 2.0 }
"""
SUITE = [
    {"id": "c-1", "task_class": "chat", "request": {"messages": [{"role": "user", "content": "Say yes"}]},
     "check": {"kind": "exact", "values": ["yes"]}},
    {"id": "c-2", "task_class": "chat", "request": {"messages": [{"role": "user", "content": "Say no"}]},
     "check": {"kind": "exact", "values": ["no"]}},
]  # fmt: skip


@pytest.fixture
def own(config: Path) -> Path:
    config.write_text(config.read_text().split('[[serve]]\nname = "odd"')[0] + TIERS)
    suites = config.parent / "suites"
    suites.mkdir()
    (suites / "chat.jsonl").write_text("".join(json.dumps(one) + "\n" for one in SUITE))
    return config


def answers(path: Path, *texts: str, tier: str = "small", at: float = 1.0) -> Path:
    """Recorded answers to the fixtures, in their order."""
    lines = [
        {
            "tier": tier, "fixture": one["id"], "identity": "abc", "at": at, "seconds": 0.5,
            "answer": {"choices": [{"index": 0, "finish_reason": "stop",
                                    "message": {"role": "assistant", "content": text}}]},
        }
        for one, text in zip(SUITE, texts, strict=True)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def profile(own: Path) -> Path:
    return own.parent / "state" / "profile.json"


def test_recorded_answers_are_graded_and_make_the_same_profile_again(own: Path, capsys: Captured) -> None:
    first, second = answers(Path("a.jsonl"), "yes", "yes"), answers(Path("b.jsonl"), "yes", "no", tier="big")
    words = ["eval", "bootstrap", "--suites", "suites"]
    assert run([*words, "--from", str(first), "--from", str(second)]) == 0
    assert f"wrote {profile(own)}" in capsys.readouterr().out
    rows = load(profile(own))
    assert {tier: (row.n, row.passed, row.identity) for (tier, _), row in rows.items()} == {
        "small": (2, 1, "abc"), "big": (2, 2, "abc"),
    }  # fmt: skip
    written = profile(own).read_bytes()
    profile(own).unlink()
    assert run([*words, "--from", str(second), "--from", str(first)]) == 0
    assert profile(own).read_bytes() == written, "whatever the order of the files, and the time of day"


def test_one_tier_or_class_may_be_chosen(own: Path, capsys: Captured) -> None:
    file = answers(Path("a.jsonl"), "yes", "yes")
    words = ["eval", "bootstrap", "--suites", "suites", "--from", str(file)]
    assert run([*words, "--class", "planning"]) == 1
    assert "nothing in these files counts" in capsys.readouterr().err
    assert run([*words, "big"]) == 1
    assert run([*words, "small", "--json"]) == 0


def test_a_class_that_a_tier_does_not_serve_counts_for_nothing(own: Path, capsys: Captured) -> None:
    own.write_text(own.read_text().replace('serve = "fast"\ncost', 'serve = "fast"\nclasses = ["planning"]\ncost'))
    words = ["eval", "bootstrap", "--suites", "suites", "--from", str(answers(Path("a.jsonl"), "yes", "yes"))]
    assert run(words) == 1
    assert "nothing in these files counts" in capsys.readouterr().err
    assert run([*words, "--class", "chat"]) == 2
    assert "tier 'small' serves none of chat" in capsys.readouterr().err


def test_nothing_is_asked_so_nothing_can_start_over(own: Path, capsys: Captured) -> None:
    assert run(["eval", "bootstrap", "--from", str(answers(Path("a.jsonl"), "yes", "no")), "--fresh"]) == 2
    assert "--from and --fresh exclude each other" in capsys.readouterr().err


def test_the_newest_recording_of_a_tier_counts(own: Path) -> None:
    old = answers(Path("old.jsonl"), "no", "yes")
    old.write_text(old.read_text().replace("abc", "before"))
    new = answers(Path("new.jsonl"), "yes", "no", at=9.0)
    assert run(["eval", "bootstrap", "--suites", "suites", "--from", str(new), "--from", str(old)]) == 0
    [row] = load(profile(own)).values()
    assert (row.identity, row.n, row.passed, row.at) == ("abc", 2, 2, 9.0)


def test_a_result_of_a_live_bootstrap_makes_its_profile_again(own: Path, capsys: Captured) -> None:
    shipped = [one for one in fixture.shipped_fixtures() if one.task_class == "chat"][:3]
    graded = [GradedFixture(one.id, one.digest, "chat", GradeOutcome.PASSED, seconds=1.0) for one in shipped]
    graded.append(GradedFixture("gone-1", "0" * 64, "chat", GradeOutcome.PASSED))
    live = Run(
        "20260101T000000Z-bootstrap-fast-0000", RunKind.BOOTSTRAP, 100.0, 5.0,
        Subject("fast", "fast", "http://x", fingerprint=Fingerprint("i", "e")), Outcome.PASSED,
        settings=result_file.raws({"tier": "small"}), raw=result_file.raw({"graded": graded}),
    )  # fmt: skip
    path = result_file.save(live, own.parent / "state" / "results")
    assert run(["eval", "bootstrap", "--from", str(path)]) == 0
    assert "1 question of the recording changed since" in capsys.readouterr().err
    [row] = load(profile(own)).values()
    assert (row.tier, row.identity, row.execution, row.n, row.passed, row.at) == ("small", "i", "e", 3, 3, 105.0)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x.jsonl", '{"tier": "small"}\n', "x.jsonl:1: is no recorded answer"),
        ("x.json", "[]", "x.json cannot be read"),
        ("none.jsonl", None, "none.jsonl: cannot be read"),
        (
            "y.jsonl",
            '{"tier": "huge", "fixture": "f", "answer": {}}\n',
            "there is no tier 'huge'; known tiers: small, big",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_named(
    own: Path, name: str, text: str | None, told: str, capsys: Captured
) -> None:
    if text is not None:
        Path(name).write_text(text)
    assert run(["eval", "bootstrap", "--from", name]) == 2
    assert told in capsys.readouterr().err
