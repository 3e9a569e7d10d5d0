"""What becomes of a model's calls: a loop that always ends, within its bounds."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.answer import StopReason
from stoker.domain.prompt import ToolCall
from stoker.domain.server_tools import ServerToolKind, WebPage
from stoker_tools.loop import Ask, Begin, Command, End, Finish, LoopBounds, OfferedTool, Run, ToolLoop

OFFERED = {"web_search": OfferedTool(ServerToolKind.SEARCH, 8), "web_fetch": OfferedTool(ServerToolKind.FETCH, 3)}
PAGES = [WebPage("https://a.example/")]


def a_loop(max_rounds: int = 8, max_calls: int = 16, max_time: float = 100.0) -> ToolLoop:
    ids = (f"{number:024}" for number in itertools.count())
    return ToolLoop(OFFERED, LoopBounds(max_rounds, max_calls, max_time), lambda: next(ids))


def call(arguments: str, name: str = "web_search") -> ToolCall:
    return ToolCall("c", name, arguments)


def query(text: str) -> ToolCall:
    return call(json.dumps({"query": text}))


def runs(commands: list[Command]) -> list[Run]:
    return [command for command in commands if isinstance(command, Run)]


def errors(commands: list[Command]) -> list[str]:
    return [command.call.error for command in commands if isinstance(command, End)]


def finished(loop: ToolLoop, commands: list[Command], error: str = "", seconds: float = 1.0) -> list[Command]:
    """All that follows once the calls have run."""
    for run in runs(commands):
        commands = [*commands, *loop.on_result(run.call.id, PAGES, error, seconds)]
    return commands


def test_arguments_that_are_none_go_back_to_the_model() -> None:
    loop = a_loop()
    broken = [call(text) for text in ('{"query":', "[]", "{}", '{"query": 3}', '{"query": " "}', "", "[" * 5_000)]
    commands = loop.on_round(broken, False)
    assert errors(commands) == ["invalid_tool_input"] * 7
    assert [json.loads(one.call.arguments) for one in commands if isinstance(one, Begin)][-1] == {}
    assert commands[-1] == Ask(False)
    assert errors(loop.on_round([query("x" * 1001), call('{"url":"%s"}' % ("y" * 8193), "web_fetch")], False)) == [
        "max_uses_exceeded" if loop.rounds > 2 else "query_too_long", "url_too_long",
    ]  # fmt: skip


def test_equal_calls_run_once_in_a_round_and_after_it() -> None:
    loop = a_loop()
    commands = loop.on_round([query("a"), query("a"), query("b")], False)
    assert [run.argument for run in runs(commands)] == ["a", "b"]
    done = finished(loop, commands)
    assert [bool(one.call.pages) for one in done if isinstance(one, End)] == [True] * 3
    again = loop.on_round([query("a")], False)
    assert runs(again) == []
    assert [one.call.pages for one in again if isinstance(one, End)] == [PAGES]


def test_a_call_that_failed_may_be_tried_again() -> None:
    loop = a_loop()
    finished(loop, loop.on_round([query("a")], False), error="unavailable")
    assert len(runs(loop.on_round([query("a")], False))) == 1


@pytest.mark.holds("E")
def test_fifty_calls_in_one_turn_run_as_often_as_the_tool_may_be_used() -> None:
    loop = a_loop()
    commands = finished(loop, loop.on_round([query(str(at)) for at in range(50)], False))
    assert (len(runs(commands)), errors(commands).count("max_uses_exceeded")) == (8, 42)


def test_when_the_time_is_used_up_the_next_round_is_the_last() -> None:
    loop = a_loop(max_time=5)
    assert finished(loop, loop.on_round([query("a")], False), seconds=6)[-1] == Ask(True)
    assert loop.is_last


def test_calls_of_the_client_end_the_answer_once_the_tools_have_run() -> None:
    loop = a_loop()
    assert finished(loop, loop.on_round([query("a")], True))[-1] == Finish(StopReason.CALLS)


ARGUMENTS = st.sampled_from(['{"query":"a"}', '{"url":"u"}', "{"])
ANY_CALL = st.tuples(st.sampled_from(["web_search", "web_fetch"]), ARGUMENTS)
ROUND = st.tuples(st.lists(ANY_CALL, min_size=1, max_size=6), st.booleans(), st.floats(0, 40), st.booleans())


@pytest.mark.holds("E")
@settings(max_examples=60, deadline=None)
@given(st.lists(ROUND, min_size=12, max_size=12), st.integers(1, 5), st.integers(1, 8))
def test_whatever_models_and_tools_do_it_ends_within_its_bounds(
    rounds: list[tuple[list[tuple[str, str]], bool, float, bool]], max_rounds: int, max_calls: int
) -> None:
    loop = a_loop(max_rounds, max_calls, 60.0)
    ran = 0
    for at, (calls, has_client_calls, seconds, fails) in enumerate(rounds):
        assert at < max_rounds
        commands = loop.on_round([call(arguments, name) for name, arguments in calls], has_client_calls)
        ran += len(runs(commands))
        commands = finished(loop, commands, "unavailable" if fails else "", seconds)
        begun = [one.call.id for one in commands if isinstance(one, Begin)]
        assert sorted(begun) == sorted(one.call.id for one in commands if isinstance(one, End))
        assert [type(one) for one in commands].count(Ask) + [type(one) for one in commands].count(Finish) == 1
        if isinstance(commands[-1], Finish) or loop.is_last:
            break
    assert loop.rounds <= max_rounds
    assert ran <= max_calls
