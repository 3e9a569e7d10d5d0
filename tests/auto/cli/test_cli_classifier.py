"""`stoker eval classifier`: who is measured, how it goes on, and what is said in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker

from stoker.cli.console.errors import RequestRefused
from stoker.cli.main import run
from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.domain.routing import ClassifierModelSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.domain.task import HIGH_RISK
from stoker.exchange.internal_client import InternalClient
from stoker_auto.classifier.labelled_prompts import held_out
from stoker_auto.classifier.proof import ClassifierAnswer, ClassifierAnswers, load_answers, prove
from stoker_auto.commands import classifier

TIER = '\n[[tier]]\nname = "small"\nserve = "fast"\n'
CLOUD = (
    '\n[[tier]]\nname = "far"\nbase_url = "https://api.example.com/v1"\nmodel = "big"\n'
    "cost = { input = 1, output = 2 }\n"
)
TELLER = '\n[router.classifier]\nserve = "{}"\nbelow = 1\n'
RELOADED = {"changed": [], "added": [], "removed": [], "problems": []}


@pytest.fixture
def configured(config: Path, stoker: FakeStoker) -> Callable[[str], FakeStoker]:
    """`configured(text)`: a Stoker that runs with this in its file, too."""

    def add(text: str) -> FakeStoker:
        config.write_text(config.read_text() + text)
        stoker.answer("POST /admin/switch", {"serve": "fast", "seconds": 0.1, "phases": {}})
        stoker.answer("POST /admin/reload", RELOADED)
        return stoker

    return add


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ("", (), "no [router.classifier] is configured: stoker eval classifier SERVE"),
        (TIER, (), "no [router.classifier] is configured"),
        (TIER, ("fats",), "did you mean 'fast'?"),
        (CLOUD + TELLER.format("far"), (), "'far' is a cloud, and asking it costs money: name it, stoker eval"),
    ],
)
def test_who_is_measured_has_to_be_said(
    configured: Callable[[str], FakeStoker],
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: tuple[str, ...],
    why: str,
) -> None:
    stoker = configured(text)
    assert run(["eval", "classifier", *words]) == 2
    assert why in capsys.readouterr().err
    assert stoker.posts() == [], "nothing was loaded for it"


# -- what is said in the end -----------------------------------------------------------------------------------------


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`heard(word, seconds)`: what the model said of each prompt; without a word, its label."""

    def say(word: str | None = None, seconds: float = 0.1) -> None:
        said = {
            row.digest: ClassifierAnswer(row.digest, row.task_class if word is None else word, seconds)
            for row in held_out()
        }
        monkeypatch.setattr(
            classifier,
            "measure_classifier",
            lambda place, name, settings, fresh: prove(said, settings, HIGH_RISK),
        )

    return say


def test_one_that_wins_is_on_with_both_tables(
    configured: Callable[[str], FakeStoker], heard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    stoker = configured(TIER + TELLER.format("fast"))
    heard()
    assert run(["eval", "classifier"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"fast answered {len(held_out())} of {len(held_out())} held-out prompts"
    assert lines[1].split() == ["BUILT-IN", "WITH", "fast", "fast", "ALWAYS"]
    names = {line.rsplit(None, 3)[0]: line.rsplit(None, 3)[1:] for line in lines[2:7]}
    assert set(names) == {"accuracy", *(f"recall of {name}" for name in HIGH_RISK), "cost of mistakes",
                          "hard negatives taken for high-risk"}  # fmt: skip
    built_in, beside, alone = map(int, names["cost of mistakes"])
    assert built_in > beside >= alone == 0
    assert lines[-1] == "on: it is asked if the built-in classifier is less sure than 1"
    assert [asked for asked, _ in stoker.posts()] == ["POST /admin/switch", "POST /admin/reload"]


def test_one_that_loses_is_off_with_the_reason_and_exit_code_1(
    configured: Callable[[str], FakeStoker], heard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    configured(TIER + TELLER.format("fast"))
    heard("chat")
    assert run(["eval", "classifier"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("off: its mistakes cost ")
    heard("chat")
    assert run(["eval", "classifier", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["on"], found["serve"], found["below"]) == (False, "fast", 1.0)
    assert found["beside"]["cost"] > found["built_in"]["cost"]
    assert found["why"].startswith("its mistakes cost ")


def test_answers_that_came_too_late_or_named_no_class_are_told(
    configured: Callable[[str], FakeStoker], heard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    configured(TIER + TELLER.format("fast"))
    heard("", 2.0)
    assert run(["eval", "classifier"]) == 1
    total = len(held_out())
    assert f"{total} of {total} held-out prompts, {total} later than 500 ms, {total} without naming a class\n" in (
        capsys.readouterr().out
    )


def test_one_that_is_not_configured_is_measured_and_not_on(
    configured: Callable[[str], FakeStoker], heard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    configured(TIER)
    heard()
    assert run(["eval", "classifier", "gpt-x"]) == 0
    assert 'it may be used: set serve = "fast" in [router.classifier]' in capsys.readouterr().out
    assert run(["eval", "classifier", "fast", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["on"] is False


# -- asking ----------------------------------------------------------------------------------------------------------


def known(mark: Fingerprint) -> Any:
    return SimpleNamespace(serve=Serve("fast"), target=Target("127.0.0.1", 1, "", "fast"), model_asked=mark)


class Model:
    """What stands in for the serve: it says `chat`, and nothing at all after `most` answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.most = 10_000
        model = self

        async def ask(
            self: InternalClient, serve: Serve, target: Target, question: Any, timeout: float
        ) -> tuple[None, str]:
            if model.asked >= model.most:
                raise UpstreamError("it broke")
            model.asked += 1
            assert question(False).settings == {"temperature": 0}
            return None, '{"class": "chat"}'

        monkeypatch.setattr(InternalClient, "ask", ask)


def test_what_was_broken_off_goes_on_and_another_model_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path, total = Model(monkeypatch), tmp_path / "classifier" / "fast.jsonl", len(held_out())
    model.most = 20
    with pytest.raises(RequestRefused, match="serve 'fast' does not answer: it broke"):
        classifier.ask_all(known(Fingerprint("i", "e")), path, fresh=False)
    assert (model.asked, len(load_answers(path).answers)) == (20, 20)
    with path.open("ab") as file:
        file.write(b'{"digest": "torn')
    model.most = 10_000

    def again(identity: str, fresh: bool = False) -> ClassifierAnswers:
        model.asked = 0
        return classifier.ask_all(known(Fingerprint(identity, "e")), path, fresh=fresh)

    assert len(again("i").answers) == total
    assert model.asked == total - 20
    again("i")
    assert model.asked == 0
    again("i", fresh=True)
    assert model.asked == total
    assert len(again("j").answers) == model.asked == total
    assert prove(load_answers(path).answers, ClassifierModelSettings("fast", 1.0, 1.0), HIGH_RISK).asked == total


def test_what_cannot_be_told_apart_from_others_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="a measurement would not count"):
        classifier.ask_all(known(Fingerprint()), tmp_path / "x.jsonl", fresh=False)
