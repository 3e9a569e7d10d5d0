"""An upload that hardly comes gives its place back, over a real socket."""

from __future__ import annotations

import asyncio

from tests.gateway.flow_stage import Stage, ask, story

from stoker.request.accept.connection import UploadPace

PACE = UploadPace(seconds=0.1, rate=1000)


@story(pace=PACE)
async def test_an_upload_that_is_too_slow_ends_with_408_and_holds_nothing(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(content="x" * 500)[:-400])
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (408, "slow_upload")
    assert "send at least 1000 per second" in reply.json()["error"]["message"]
    decision = await stage.sealed()
    assert (decision.outcome, decision.reason) == ("refused", "slow_upload")
    assert stage.lines == []


@story(pace=PACE)
async def test_an_upload_that_keeps_the_pace_takes_as_long_as_it_takes(stage: Stage) -> None:
    client = await stage.client()
    request = ask(content="x" * 3000)
    for at in range(0, len(request), 400):
        await client.send(request[at : at + 400])
        await asyncio.sleep(0.04)
    (await stage.asked()).reply({})
    assert (await client.reply()).status == 200
