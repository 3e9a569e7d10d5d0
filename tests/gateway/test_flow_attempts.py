"""What one request holds and records while it is asked of one serve or replica after the other."""

from __future__ import annotations

from tests.gateway.flow_stage import Stage, a_serve, ask, story

from stoker.domain.decision import Candidate
from stoker.domain.serve import Slot

NOBODY_LISTENS = 1
"""A port."""
TWO = a_serve(slot="g0", slots=("g0", "g1"), replicas=2)
SLOTS = (Slot("g0"), Slot("g1"))


async def dies_and_comes_back(stage: Stage, name: str) -> None:
    """A process that cannot be reached turns out to have exited; a new one answers."""
    stage.fleet.ports[name] = stage.model_port
    stage.fleet.die(name, "SIGKILL")


@story(TWO, slots=SLOTS)
async def test_the_last_replica_that_cannot_be_reached_is_started_again_and_each_attempt_is_recorded(
    stage: Stage,
) -> None:
    stage.fleet.ports |= {"a@g0": NOBODY_LISTENS, "a@g1": NOBODY_LISTENS}
    client = await stage.client()
    await client.send(ask())
    await stage.until(lambda: any(call.decision.attempts == 2 for call in stage.flow.active.values()), "both refused")
    last = next(iter(stage.flow.active.values())).decision.replica
    await dies_and_comes_back(stage, last)
    (await stage.asked()).reply({"ok": 1})
    assert (await client.reply()).status == 200
    decision = await stage.sealed()
    (first,) = {"a@g0", "a@g1"} - {last}
    assert decision.candidates == [Candidate(first, "unreachable"), Candidate("a")]
    assert [(one.serve, one.outcome) for one in decision.tried] == [(first, "unreachable"), (last, "served")]
    assert (decision.attempts, decision.replica) == (3, last)
    assert all(one.seconds is not None for one in decision.tried)


@story(a_serve())
async def test_a_request_whose_serve_answers_records_no_attempts(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    (await stage.asked()).reply({"ok": 1})
    assert (await client.reply()).status == 200
    assert (await stage.sealed()).tried == []
