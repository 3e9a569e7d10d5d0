"""The questions as data: each wording has what every check needs."""

from __future__ import annotations

import random

import pytest

from stoker_lab.preflight import filler, pictures
from stoker_lab.preflight.causes import CAUSES, cause
from stoker_lab.preflight.table import CHECKS, NAMES
from stoker_lab.preflight.wordings import ASSISTANT, WORDINGS, weather_tool, wording_for


@pytest.mark.parametrize("name", WORDINGS)
def test_a_wording_has_what_every_gate_needs(name: str) -> None:
    wording = WORDINGS[name]
    assert (len(wording.prose), len(wording.brief), len(wording.forms)) == (8, 20, 5)
    assert len(set(wording.brief)) == 20
    assert len(set(wording.words)) == len(wording.words) >= 4 * 8
    assert len(wording.cities) >= 8
    assert len(wording.owners) >= 2
    assert {gap.partition(":")[0] for gap in wording.known_gaps} <= set(NAMES)
    assert "{words}" in wording.echo
    assert "{city}" in wording.weather
    assert weather_tool(wording).schema["required"] == ["city"]
    assert '"' in wording.tool_result.format(degrees=20)
    assert wording.fact.format(owner="x", word="y") != wording.fact


def test_no_word_is_hidden_in_another_or_in_the_filler() -> None:
    """An answer is searched for its word."""
    filled = " ".join(filler.sentences(random.Random(1), 2000)).lower()
    for wording in WORDINGS.values():
        assert not [word for word in wording.words if f" {word} " in f" {filled} "] or wording.name


@pytest.mark.parametrize(
    ("model", "name"),
    [("ember", "ember"), ("org/spark.gguf", "spark"), ("Qwen3-8B", "assistant"), ("embers", "assistant")],
)
def test_the_wording_is_chosen_by_the_last_part_of_the_id(model: str, name: str) -> None:
    assert wording_for(model).name == name


def test_every_gate_has_a_cause_and_no_cause_is_for_nobody() -> None:
    assert {check for check, _ in CAUSES} <= set(NAMES)
    for check in CHECKS:
        found = cause(check.name, "whatever")
        assert bool(found.cause) is bool(found.fix)
        assert found.cause or check.name == "model", check.name
    assert cause("tool-required", "double") == CAUSES["tool-single", "double"]
    assert "slowly" in cause("echo", "timeout").cause
    assert "refused" in cause("echo", "no-answer").cause


def test_hidden_words_lie_as_deep_as_they_should() -> None:
    text = filler.text_with_facts(random.Random(2), 100, [(0.1, "FIRST."), (0.9, "LAST.")])
    assert 0.05 < text.index("FIRST") / len(text) < 0.15
    assert 0.85 < text.index("LAST") / len(text) < 0.95


@pytest.mark.parametrize("picture", [pictures.number(), pictures.colours(), pictures.sides()])
def test_pictures_are_png_files_that_are_small(picture: bytes) -> None:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.endswith(b"IEND\xaeB`\x82")
    assert len(picture) < 4000
    assert pictures.url(picture).startswith("data:image/png;base64,")


def test_the_assistant_is_the_wording_of_all_others() -> None:
    assert ASSISTANT.models == ()
