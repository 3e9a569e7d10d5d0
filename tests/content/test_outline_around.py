"""Where tools can change files, the first tool results after a request are read, and what the model wrote before it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.task import Around, Outline
from stoker_content.outline import FIRST_RESULTS, MOST_AROUND, MOST_RESULT, outline

EDIT = [{"type": "function", "function": {"name": "edit_file", "parameters": {}}}]
READ = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]


def seen(dialect: Dialect, document: dict[str, Any]) -> Outline:
    return outline(dialect, msgspec.json.encode(document))[0]


def chat(turns: list[dict[str, Any]], tools: Any = EDIT) -> Outline:
    return seen(Dialect.CHAT, {"messages": turns, "tools": tools})


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def tool(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c", "content": text}


TURNS = [
    user("look"),
    tool("one"),
    tool("two"),
    {"role": "assistant", "content": "Shall I?"},
    user("yes"),
    tool("three"),
]


def test_results_belong_to_the_request_before_them_and_words_of_the_model_to_the_one_after() -> None:
    assert chat(TURNS).around == (Around(("three",), True, "Shall I?"), Around(("one", "two")))


def test_messages_and_responses_say_the_same() -> None:
    inner = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "one"}]}
    tools = [{"name": "edit_file", "input_schema": {}}]
    turns = [user("look"), {"role": "user", "content": [inner]}]
    assert seen(Dialect.MESSAGES, {"messages": turns, "tools": tools}).around[0].results == ("one",)
    items = [user("look"), {"type": "function_call_output", "call_id": "c", "output": "one"}]
    tools = [{"type": "function", "name": "edit_file"}]
    assert seen(Dialect.RESPONSES, {"input": items, "tools": tools}).around[0].results == ("one",)


def test_without_such_tools_nothing_around_is_read() -> None:
    assert chat(TURNS, READ).around == ()


def test_only_the_first_results_are_read_and_only_their_beginning() -> None:
    around = chat([user("look"), *(tool(f"{at} " + "x " * MOST_RESULT) for at in range(9))]).around[0]
    assert [text[0] for text in around.results] == ["0", "1", "2"][:FIRST_RESULTS]
    assert max(map(len, around.results)) <= MOST_RESULT + 1
    assert not around.is_whole


def test_a_conversation_of_many_results_is_read_within_a_bound_and_in_linear_time() -> None:
    turns = [one for _ in range(250) for one in (user("go on"), *(tool("y " * 10_000) for _ in range(3)))]
    began = time.process_time()
    found = chat(turns).around
    assert time.process_time() - began < 5.0
    assert sum(len(text) for one in found for text in one.results) <= MOST_AROUND + FIRST_RESULTS * (MOST_RESULT + 1)


@pytest.mark.parametrize("hostile", ['"', '"\\', "x" * 9_000, "\\u00e4" * 3_000, "[" * 50, 7, None, [], [{"type": 5}]])
def test_whatever_a_result_holds_nothing_is_raised(hostile: Any) -> None:
    assert chat([user("look"), {"role": "tool", "content": hostile}]).text == "look"


def test_a_file_or_an_image_beside_a_request_is_noticed() -> None:
    for part in ({"type": "file", "file": {}}, {"type": "image_url", "image_url": {}}):
        turn = {"role": "user", "content": [{"type": "text", "text": "this"}, part]}
        assert chat([turn]).around[0].has_attachment


def test_history_that_is_kept_elsewhere_is_cut() -> None:
    generate = Dialect.OLLAMA_GENERATE
    lost = seen(generate, {"prompt": "continue", "context": [1, 2]})
    assert (lost.is_cut, lost.hides_tools, lost.may_change_files) == (True, True, True)
    for whole in ({"context": []}, {"context": None}, {}):
        found = seen(generate, {"prompt": "continue", **whole})
        assert (found.is_cut, found.may_change_files) == (False, False)
    for more in ({"conversation": "conv_1"}, {"previous_response_id": "resp_1"}, {"prompt": {"id": "pmpt_1"}}):
        assert seen(Dialect.RESPONSES, {"input": "go on", **more}).is_cut
    assert not seen(Dialect.RESPONSES, {"input": "the conversation"}).is_cut
    assert not seen(Dialect.CHAT, {"messages": [user("x")], "context": [1]}).is_cut


def test_results_of_no_request_say_that_the_beginning_is_lost() -> None:
    assert chat([tool("one"), user("go on")]).is_cut
    assert not chat([user("look"), tool("one"), user("go on")]).is_cut
    assert not chat([tool("one"), user("go on")], READ).is_cut, "nothing can be changed there"
