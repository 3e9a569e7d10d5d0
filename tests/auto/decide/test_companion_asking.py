"""What a model is shown in order to tell a class, and what counts of what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.prompt import Text
from stoker.domain.task import CLASSES, HIGH_RISK, ClassSource, Outline, Task
from stoker_auto.classifier.question import (
    HEAD,
    MEANINGS,
    TAIL,
    class_in_reply,
    classifier_question,
    combined,
    is_doubtful,
    possible_classes,
    signs,
    unanswered,
)
from stoker_auto.classify.asks import closely
from stoker_auto.routing.classifier import classify

FULL = Outline("x", tools=2, images=1, is_long=True, has_results=True, wants_json=True, wants_thinking=True, turns=3)
UNSURE = Task("chat", ClassSource.LEARNED, ("ask:plan", "sure:50%"), sure=0.5, risk=0.2)


def texts(seen: Outline) -> tuple[str, str]:
    rules, data = (
        block.text for turn in classifier_question(seen, "n1").turns for block in turn.blocks if isinstance(block, Text)
    )
    return rules, data


def test_each_class_has_one_line_and_a_form_leaves_only_those_that_it_can_be() -> None:
    assert tuple(MEANINGS) == CLASSES
    assert not [text for text in MEANINGS.values() if "\n" in text]
    assert possible_classes(FULL) == CLASSES
    assert set(CLASSES) - set(possible_classes(Outline("x"))) == {"vision", "long-context", "tool-use"}
    for seen, barred in ((Outline("x"), "tool-use, long-context, vision"), (FULL, "nothing")):
        rules, data = texts(seen)
        assert all(f"\n- {name}: {MEANINGS[name]}\n" in rules for name in CLASSES)
        assert f" It is none of: {barred}.\n" in data


def test_the_beginning_and_the_end_of_the_text_are_quoted() -> None:
    text = "a" * HEAD + "b" * 5000 + "c" * TAIL
    rules, data = texts(Outline(text))
    assert f"<request n1>\n{'a' * HEAD}\n{'c' * TAIL}\n</request n1>" in data
    assert "b" * 10 not in data
    assert data.startswith("The mark is n1.\n"), "it is named before anything that others wrote"
    assert rules == texts(Outline("another", tools=1))[0], "an engine has read the rules before"
    assert closely("short", HEAD, TAIL) == "short"


def test_the_outward_signs_stand_in_one_line() -> None:
    assert signs(Outline("x")) == "nothing"
    assert signs(FULL) == (
        "2 tools are offered, results of tools came back, 1 images, JSON is wanted, thinking is wanted, it is long, "
        "turn 3 of a conversation"
    )
    assert f"\nBeside the text: {signs(FULL)}. " in texts(FULL)[1]


@pytest.mark.parametrize(
    ("sure", "below", "doubtful"),
    [(0.79, 0.8, True), (0.8, 0.8, False), (None, 1.0, False), (1.0, 1.0, True), (0.0, 0.0, False)],
)
def test_it_is_asked_where_the_text_told_the_class_not_surely_enough(
    sure: float | None, below: float, doubtful: bool
) -> None:
    assert is_doubtful(UNSURE._replace(sure=sure), below) == doubtful


@given(st.text())
def test_hearing_a_reply_never_raises_and_gives_only_a_class_that_it_may_say(reply: str) -> None:
    assert class_in_reply(reply, Outline("x")) in (None, *possible_classes(Outline("x")))


def test_a_class_that_the_form_rules_out_is_no_answer() -> None:
    assert class_in_reply('{"class": "vision"}', Outline("x")) is None
    assert class_in_reply('{"class": "Vision"}', FULL) == "vision"


def test_what_it_says_counts_and_what_was_learned_is_noted() -> None:
    assert combined(UNSURE, "planning", HIGH_RISK) == Task(
        "planning", ClassSource.MODEL, ("model:planning", "learned:chat", "ask:plan", "sure:50%"), sure=0.5, risk=0.2
    )
    assert combined(UNSURE, "chat", HIGH_RISK).source is ClassSource.MODEL


@pytest.mark.parametrize("word", ["planning", "review"])
def test_once_it_has_spoken_nothing_is_high_risk_only_to_be_careful(word: str) -> None:
    careful = UNSURE._replace(name="planning", else_="chat", sure=0.34, risk=0.4)
    assert (combined(careful, word, HIGH_RISK).name, combined(careful, word, HIGH_RISK).else_) == (word, "")
    assert unanswered(careful, "busy").else_ == "chat"


@given(
    st.sampled_from(CLASSES),
    st.sampled_from(CLASSES),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sets(st.sampled_from(CLASSES)),
)
def test_from_high_risk_it_brings_down_only_where_the_built_in_one_is_less_sure(
    name: str, word: str, sure: float, risk: float, high_risk: set[str]
) -> None:
    task = combined(Task(name, ClassSource.LEARNED, (), sure=sure, risk=risk), word, high_risk)
    is_down = name in high_risk and word not in high_risk
    assert task.name == (name if is_down and max(sure, risk) >= 0.9 else word)
    assert task.notes[0] == f"model:{word}"
    assert (task.source is ClassSource.MODEL) == (task.name == word)


def test_where_nothing_came_the_task_stays_and_says_so() -> None:
    assert unanswered(UNSURE, "busy") == UNSURE._replace(notes=("model_busy", *UNSURE.notes))


def test_what_was_learned_says_how_sure_it_is_and_the_rest_does_not() -> None:
    risky = classify(Outline("Plan the migration of our billing system to Kubernetes"), None, CLASSES)
    assert risky.sure is not None
    assert risky.risk >= risky.sure > 0.5
    assert f"sure:{int(100 * risky.risk)}%" in risky.notes
    chat = classify(Outline("hello there"), None, CLASSES)
    assert (chat.sure or 0) > 0.3 > chat.risk
    for task in (classify(Outline("x", images=1), None, CLASSES), classify(Outline("x"), "chat", CLASSES)):
        assert task.sure is None
