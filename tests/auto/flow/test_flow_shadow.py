"""Answers that a judge grades after the client has them: what is drawn, what is dropped and why, and what it costs."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.auto.flow.routed import use_router
from tests.auto.flow.test_flow_routing import TOOL, a_call, piece, whole
from tests.gateway.flow_stage import PATIENCE, LoopClock, Stage, Talk, a_serve, ask, story

from stoker.domain.dialect import Dialect
from stoker.domain.routing import BreakerLimits, RouterSettings, ShadowSettings, Unmeasured
from stoker.domain.run import Fingerprint
from stoker.domain.tier import Cost, Tier, Verify
from stoker.domain.usage import ServeUsage
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker_auto.counts import RoutedCounts
from stoker_auto.quality.judge import Judge
from stoker_auto.quality.shadow import ShadowGrader
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.artifacts import record_file
from stoker_lab.judge_prompt import WORDING
from stoker_lab.testing.client import compose_request
from stoker_lab.validator import judge_rates
from stoker_lab.validator.judge_rates import JudgedCase

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
            Tier(
                "dear",
                "large",
                cloud=settings.pop("judge_cloud", True),
                cost=cost,
                verify=Verify.OFF,
                classes=settings.pop("judge_classes", ("*",)),
            ),
        )
        router = settings.pop("router", {})
        settings = {"rate": 1.0, "judge": "dear", **settings}
        sees = stage.conductor.residency
        configured = RouterSettings(
            tiers, unmeasured=Unmeasured.CHEAPEST, breaker=BreakerLimits(2), shadow=ShadowSettings(**settings), **router
        )
        self.tier_quality = TierQuality({})
        self.router = TierRouter(configured, stage.serves, self.tier_quality, sees, LoopClock().now)
        self.know("i")
        client = InternalClient(stage.pool, Formatter(ThinkingSigner((b"key" * 11,)), lambda: self.at))
        self.used: list[ServeUsage] = []
        judge = Judge(stage.conductor, client, LoopClock().now, self.used.append)
        self.notes: list[tuple[str, str, str]] = []
        self.shadow = ShadowGrader(
            self.tier_quality,
            state,
            judge,
            self.counts,
            lambda: self.at,
            lambda: 0.5,
            lambda *note: self.notes.append(note),
        )
        self.begin()

    def begin(self) -> None:
        self.is_on = self.shadow.use_router(self.router)
        use_router(self.stage, self.router, grader=self.shadow if self.is_on else None)

    def measure_judge(self, task: str = "chat", model: str = "large-1", wrong: int = 0) -> None:
        """As `stoker eval validator` leaves it: so many right answers were failed."""
        cases = [JudgedCase(f"{right}{at}", right, "pass" if right and at >= wrong else "fail", 1.0)
                 for right in (True, False) for at in range(20)]  # fmt: skip
        head = judge_rates.header_of(Fingerprint(model), WORDING, "cases", len(cases))
        with record_file.writer(judge_rates.path_of(self.state, "large", task), head, is_continued=False) as write:
            for one in cases:
                write(one)
        self.shadow.use_router(self.router)

    def know(self, identity: str) -> None:
        self.tier_quality.on_identified("small", Fingerprint(identity, "e", {"model": "x"}))

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
        one = self.tier_quality.grades["cheap", "chat"]
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
        assert [(one.serve, one.input, one.output) for one in it.used] == [("large", 1000, 100)]
        assert it.used[0].accelerator_seconds > 0
        status = it.shadow.status()
        assert status is not None
        assert (status["graded"], status["passed"], status["dropped"]) == (1, 1, {})
        assert status["spent_today"] == pytest.approx(0.0012)
        decision = await stage.sealed()
        assert it.shadow.grade_of(decision.id).startswith("pass by judge dear; it does not count: the judge 'dear' may")
        assert status["uncounted"][0]["class"] == "chat"
        assert it.shadow.grade_of("another") == ""
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
            talk.reply(b'{"choices"  :[{"message":{"role":"assistant","content":"x"}}], "odd":1}')
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
        assert not it.is_on
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
        assert (it.counts.graded, it.counts.ungraded) == ({}, {"own_answer": 1})


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
                it.router.configure(
                    RouterSettings(it.router.settings.tiers, unmeasured=Unmeasured.CHEAPEST), stage.serves
                )
                it.begin()
                assert not it.is_on
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
        await client.send(compose_request("POST", "/v1/messages/count_tokens", document))
        (await stage.asked()).reply({"input_tokens": 12})
        assert (await client.reply()).json() == {"input_tokens": 12}
        assert (it.counts.graded, it.counts.ungraded) == ({}, {})
