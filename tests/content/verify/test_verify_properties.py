"""However an answer is cut, the same is found; and whatever comes, verification ends, quickly and without an error."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.content.verify.expected import READ, answer, expected
from tests.examples import examples

from stoker.domain.answer import Answer, BlockKind, Event, Grew, Opened, StopReason
from stoker.domain.prompt import AnswerFormat, Choice, Raw, Text, Thinking, Tool, ToolCall, ToolChoice
from stoker.domain.tier import Verify
from stoker_content.verify.expectation import Expectation
from stoker_content.verify.finding import CHECKS
from stoker_content.verify.text_buffer import BATCH, TailBuffer, TextBuffer
from stoker_content.verify.verifier import Verifier, check_whole_answer, events_of

PARTS = (
    "```python\n", "```", "\n", "~~~\n", "import x\nf(1", "```json\n", '{"a": 1}', "...", "```diff\n",
    "@@ -1,2 +1,2 @@\n", " a\n-b\n+c\n", "<|im_end|>", "<think>", "`", "[INST]", "\ufffd", "word ", "日本", "    ",
    "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", "\r\n", "template", "[", '"', "-- \n", "--- a\n+++ b\n",
)  # fmt: skip
texts = st.lists(st.sampled_from(PARTS) | st.text(max_size=5), max_size=30).map("".join)
arguments = st.sampled_from(('{"path":"a"}', '{"path":1}', "{}", "[", "")) | st.text(max_size=10)
calls = st.builds(ToolCall, st.sampled_from(("a", "b", "")), st.sampled_from(("read", "patch", "x")), arguments)
blocks = texts.map(Text) | calls | texts.map(Thinking)
answers = st.builds(Answer, st.just("i"), st.just("m"), st.lists(blocks, max_size=4), st.sampled_from(StopReason))
requests = st.builds(
    expected,
    texts,
    tools=st.sampled_from(([], [READ, Tool("patch", custom=True)])),
    tool_choice=st.sampled_from((None, ToolChoice(Choice.REQUIRED), ToolChoice(Choice.NONE))),
    format=st.sampled_from((None, AnswerFormat(), AnswerFormat(Raw(b'{"required":["a"]}')))),
    max_tokens=st.sampled_from((None, 5)),
    stop=st.sampled_from(([], ["x"])),
)


def cut(events: list[Event], sizes: list[int]) -> list[Event]:
    found: list[Event] = []
    turn = 0
    for event in events:
        if not isinstance(event, Grew):
            found.append(event)
            continue
        at = 0
        while at < len(event.text):
            size = sizes[turn % len(sizes)]
            turn += 1
            found.append(Grew(event.at, event.text[at : at + size]))
            at += size
    return found


@settings(max_examples=examples(300), deadline=None)
@given(requests, answers, st.lists(st.integers(1, 40), min_size=1, max_size=9), st.sampled_from(Verify))
def test_what_is_found_does_not_depend_on_how_an_answer_is_cut(
    known: Expectation, said: Answer, sizes: list[int], mode: Verify
) -> None:
    one = Verifier(known, mode)
    flowed = [each for event in cut(events_of(said), sizes) for each in one.feed(event)]
    found = check_whole_answer(known, said)
    assert one.findings == ([] if mode is Verify.OFF else found)
    assert {finding.check for finding in found} <= set(CHECKS)
    if not one.is_failed:
        assert text_of(flowed) == text_of(events_of(said))


def text_of(events: list[Event]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, Opened):
            texts[event.at] = ""
        elif isinstance(event, Grew):
            texts[event.at] += event.text
    return texts


@settings(max_examples=examples(100), deadline=None)
@given(requests, answers)
def test_in_the_holding_modes_no_part_of_an_invalid_call_flows(known: Expectation, said: Answer) -> None:
    one = Verifier(known, Verify.HOLD_TOOLS)
    sent: list[Event] = []
    for event in events_of(said):
        had_failed = one.is_failed
        now = one.feed(event)
        assert not (now and had_failed)
        assert not (now and one.is_failed)
        sent += now
    opened = [event for event in sent if isinstance(event, Opened) and event.kind is BlockKind.CALL]
    assert all(event.name in known.tools for event in opened)


HOSTILE = {
    "brackets": "[" * 1_000_000,
    "fenced brackets": "```json\n" + "[" * 200_000 + "\n```\n",
    "python brackets": "```python\nimport x\n" + "(" * 60_000 + "\n```\n",
    "python minuses": "```python\nimport x\nx = " + "-" * 60_000 + "1(\n```\n",
    "escaped quotes": '```json\n{"' + '\\"' * 100_000 + "\n```\n",
    "python quotes": "```python\nimport x\nx = 1 1\n'" + "\\'" * 30_000 + "\n```\n",
    "blank lines in python": "```python\nimport x\n" + "\n" * 60_000 + "f(\n```\n",
    "f-strings": "```python\nimport x\nx = (" + 'f"' * 30_000 + "\n```\n",
    "tildes": "~" * 60_000 + "`",
    "backticks": ("`" * 60_000 + " x`\n") * 10,
    "one line": "x <|im_end " * 90_000,
    "markers": "a <|im_end|> b\n" * 20_000,
    "lost": "\ufffd\n" * 200_000,
    "lines": "\n" * 300_000,
    "search": "<<<<<<< SEARCH\n" * 60_000,
    "searches": "<<<<<<< SEARCH\nx\n=======\n>>>>>>> REPLACE\n" * 20_000,
    "hunks": "```diff\n" + "@@ -1 +1 @@\n" * 20_000 + "```\n",
    "long hunk": "```diff\n@@ -1,9999999 +1,9999999 @@\n" + "--- a\n" * 40_000 + "```\n",
    "commas": "```json\n[" + ("," + " " * 199) * 1000 + "\n```\n",
    "almost a loop": "ab" * 200_000 + "c" + "ab" * 100,
    "blanks": " " * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_in_linear_time(name: str) -> None:
    """All take well below two seconds; a factor too many would take minutes."""
    known = expected("<<<<<<< SEARCH\n" + "x" * 100_000)
    began = time.process_time()
    check_whole_answer(known, answer(HOSTILE[name]))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"path":' * 100_000, '{"path":"' + "\\u0061" * 500_000 + '"}'])
def test_hostile_arguments_end_in_time(text: str) -> None:
    began = time.process_time()
    check_whole_answer(expected(tools=[READ]), answer(ToolCall("a", "read", text)))
    assert time.process_time() - began < 5


def test_a_million_single_characters_weigh_about_what_they_are() -> None:
    pieces = TextBuffer()
    for at in range(3 * BATCH + 5):
        pieces.add("ab"[at % 2])
    assert pieces.text() == ("ab" * 2 * BATCH)[: 3 * BATCH + 5]
    pieces.drop()
    assert (pieces.text(), pieces.size) == ("", 0)


@given(st.lists(st.text(max_size=9), max_size=40), st.integers(1, 12))
def test_the_tail_is_the_last_characters_whatever_the_pieces(parts: list[str], least: int) -> None:
    tail = TailBuffer(least)
    for part in parts:
        tail.add(part)
    assert tail.text() == "".join(parts)[-least:]
