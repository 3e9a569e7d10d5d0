"""Within a loop of tool calls the tier stays, and a fallback says so."""

from __future__ import annotations

from tests.auto.flow.test_flow_failing_tiers import route
from tests.auto.flow.test_flow_routing import LARGE, SMALL
from tests.gateway.flow_stage import Stage, ask, story
from tests.gateway.test_flow_sessions import CALL, answer

from stoker_lab.testing.client import RawReply

ASKED = {"role": "user", "content": "look into it"}
RESULTS = [ASKED, {"role": "assistant", "tool_calls": [CALL]},
           {"role": "tool", "tool_call_id": "c", "content": "it is there"}]  # fmt: skip


async def turn(stage: Stage, *answers: str, session: str = "me", goes_on: bool = True) -> RawReply:
    """`answers`: of each serve that is asked, in order: `calls`, `says`, or `fails`. `goes_on`: with the result of a
    call.
    """
    client = await stage.client()
    await client.send(ask(model="auto", prompt_cache_key=session, messages=RESULTS if goes_on else [ASKED]))
    for one in answers:
        talk = await stage.asked()
        if one == "fails":
            talk.reply({"error": {"message": "no"}}, "500 No")
        else:
            talk.reply(answer(calls=one == "calls"))
    reply = await client.reply()
    assert reply.status == 200
    await stage.quiet()
    return reply


def tier(reply: RawReply) -> tuple[str | None, str | None]:
    return reply.header("x-stoker-tier"), reply.header("x-stoker-fallback")


@story(SMALL, LARGE)
async def test_the_tier_that_answers_a_loop_goes_on_with_it(stage: Stage) -> None:
    route(stage)
    assert tier(await turn(stage, "fails", "calls", goes_on=False)) == ("dear", None)
    assert tier(await turn(stage, "calls")) == ("dear", None)
    assert any("dear: allow" in line and "kept while" in line for line in stage.decisions[-1].routed.why)  # type: ignore[union-attr]
    assert tier(await turn(stage, "calls", session="another")) == ("cheap", None)
    assert tier(await turn(stage, "says")) == ("dear", None)
    assert tier(await turn(stage, "says", goes_on=False)) == ("cheap", None)


@story(SMALL, LARGE)
async def test_a_request_that_brings_no_results_is_in_no_loop_and_ends_none(stage: Stage) -> None:
    route(stage)
    await turn(stage, "fails", "calls", goes_on=False)
    assert tier(await turn(stage, "says", goes_on=False)) == ("cheap", None)  # a title
    assert tier(await turn(stage, "calls")) == ("dear", None)


@story(SMALL, LARGE)
async def test_a_tier_that_fails_within_a_loop_is_named_by_the_answer_of_the_next(stage: Stage) -> None:
    route(stage)
    assert tier(await turn(stage, "calls", goes_on=False)) == ("cheap", None)
    name, fallback = tier(await turn(stage, "fails", "calls"))
    assert name == "dear"
    assert fallback is not None
    assert fallback.startswith("cheap: ")
    assert tier(await turn(stage, "says")) == ("dear", None)
