"""The bench of the classifier reads whole requests, counts each look, and keeps the first figures."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from bench import classifier
from bench.classifier import by_side, load, main, missed

from stoker_auto.classifier.labelled_prompts import score

RENAME = "Rename UserProfile to Account everywhere and fix the imports."
POEM = [{"type": "text", "text": "Schreib ein Gedicht zum Geburtstag"}]
ROWS = (
    {
        "class": "multi-file-refactor",
        "dialect": "chat",
        "body": {"messages": [{"role": "user", "content": RENAME}]},
    },
    {
        "class": "chat",
        "also": ["creative"],
        "hard": True,
        "lang": "de",
        "dialect": "messages",
        "body": {"max_tokens": 9, "messages": [{"role": "user", "content": POEM}]},
    },
    {"class": "code-write", "dialect": "responses", "body": {"input": "Write a regex for IPv4."}},
)


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in ROWS))
    return path


def test_whole_requests_are_read_as_routing_sees_them(requests: Path) -> None:
    rows = load(requests)
    assert [row.outline.text for row in rows][2] == "Write a regex for IPv4."
    assert [(row.task_class, row.hard, row.language, row.also) for row in rows][1] == (
        "chat",
        True,
        "de",
        ("creative",),
    )


def test_alternates_languages_and_hard_negatives_are_measured_apart(requests: Path) -> None:
    shares = {name: (count, share) for name, count, share in by_side(load(requests))}
    assert shares["right or an accepted alternate"] == (3, 1.0)
    assert shares["high-risk found"] == (1, 1.0)
    assert shares["hard negatives taken for high-risk"] == (1, 0.0)
    assert (shares["English"], shares["other languages"]) == ((2, 1.0), (1, 0.0))


def test_each_look_is_counted_and_the_figures_of_the_first_are_kept(
    requests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(classifier, "BLIND_SET_USES", tmp_path / "looked_at.json")
    monkeypatch.setattr(classifier, "microseconds", lambda texts: 1.0)  # takes seconds
    main(["--file", str(requests)])
    main(["--file", str(requests)])
    assert "theirs: looked at 2 times; accuracy at first contact 0.667" in capsys.readouterr().out
    kept = msgspec.json.decode((tmp_path / "looked_at.json").read_bytes())
    assert kept["theirs"]["times"] == 2
    assert kept["theirs"]["first"]["high-risk found"] == 1.0


def test_the_mistakes_in_a_file_of_others_are_not_shown(requests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--errors", "--half", "tuned", "--file", str(requests)])
    assert "tunes on it" in capsys.readouterr().err


def test_a_few_hard_negatives_in_a_hundred_may_be_taken(requests: Path) -> None:
    seen = score(load(requests), lambda outline: "multi-file-refactor")
    assert "1 hard negatives taken for high-risk" in missed(seen, 10)
    assert not [goal for goal in missed(seen, 100) if "hard" in goal]
