"""The client's own names and tools come back, streamed or not."""

from __future__ import annotations

import pytest

from stoker.domain.answer import Answer, AnswerBlock, BlockKind, Closed, Event, Finished, Grew, Opened, StopReason
from stoker.domain.prompt import Text, ToolCall
from stoker.request.translate.restore import AnswerRestorer, unwrapped


def make() -> AnswerRestorer:
    return AnswerRestorer({"short": "the.long.name", "sh": "shell"}, frozenset(("shell", "patch")))


def streamed(name: str, *pieces: str, custom: bool = False) -> list[Event]:
    restore = make()
    events = [Opened(0, BlockKind.CALL, "t", name, custom), *(Grew(0, piece) for piece in pieces), Closed(0)]
    return [out for event in events for out in restore.feed(event)]


def whole(*blocks: AnswerBlock) -> list[AnswerBlock]:
    answer = Answer("", "", list(blocks))
    make().restore_whole(answer)
    return answer.blocks


def test_a_name_that_was_shortened_is_itself_again_and_others_stay() -> None:
    assert streamed("short", "{}") == [Opened(0, BlockKind.CALL, "t", "the.long.name"), Grew(0, "{}"), Closed(0)]
    assert streamed("other", "{}") == [Opened(0, BlockKind.CALL, "t", "other"), Grew(0, "{}"), Closed(0)]
    assert whole(ToolCall("t", "short", "{}"), ToolCall("u", "other", "{}"), Text("short")) == [
        ToolCall("t", "the.long.name", "{}"),
        ToolCall("u", "other", "{}"),
        Text("short"),
    ]


def test_calls_of_one_id_get_one_each_because_results_name_their_call() -> None:
    calls = [ToolCall(id, "other", "{}") for id in ("t", "t", "t_2", "", "")]
    assert [call.id for call in whole(*calls) if isinstance(call, ToolCall)] == ["t", "t_2", "t_2_2", "", ""]
    restore = make()
    opened = [out for at, id in enumerate(("t", "t")) for out in restore.feed(Opened(at, BlockKind.CALL, id, "other"))]
    assert [event.id for event in opened if isinstance(event, Opened)] == ["t", "t_2"]


@pytest.mark.parametrize(("name", "own"), [("patch", "patch"), ("sh", "shell")])
def test_a_custom_tool_gets_its_text_in_one_piece(name: str, own: str) -> None:
    assert streamed(name, '{"inp', 'ut":"any', ' text"}') == [
        Opened(0, BlockKind.CALL, "t", own, custom=True),
        Grew(0, "any text"),
        Closed(0),
    ]
    assert whole(ToolCall("t", name, '{"input":"any text"}')) == [ToolCall("t", own, "any text", custom=True)]


def test_a_custom_tool_that_was_given_nothing_grows_by_nothing() -> None:
    opened = Opened(0, BlockKind.CALL, "t", "patch", custom=True)
    assert streamed("patch") == [opened, Closed(0)]
    assert streamed("patch", '{"input":""}') == [opened, Closed(0)]


def test_a_custom_call_that_came_as_one_is_left_alone() -> None:
    opened = Opened(0, BlockKind.CALL, "t", "patch", custom=True)
    assert streamed("patch", '{"input":"a"}', custom=True) == [opened, Grew(0, '{"input":"a"}'), Closed(0)]
    given = ToolCall("t", "patch", '{"input":"a"}', custom=True)
    assert whole(given) == [ToolCall("t", "patch", '{"input":"a"}', custom=True)]


def test_what_comes_after_a_custom_call_is_not_held() -> None:
    restore = make()
    for event in (Opened(0, BlockKind.CALL, "t", "patch"), Grew(0, "{}"), Closed(0)):
        restore.feed(event)
    for later in (Opened(1, BlockKind.TEXT), Grew(1, "a"), Closed(1), Finished(StopReason.END)):
        assert restore.feed(later) == [later]


@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        ((" \n", '"{\\"a', '\\":1}"'), ['{"a":1}']),
        ((" \n", '{"a', '":1}'), [' \n{"a', '":1}']),
        (('"', "text", '"'), ['"text"']),
        (('"', '{\\"a'), ['"{\\"a']),
        ((" ", "\n"), [" \n"]),
        ((), []),
    ],
)
def test_arguments_in_a_string_are_held_and_unwrapped_and_others_go_on_live(
    pieces: tuple[str, ...], given: list[str]
) -> None:
    assert [event.text for event in streamed("other", *pieces) if isinstance(event, Grew)] == given
    (call,) = whole(ToolCall("t", "other", "".join(pieces)))
    assert isinstance(call, ToolCall)
    assert call.arguments == "".join(given)


@pytest.mark.parametrize("arguments", ["plain", "7", "[]", "{}", '{"input":7}', '{"text":"a"}', '{"input": "a'])
def test_arguments_of_another_form_are_the_text_themselves(arguments: str) -> None:
    assert unwrapped(arguments) == arguments
