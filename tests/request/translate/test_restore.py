"""The client's own names and tools come back, streamed or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.domain.answer import Answer, Closed, Event, Finished, Grew, Kind, Opened, Said, Stop
from stoker.domain.prompt import Call, Text
from stoker.request.translate.restore import Restore, unwrapped

MAKE: Callable[[], Restore] = lambda: Restore({"short": "the.long.name", "sh": "shell"}, frozenset(("shell", "patch")))  # noqa: E731


def streamed(name: str, *pieces: str, custom: bool = False) -> list[Event]:
    restore = MAKE()
    events = [Opened(0, Kind.CALL, "t", name, custom), *(Grew(0, piece) for piece in pieces), Closed(0)]
    return [out for event in events for out in restore.feed(event)]


def whole(*blocks: Said) -> list[Said]:
    answer = Answer("", "", list(blocks))
    MAKE().whole(answer)
    return answer.blocks


def test_a_name_that_was_shortened_is_itself_again_and_others_stay() -> None:
    assert streamed("short", "{}") == [Opened(0, Kind.CALL, "t", "the.long.name"), Grew(0, "{}"), Closed(0)]
    assert streamed("other", "{}") == [Opened(0, Kind.CALL, "t", "other"), Grew(0, "{}"), Closed(0)]
    assert whole(Call("t", "short", "{}"), Call("t", "other", "{}"), Text("short")) == [
        Call("t", "the.long.name", "{}"),
        Call("t", "other", "{}"),
        Text("short"),
    ]


@pytest.mark.parametrize(("name", "own"), [("patch", "patch"), ("sh", "shell")])
def test_a_custom_tool_gets_its_text_in_one_piece(name: str, own: str) -> None:
    assert streamed(name, '{"inp', 'ut":"any', ' text"}') == [
        Opened(0, Kind.CALL, "t", own, custom=True),
        Grew(0, "any text"),
        Closed(0),
    ]
    assert whole(Call("t", name, '{"input":"any text"}')) == [Call("t", own, "any text", custom=True)]


def test_a_custom_tool_that_was_given_nothing_grows_by_nothing() -> None:
    opened = Opened(0, Kind.CALL, "t", "patch", custom=True)
    assert streamed("patch") == [opened, Closed(0)]
    assert streamed("patch", '{"input":""}') == [opened, Closed(0)]


def test_a_custom_call_that_came_as_one_is_left_alone() -> None:
    opened = Opened(0, Kind.CALL, "t", "patch", custom=True)
    assert streamed("patch", '{"input":"a"}', custom=True) == [opened, Grew(0, '{"input":"a"}'), Closed(0)]
    given = Call("t", "patch", '{"input":"a"}', custom=True)
    assert whole(given) == [Call("t", "patch", '{"input":"a"}', custom=True)]


def test_what_comes_after_a_custom_call_is_not_held() -> None:
    restore = MAKE()
    for event in (Opened(0, Kind.CALL, "t", "patch"), Grew(0, "{}"), Closed(0)):
        restore.feed(event)
    for later in (Opened(1, Kind.TEXT), Grew(1, "a"), Closed(1), Finished(Stop.END)):
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
    (call,) = whole(Call("t", "other", "".join(pieces)))
    assert isinstance(call, Call)
    assert call.arguments == "".join(given)


@pytest.mark.parametrize("arguments", ["plain", "7", "[]", "{}", '{"input":7}', '{"text":"a"}', '{"input": "a'])
def test_arguments_of_another_form_are_the_text_themselves(arguments: str) -> None:
    assert unwrapped(arguments) == arguments
