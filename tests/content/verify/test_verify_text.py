"""Behaviour 47, and what else can be proved wrong of a text."""

from __future__ import annotations

import pytest
from tests.content.verify.expected import READ, call, expected, noted, proved

from stoker.domain.answer import StopReason
from stoker.domain.prompt import Document, Redacted, Refusal, Role, Text, Thinking, Tool, ToolResult, Turn
from stoker_content.verify.check_text import LEAST, is_loop
from stoker_content.verify.expectation import MAX_ASKED, MAX_CONTEXT, SMALL_BUDGET, Expectation

LONG = "The first of them was short, and the second one was somewhat lon"
FILE = "```text\nabc\n"


def test_an_answer_that_says_something_passes() -> None:
    assert (proved("42"), noted("42")) == ([], [])


@pytest.mark.parametrize("said", [(), ("",), (" \n",)])
def test_an_answer_has_to_say_something(said: tuple[str, ...]) -> None:
    assert proved(*said) == ["empty"]


def test_thinking_alone_is_no_answer() -> None:
    assert proved(Thinking("Hm.")) == ["only_thinking"]
    assert proved(Redacted("xyz")) == ["only_thinking"]
    assert proved(Thinking("Hm."), "Yes.") == []


def test_silence_may_be_meant() -> None:
    results = [Turn(Role.USER, [ToolResult("c1", [Text("done")])])]
    assert (proved(turns=results), noted(turns=results)) == ([], ["empty"])
    assert proved(stop=StopReason.SEQUENCE) == []
    assert proved(stop=StopReason.LENGTH, max_tokens=1) == []
    assert proved(continues=True) == []
    assert proved(call(), tools=[READ]) == []


def test_refusals_and_pauses_are_not_measured_by_their_text() -> None:
    assert proved(stop=StopReason.FILTERED) == []
    assert proved(Refusal("No.")) == []
    assert proved("So", stop=StopReason.PAUSED) == []


def test_a_tiny_budget_that_is_used_up_is_no_truncation() -> None:
    assert proved(LONG, stop=StopReason.LENGTH, max_tokens=SMALL_BUDGET - 1) == []
    assert noted(LONG, stop=StopReason.LENGTH, max_tokens=1) == ["length"]


def test_a_large_budget_that_ends_in_a_word_is_a_truncation() -> None:
    assert proved(LONG, stop=StopReason.LENGTH, max_tokens=SMALL_BUDGET) == ["truncated"]
    assert proved(LONG, stop=StopReason.LENGTH) == ["truncated"]
    assert proved(LONG, stop=StopReason.CONTEXT, max_tokens=1) == ["truncated"]


def test_a_limit_that_is_met_at_the_end_of_a_sentence_is_noted() -> None:
    assert (proved("It is.", stop=StopReason.LENGTH), noted("It is.", stop=StopReason.LENGTH)) == ([], ["length"])


def test_who_cuts_the_answer_itself_gets_no_truncation() -> None:
    assert proved(LONG, stop=StopReason.LENGTH, continues=True) == []


def test_text_before_a_call_may_end_anywhere() -> None:
    assert proved("Let me", call(), stop=StopReason.CALLS, tools=[READ]) == []


@pytest.mark.parametrize(
    "text",
    [
        "Done.<|im_end|>",
        "Done. <|eot_id|>",
        "Done.\n<|im_start|>user\nMore",
        "<think>\nHm.\n</think>\nDone.",
        'I call it.\n<tool_call>\n{"name": "x"}\n</tool_call>',
        "[INST] Hello",
        "Done. [INST] Hello [/INST] Hi",
        "It's <|user|> again",
        "Ende<｜end▁of▁sentence｜>",
        "Done.<end_of_turn>",
        '[TOOL_CALLS][{"name": "x"}]',
    ],
)
def test_markers_of_the_template_have_leaked(text: str) -> None:
    assert proved(text) == ["leaked_marker"]


@pytest.mark.parametrize(
    "text",
    [
        "It ends with `<|im_end|>`",
        "```\n<|im_end|>\n```",
        "    <|im_end|>",
        "Llama 2 has [INST] and [/INST] in it.",
        "Qwen writes <think> before it answers.",
        "The ChatML token <|im_end|> is it.",
    ],
)
def test_an_answer_about_templates_has_leaked_nothing(text: str) -> None:
    assert proved(text) == []


def test_a_marker_that_the_request_holds_may_come_back() -> None:
    assert proved("<|im_end|>", text="What is <|im_end|>?") == []
    assert proved("<|im_end|>", tools=[Tool("t", "Finds <|im_end|>.")]) == []
    assert proved("<|im_end|>", turns=[Turn(Role.USER, [Document(text="<|im_end|>")])]) == []
    assert proved("It is <|im_end|> here.", text="What is a special token?") == []


@pytest.mark.parametrize("text", ["a < b and b <c", "see [Here]", "<p>x</p>", "a <|> b", "x <| y |> z"])
def test_what_only_looks_like_a_marker_is_none(text: str) -> None:
    assert (proved(text), noted(text)) == ([], [])


def test_lost_characters_are_proved_unless_they_are_the_subject() -> None:
    assert proved("caf\ufffd") == ["replacement"]
    assert proved("caf\ufffd", text="What is caf\ufffd?") == []
    assert noted("The replacement character \ufffd.") == ["replacement"]
    assert proved("U+FFFD:\n\ufffd") == []


@pytest.mark.parametrize("unit", ["no ", "one two three four ", "это снова и снова ", "再来一次", LONG + ". "])
def test_a_loop_that_only_the_limit_ended_is_proved(unit: str) -> None:
    text = "It began well. " + unit * 80
    assert "loop" in proved(text, stop=StopReason.LENGTH)
    assert (proved(text), noted(text)) == ([], ["loop"])
    assert proved(text, stop=StopReason.LENGTH, max_tokens=100) == []


def test_a_loop_is_seen_in_the_middle_of_its_unit_and_only_if_it_is_long_enough() -> None:
    unit = "a quick brown fox jumps over it and then it rests, "
    assert is_loop("Well. " + unit * 6 + unit[:20])
    assert not is_loop("Well. " + unit * 3)
    assert not is_loop("ha" * 10)
    assert is_loop("ha" * (LEAST // 2))
    assert not is_loop("")


def test_what_repeats_nearly_shows_when_it_is_compressed() -> None:
    assert is_loop("".join(f"{at % 7}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{at % 3} " for at in range(90)))


def test_the_end_of_a_long_line_that_came_before_is_no_loop() -> None:
    sample = "exactly the same ending here"
    assert not is_loop(" ".join(f"{at} {sample}" for at in range(3)))
    assert not is_loop(" ".join(f"{at * 7919} {hash((at, at)) % 10**30} {sample}" for at in range(60)))


def test_a_block_of_code_has_to_end() -> None:
    assert proved(FILE) == ["open_fence"]
    assert proved(FILE + "```") == []
    assert proved(FILE, stop=StopReason.SEQUENCE) == []
    assert proved(FILE, stop=StopReason.LENGTH, max_tokens=8) == []


def test_a_fence_within_a_fence_leaves_nothing_open() -> None:
    assert proved("```markdown\n# A\n```python\nx\n```\n```\n") == []
    assert proved("~~~\n```\n~~~\n") == []
    assert proved("Title\n~~~~~\n\nText.") == []
    assert proved("Title\n\n~~~~~\nText.") == ["open_fence"]
    assert proved("````\n```\nx\n````\n") == []


def test_text_after_a_call_begins_a_line_of_its_own() -> None:
    assert proved("Look:", call(), "```python\nx = 1\n```", tools=[READ]) == []
    assert proved("a\n", call(), "b", tools=[READ]) == []


EDIT = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n"
ASKED = "Answer with\n<<<<<<< SEARCH\nThe file:\n\tx  = 1\n"


def test_a_search_block_is_complete() -> None:
    assert (proved(EDIT, text=ASKED), noted(EDIT, text=ASKED)) == ([], [])
    assert proved(EDIT.replace("=======\n", ""), text=ASKED) == ["edit"]
    assert proved(EDIT.replace(">>>>>>> REPLACE\n", ""), text=ASKED) == ["edit"]
    assert proved(EDIT.replace(">>>>>>> REPLACE\n", "") + EDIT, text=ASKED) == ["edit"]
    dashes = "------- SEARCH\nx = 1\n=======\n+++++++ REPLACE\n"
    assert proved(dashes, text="------- SEARCH x = 1") == []


def test_a_search_block_for_unknown_text_is_noted() -> None:
    assert noted(EDIT.replace("x = 1", "y = 1"), text=ASKED) == ["edit_unknown"]


def test_search_blocks_that_nobody_asked_for_are_text() -> None:
    assert proved(EDIT.replace("=======\n", "")) == []
    assert proved(">>>>>>> REPLACE\n=======\n- x", text=ASKED) == []


def test_search_blocks_are_looked_up_within_bounds() -> None:
    long = "<<<<<<< SEARCH\n" + ("y" * 999 + "\n") * 80 + "=======\n>>>>>>> REPLACE\n"
    assert "edit_unknown" not in noted(long, text=ASKED)
    many = EDIT * 200 + EDIT.replace("x = 1", "y = 1")
    assert "edit_unknown" not in noted(many, text=ASKED)


def test_only_the_end_of_a_long_prompt_is_known_to_search_blocks() -> None:
    known = expected(turns=[Turn(Role.USER, [Text("begin"), Text("x" * MAX_CONTEXT), Text("end")])])
    assert known.shows("end")
    assert not known.shows("begin")


def test_a_prompt_is_asked_for_a_bounded_number_of_texts() -> None:
    known: Expectation = expected("nothing")
    assert not any(known.mentions(f"text {at}") for at in range(MAX_ASKED))
    assert known.mentions("one more")
    assert not known.mentions("text 0")
