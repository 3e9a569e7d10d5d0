"""Answers that a judge grades after the client has them: what is drawn, what is dropped and why, and what it costs."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker import shadow
from stoker.domain.dialect import Dialect
from stoker.domain.routing import BreakerLimits, Router
from stoker.domain.routing import Shadow as Settings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver
from stoker.domain.tier import Cost, Row, Tier, Verdict, Verify
from stoker.fleet.residency import Residency
from stoker.judge import Judge
from stoker.request.translate.thinking import Signer
from stoker.routing import Routing
from stoker.shadow import Shadow
from stoker.speech import Speech
from stoker.store import live
from stoker.store.live import read
from stoker.store.routed import RoutedCounts
from stoker.testing.client import compose
from test_flow_routing import TOOL, a_call, piece, whole
from test_flow_stage import PATIENCE, LoopClock, Stage, Talk, a_serve, ask, story

DAY = 86_400.0
CHAT = frozenset((Dialect.CHAT,))
SMALL = a_serve("small", served_name="small-1", dialects=CHAT)
LARGE = a_serve("large", served_name="large-1", dialects=CHAT, max_active=1)
PRICE = Cost(1.0, 2.0)
MODES = (Verify.OFF, Verify.OBSERVE, Verify.HOLD_TOOLS, Verify.HOLD_ALL)


class House:
    """A stage with a shadow: `small` answers, `large` grades. Chance always draws."""

    def __init__(self, stage: Stage, state: Path, verify: Verify, cost: Cost, settings: dict[str, Any]) -> None:
        self.stage = stage
        self.state = state
        self.at = 1.0
        self.counts = RoutedCounts()
        tiers = (
            Tier("cheap", "small", verify=verify),
            Tier("dear", "large", cloud=True, cost=cost, verify=Verify.OFF),
        )
        router = settings.pop("router", {})
        settings = {"rate": 1.0, "judge": "dear", **settings}
        sees = Residency(stage.conductor.scheduler.seats)
        configured = Router(tiers, breaker=BreakerLimits(2), shadow=Settings(**settings), **router)
        self.routing = stage.flow.routing = Routing(configured, stage.serves, {}, sees, LoopClock().now)
        self.know("i")
        judge = Judge(stage.conductor, stage.pool, Speech(Signer((b"key" * 11,)), lambda: self.at))
        self.shadow = Shadow(state, judge, self.counts, lambda: self.at, chance=lambda: 0.5)
        self.begin()

    def begin(self) -> None:
        self.stage.flow.chooser.grades = self.shadow if self.shadow.begin(self.routing) else None

    def know(self, identity: str) -> None:
        self.routing.fingerprints["small"] = Fingerprint(identity, "e", {"model": "x"})
        self.routing.live.add("small")

    async def load(self) -> None:
        """The judge is there, as it is where requests were sent to it before."""
        await self.stage.conductor.switch("large")

    async def grade(self, word: str = "pass", usage: tuple[int, int] = (1000, 100)) -> str:
        """The judge is asked, and says this; what it was asked."""
        talk = await self.judged()
        talk.reply(verdict(word, usage))
        return str(talk.json()["messages"][-1]["content"])

    async def judged(self) -> Talk:
        talk = await self.stage.asked()
        assert talk.json()["model"] == "large-1"
        return talk

    async def dropped(self, reason: str, times: int = 1) -> None:
        await self.stage.until(lambda: self.counts.ungraded[reason] == times, f"{reason}: {self.counts.ungraded}")

    async def graded(self, times: int = 1) -> None:
        await self.stage.until(lambda: sum(self.counts.graded.values()) == times, f"graded: {self.counts.ungraded}")

    @property
    def row(self) -> tuple[int, int]:
        one = self.shadow.rows["cheap", "chat"]
        return one.passed, one.n


def verdict(word: str, usage: tuple[int, int] = (1000, 100)) -> dict[str, Any]:
    said = whole(json.dumps({"verdict": word}))
    return {**said, "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]}}


@asynccontextmanager
async def house(
    stage: Stage, verify: Verify = Verify.HOLD_TOOLS, cost: Cost = PRICE, **settings: Any
) -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory() as state:
        made = House(stage, Path(state), verify, cost, settings)
        try:
            yield made
        finally:
            await made.shadow.close()


async def served(stage: Stage, text: str = "hello", model: str = "auto:chat", **fields: Any) -> Any:
    """One request that the tier answers, not streamed."""
    client = await stage.client()
    await client.send(ask(model=model, **fields))
    talk = await stage.asked()
    assert talk.json()["model"] == "small-1"
    talk.reply(whole(text))
    return await client.reply()


# -- what is graded ---------------------------------------------------------------------------------------------------


@story(SMALL, LARGE)
async def test_an_answer_that_the_client_has_is_graded_and_the_grade_is_kept_with_what_it_cost(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        reply = await served(stage, "4", messages=[{"role": "user", "content": "2+2?"}])
        assert reply.json()["choices"][0]["message"]["content"] == "4"
        asked = await it.grade("pass")
        assert ("2+2?" in asked, "\n4\n" in asked) == (True, True)
        await it.graded()
        assert it.row == (1, 1)
        status = it.shadow.status()
        assert status is not None
        assert (status["graded"], status["passed"], status["dropped"]) == (1, 1, {})
        assert status["spent_today"] == pytest.approx(0.0012)
        decision = await stage.sealed()
        assert it.shadow.told(decision.id) == "pass by judge dear"
        assert it.shadow.told("another") == ""
        await stage.until((it.state / "live.json").exists, "it is written")


@pytest.mark.parametrize("verify", MODES)
def test_a_stream_is_read_on_its_way_whatever_is_checked_of_it(verify: Verify) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage, verify) as it:
            await it.load()
            client = await stage.client()
            await client.send(ask(model="auto:chat", stream=True, tools=[TOOL]))
            talk = await stage.asked()
            talk.begin()
            talk.say("let me ")
            talk.say("look")
            talk.chunk(piece(tool_calls=a_call()))
            talk.end()
            head = await client.head()
            events = [event async for event in client.events(head)]
            assert sum("let me " in event.data for event in events) == 1
            asked = await it.grade("fail")
            assert 'let me look\n[call] look({"at":"it"})' in asked
            assert "[tool look]" in asked
            await it.graded()
            assert it.row == (0, 1)

    tell()


@story(SMALL, LARGE)
async def test_a_request_that_is_drawn_is_sent_and_answered_byte_for_byte_as_one_that_is_not(stage: Stage) -> None:
    seen = []
    for rate in (0.0, 1.0):
        async with house(stage, Verify.OFF, rate=rate) as it:
            await it.load()
            client = await stage.client()
            await client.send(ask(model="auto:chat", odd={"field": 1}))
            talk = await stage.asked()
            talk.reply(b'{"choices"  :[], "odd":1}')
            reply = await client.reply()
            seen.append((talk.body, reply.body, reply.header("x-stoker-translation")))
            stage.decisions.clear()
            if rate:
                (await it.judged()).reply(verdict("pass"))
    assert seen[0] == seen[1]


@story(SMALL, LARGE)
async def test_with_rate_0_nothing_is_drawn_and_nobody_is_asked(stage: Stage) -> None:
    async with house(stage, rate=0.0) as it:
        await it.load()
        assert stage.flow.chooser.grades is None
        await served(stage)
        assert (it.shadow.status(), it.counts.graded, it.counts.ungraded) == (None, {}, {})
        assert not (it.state / "live.json").exists()


@story(SMALL, LARGE)
async def test_what_was_repaired_is_graded_as_the_client_got_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        await client.send(ask(model="auto:chat", stream=True, tools=[TOOL]))
        talk = await stage.asked()
        talk.begin()
        talk.say("let me look")
        head = await client.head()
        talk.chunk(piece(tool_calls=a_call("no_such_tool")))
        talk.end()
        talk = await stage.asked()
        talk.begin()
        talk.say("sorry")
        talk.chunk(piece(tool_calls=a_call()))
        talk.end()
        assert [event async for event in client.events(head)]
        asked = await it.grade()
        assert ("let me look\n[call] look(" in asked, "no_such_tool" in asked, "sorry" in asked) == (True, False, False)


@story(SMALL, LARGE)
async def test_an_answer_of_the_judge_itself_is_not_graded(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        await client.send(ask(model="auto:chat"))
        (await stage.asked()).reply({}, "500 Internal Server Error")
        (await it.judged()).reply(whole())
        assert (await client.reply()).header("x-stoker-tier") == "dear"
        await stage.quiet()
        assert (it.counts.graded, it.counts.ungraded) == ({}, {})


@story(SMALL, LARGE)
async def test_grades_of_another_fingerprint_begin_anew(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        for number, identity in enumerate(("i", "i", "j"), 1):
            it.know(identity)
            await served(stage)
            await it.grade("pass")
            await it.graded(number)
            stage.decisions.clear()
        assert it.row == (1, 1)


# -- what is dropped, and why ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "fields", "answer"),
    [
        ("too_long", {"messages": [{"role": "user", "content": "x" * 33_000}]}, whole()),
        ("too_long", {"messages": [{"role": "user", "content": "x" * 300_000}]}, whole()),
        ("too_long", {}, whole("y" * 33_000)),
        ("cut_short", {}, {**whole(), "choices": [{**whole()["choices"][0], "finish_reason": "length"}]}),
        ("unread", {}, b'"no answer"'),
        (
            "not_text",
            {"messages": [{"role": "user", "content": [
                {"type": "text", "text": "what is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ]}]},
            whole(),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_graded_is_counted_and_nobody_is_asked(
    reason: str, fields: dict[str, Any], answer: object
) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage, Verify.OFF) as it:
            await it.load()
            client = await stage.client()
            await client.send(ask(model="auto:chat", **fields))
            (await stage.asked()).reply(answer)
            assert (await client.reply()).status == 200
            await it.dropped(reason)
            assert it.counts.graded == {}

    tell()


@story(SMALL, LARGE)
async def test_a_tier_that_nobody_has_looked_at_is_not_graded(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.routing.live.clear()
        await served(stage)
        await it.dropped("tier_unknown")


@pytest.mark.parametrize("router", [{"allow_cloud": False}, {"cloud_classes": ()}])
def test_what_may_not_go_to_a_cloud_is_not_shown_to_a_judge_in_one(router: dict[str, Any]) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage, router=router) as it:
            await it.load()
            await served(stage)
            await it.dropped("not_permitted")

    tell()


@story(SMALL, LARGE)
async def test_a_full_queue_drops_and_no_request_waits_for_it(stage: Stage) -> None:
    async with house(stage, queue=1) as it:
        await it.load()
        await served(stage)
        first = await it.judged()
        for _ in range(3):
            await served(stage)
        assert it.counts.ungraded == {"queue_full": 2}
        first.reply(verdict("pass"))
        await it.grade("fail")
        await it.graded(2)
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_where_the_judge_has_no_free_place_the_live_traffic_goes_first(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        lease = stage.conductor.acquire("large")
        assert not isinstance(lease, asyncio.Future)
        await served(stage)
        await it.dropped("judge_busy")
        lease.release()


@story(SMALL, LARGE)
async def test_nothing_is_loaded_for_a_grade(stage: Stage) -> None:
    async with house(stage) as it:
        await served(stage)
        await it.dropped("judge_not_loaded")
        assert not it.routing.is_loaded(it.routing.router.tiers[1])


Fails = Callable[[Talk], None]


@pytest.mark.parametrize(
    ("reason", "fails"),
    [
        ("judge_failed", lambda talk: talk.reply({}, "500 Internal Server Error")),
        ("judge_failed", lambda talk: talk.close()),
        ("judge_failed", lambda talk: talk.reply(b"no JSON")),
        ("judge_busy", lambda talk: talk.reply({}, "429 Too Many Requests")),
        ("judge_unclear", lambda talk: talk.reply(whole("I like it"))),
        ("unsure", lambda talk: talk.reply(verdict("unsure"))),
    ],
)
def test_a_judge_that_fails_or_says_no_grade_gives_no_sample(reason: str, fails: Fails) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage) as it:
            await it.load()
            await served(stage)
            fails(await it.judged())
            await it.dropped(reason)
            assert (it.shadow.rows, it.counts.graded) == ({}, {})

    tell()


@story(SMALL, LARGE)
async def test_a_judge_that_refuses_the_settings_is_asked_without_them_from_then_on(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        talk = await it.judged()
        assert talk.json()["temperature"] == 0
        talk.reply({"error": {"message": "no temperature"}}, "400 Bad Request")
        talk = await it.judged()
        assert "temperature" not in talk.json()
        talk.reply(verdict("pass"))
        await it.graded()
        await served(stage)
        talk = await it.judged()
        assert "temperature" not in talk.json()
        talk.reply({}, "400 Bad Request")
        await it.dropped("judge_failed")
        assert it.routing.state("dear") == "closed"
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_a_judge_that_takes_too_long_is_given_up_and_paid_for_as_far_as_can_be_told(stage: Stage) -> None:
    async with house(stage, timeout=0.02) as it:
        await it.load()
        await served(stage)
        talk = await it.judged()
        await it.dropped("judge_timeout")
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert it.shadow.spent.amount > 0


@story(SMALL, LARGE)
async def test_a_judge_that_fails_too_often_is_left_alone_as_any_tier_is(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        for number in (1, 2):
            await served(stage)
            (await it.judged()).reply({}, "500 Internal Server Error")
            await it.dropped("judge_failed", number)
        assert it.routing.state("dear") == "open"
        await served(stage)
        await it.dropped("judge_unwell")
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_a_drain_of_the_judge_ends_the_grading_and_is_no_fault_of_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        talk = await it.judged()
        stage.conductor.restart("large", "the story")
        await it.dropped("judge_busy")
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert it.routing.state("dear") == "closed"


@story(SMALL, a_serve("large", served_name="large-1", dialects=CHAT, driver=Driver.EXTERNAL))
async def test_a_judge_that_runs_elsewhere_is_looked_at_first_where_nobody_used_it_yet(stage: Stage) -> None:
    async with house(stage) as it:
        stage.fleet.gates["large"] = asyncio.Event()
        await served(stage)
        await stage.until(lambda: "start large" in stage.fleet.journal, "it is looked at")
        stage.fleet.gates["large"].set()
        await it.grade("pass")
        await it.graded()


@story(SMALL, a_serve("large", served_name="large-1", dialects=CHAT, driver=Driver.EXTERNAL))
async def test_the_end_while_the_judge_is_looked_at_leaves_nobody_waiting(stage: Stage) -> None:
    async with house(stage, timeout=0.02) as it:
        stage.fleet.gates["large"] = asyncio.Event()
        await served(stage)
        await it.dropped("judge_timeout")
        assert stage.left()["seated"] == 0
        await served(stage)
        await stage.until(lambda: stage.left()["seated"] == 1, "it waits")
        await it.shadow.close()
        stage.fleet.gates["large"].set()
        stage.decisions.clear()


@story(SMALL, a_serve("large", served_name="large-1", dialects=CHAT, context=700))
async def test_what_is_longer_than_the_judges_context_is_not_sent_to_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        await it.dropped("too_long")


@pytest.mark.parametrize("reason", ["tier_unknown", "not_permitted"])
def test_a_reload_counts_for_what_waits_already(reason: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage) as it:
            await it.load()
            await served(stage)
            first = await it.judged()
            await served(stage)
            router = it.routing.router
            tiers = router.tiers[1:] if reason == "tier_unknown" else router.tiers
            fresh = Router(tiers, shadow=router.shadow, allow_cloud=reason == "tier_unknown")
            it.routing.configure(fresh, stage.serves)
            it.begin()
            first.reply(verdict("pass"))
            await it.dropped(reason)
            stage.decisions.clear()

    tell()


@story(SMALL, LARGE)
async def test_a_cloud_is_graded_by_the_name_of_its_model_and_another_model_begins_anew(stage: Stage) -> None:
    async with house(stage, judge="cheap") as it:
        it.routing.rows["cheap", "chat"] = Row("cheap", "chat", "i", "e", 3, 0, Verdict.DENY)
        await stage.conductor.switch("small")
        client = await stage.client()
        for word in ("fail", "fail", "fail"):
            await client.send(ask(model="auto:chat"))
            (await it.judged()).reply(whole())
            await client.reply()
            talk = await stage.asked()
            assert talk.json()["model"] == "small-1"
            talk.reply(verdict(word))
            await it.graded(it.shadow.rows["dear", "chat"].n + 1 if it.shadow.rows else 1)
            stage.decisions.clear()
        dear = it.routing.router.tiers[1]
        assert it.shadow.rows["dear", "chat"].identity == "large-1"
        assert it.routing.standing(dear, "chat").why == "denied: live answers: 0 of 3 passed"
        it.routing.configure(it.routing.router, [SMALL, replace(LARGE, served_name="large-2")])
        assert it.routing.standing(dear, "chat").why == "trusted, not measured"


# -- money, and what is kept -----------------------------------------------------------------------------------------


@story(SMALL, LARGE)
async def test_the_days_money_ends_the_grading_until_the_next_day(stage: Stage) -> None:
    """One question costs 0.7 here; a second one might go beyond the cap."""
    async with house(stage, cost=Cost(700.0, 0.0), cost_cap=1.0) as it:
        await it.load()
        await served(stage)
        await it.grade("pass")
        await it.graded()
        it.shadow._counts.ungraded.clear()
        it.shadow.spent = it.shadow.spent.plus(0.25, it.at)
        await served(stage)
        await it.dropped("cost_cap")
        it.at += DAY
        await served(stage)
        await it.grade("pass")
        await it.graded(2)
        assert it.shadow.status()["spent_today"] == pytest.approx(0.7)  # type: ignore[index]
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_grades_and_what_was_spent_are_there_after_a_restart(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await served(stage)
        await it.grade("fail")
        await it.graded()
        await it.shadow.close()
        rows, spent = read(it.state / "live.json")
        assert [(row.passed, row.n, row.source) for row in rows.values()] == [(0, 1, "live")]
        assert spent.amount == pytest.approx(0.0012)
        again = House(stage, it.state, Verify.OFF, Cost(), {})
        assert (again.row, again.shadow.spent) == ((0, 1), spent)
        await again.shadow.close()


@story(SMALL, LARGE)
async def test_what_changes_while_it_is_written_is_written_after_it_in_one(
    stage: Stage,
) -> None:
    go, bodies = threading.Event(), list[bytes]()

    def slow(path: Path, body: bytes) -> None:
        bodies.append(body)
        go.wait(PATIENCE)
        if len(bodies) == 2:
            raise OSError(28, "the disk is full")

    async with house(stage) as it:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live, "write", slow)
            await it.load()
            for number in (1, 2, 3):
                await served(stage)
                await it.grade("pass")
                await it.graded(number)
            await stage.until(lambda: bodies, "the first is under way")
            go.set()
            await stage.until(lambda: len(bodies) == 2, "what came meanwhile")
            await it.shadow.close()
        assert [json.loads(body)["rows"][0]["n"] for body in bodies] == [1, 3]
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_only_so_many_grades_are_remembered_by_their_request(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shadow, "REMEMBERED", 1)
            for number in (1, 2):
                await served(stage)
                await it.grade("pass")
                await it.graded(number)
        assert [bool(it.shadow.told(one.id)) for one in stage.decisions] == [False, True]
        stage.decisions.clear()


@story(SMALL, LARGE)
async def test_what_a_suite_measures_afterwards_takes_the_place_of_the_grades(stage: Stage) -> None:
    async with house(stage) as it:
        it.shadow.rows["cheap", "chat"] = Row("cheap", "chat", "i", "e", 20, 12, Verdict.DENY, source="live", at=5.0)
        before = {("cheap", "chat"): Row("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW, at=1.0)}
        it.routing.learn(before)
        assert it.routing.graded == {}, "it is new to Stoker, however old it is"
        it.shadow.rows["cheap", "chat"] = Row("cheap", "chat", "i", "e", 20, 12, Verdict.DENY, source="live", at=5.0)
        it.routing.learn(dict(before))
        assert len(it.routing.graded) == 1, "nothing was measured since"
        it.routing.rows["cheap", "chat"] = Row("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW, at=6.0)
        it.shadow._written = b""
        it.begin()
        assert it.shadow.rows == {}, "measured while Stoker did not run"
        await stage.until((it.state / "live.json").exists, "it is written")
        await stage.until(lambda: read(it.state / "live.json")[0] == {}, "it is written")


@story(SMALL, LARGE)
async def test_live_grades_bring_the_checks_back_where_the_suite_allowed(stage: Stage) -> None:
    async with house(stage) as it:
        allowed = Row("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW)
        it.routing.rows["cheap", "chat"] = allowed
        await it.load()
        await served(stage)
        for number in (1, 2, 3):
            await it.grade("fail")
            await it.graded(number)
            if number < 3:
                await served(stage)
        await served(stage)
        verdicts = [decision.routed.verify for decision in stage.decisions if decision.routed]
        assert verdicts == ["observe", "observe", "observe", "hold-tools"]
        assert "live answers: 0 of 3 passed" in str(stage.decisions[-1].routed)
        assert [one[:2] for one in it.routing.stale()] == [("cheap", "chat")]
        await it.grade("pass")
        stage.decisions.clear()


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "reload"])
def test_the_end_takes_the_judges_place_back_at_once_and_drops_what_waits(how: str) -> None:
    @story(SMALL, LARGE)
    async def tell(stage: Stage) -> None:
        async with house(stage) as it:
            await it.load()
            await served(stage)
            talk = await it.judged()
            await served(stage)
            if how == "stop":
                it.shadow.stop()
            else:
                it.routing.configure(Router(it.routing.router.tiers), stage.serves)
                it.begin()
                assert stage.flow.chooser.grades is None
            await asyncio.wait_for(talk.gone.wait(), PATIENCE)
            await stage.quiet()
            assert it.counts.graded == {}
            stage.decisions.clear()

    tell()


@story(SMALL, LARGE)
async def test_a_request_under_way_when_grading_ends_is_not_offered_to_nobody(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        await client.send(ask(model="auto:chat"))
        talk = await stage.asked()
        it.shadow.stop()
        talk.reply(whole())
        assert (await client.reply()).status == 200
        assert (it.counts.graded, it.counts.ungraded) == ({}, {})


@story(SMALL, LARGE)
async def test_a_client_that_leaves_is_not_graded(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        await client.send(ask(model="auto:chat", stream=True))
        talk = await stage.asked()
        talk.begin()
        talk.say("hello")
        await client.head()
        await client.close()
        await talk.gone.wait()
        await stage.sealed()
        assert (it.counts.graded, it.counts.ungraded) == ({}, {})


@story(SMALL, LARGE)
async def test_counting_tokens_is_no_answer_to_grade(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        document = {"model": "auto:chat", "messages": [{"role": "user", "content": "hi"}]}
        await client.send(compose("POST", "/v1/messages/count_tokens", document))
        (await stage.asked()).reply({"input_tokens": 12})
        assert (await client.reply()).json() == {"input_tokens": 12}
        assert (it.counts.graded, it.counts.ungraded) == ({}, {})
