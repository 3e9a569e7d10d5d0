"""A model that tells the class of a request where the built-in classifier is not sure: when it is asked, what counts of
what it says, and that no request waits for long or fails of it.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.asker import Asker
from stoker.companion import Companion
from stoker.domain.decision import Routed
from stoker.domain.dialect import Dialect
from stoker.domain.routing import BreakerLimits, Router
from stoker.domain.routing import Companion as Settings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver, Translation
from stoker.domain.task import Outline, Source, Task
from stoker.domain.tier import Tier
from stoker.fleet.residency import Residency
from stoker.measure import companion as proofs
from stoker.measure.labelled import held_out
from stoker.request.translate.thinking import Signer
from stoker.routing import Routing
from stoker.speech import Speech
from stoker.testing.client import compose
from test_flow_routing import whole
from test_flow_stage import PATIENCE, LoopClock, Stage, Talk, a_serve, ask, story

CHAT = frozenset((Dialect.CHAT,))
SMALL = a_serve("small", served_name="small-1", dialects=CHAT)
TELLER = a_serve("teller", served_name="teller-1", dialects=CHAT, max_active=1)
CLOUD = replace(TELLER, driver=Driver.EXTERNAL, translation=Translation(cloud=True))
MARK = Fingerprint("i", "e")
UNSURE = Task("chat", Source.LEARNED, ("sure:50%",), sure=0.5, risk=0.2)


class House:
    """`small` answers, `teller` tells classes and has proved it; the built-in classifier says `task`."""

    def __init__(self, stage: Stage, state: Path, task: Task, settings: Settings, router: dict[str, Any]) -> None:
        self.stage = stage
        self.state = state
        self.counts: Counter[str] = Counter()

        def classify(seen: Outline, declared: str | None, known: Collection[str]) -> Task:
            return task if declared is None else Task(declared, Source.DECLARED)

        tiers = (Tier("cheap", "small", classes=("*",)),)
        sees = Residency(stage.conductor.scheduler.seats)
        router = {"high_risk": (), "breaker": BreakerLimits(2), **router}
        configured = Router(tiers, classifier=settings, **router)
        self.routing = stage.flow.routing = Routing(configured, stage.serves, {}, sees, LoopClock().now, classify)
        self.know(MARK)
        asker = Asker(stage.pool, Speech(Signer((b"key" * 11,)), lambda: 1.0))
        self.companion = Companion(state, stage.conductor, asker, self.counts, LoopClock().now)
        self.prove(MARK)

    def know(self, mark: Fingerprint) -> None:
        self.routing.fingerprints["teller"] = mark
        self.routing.live.add("teller")

    def prove(self, mark: Fingerprint, rows: int | None = None, word: str = "") -> None:
        """As `stoker eval classifier` leaves it; `word`: it said this of each prompt, and not its label."""
        path = proofs.path_of(self.state, "teller")
        path.parent.mkdir(exist_ok=True)
        lines = [proofs.Said(row.digest, word or row.task_class, 0.01) for row in held_out()[:rows]]
        path.write_bytes(b"".join([proofs.line(proofs.mark(mark)), *map(proofs.line, lines)]))
        self.begin()

    def begin(self) -> None:
        self.stage.flow.chooser.companion = self.companion if self.companion.begin(self.routing) else None

    async def load(self) -> None:
        await self.stage.conductor.switch("teller")

    async def told(self) -> Talk:
        talk = await self.stage.asked()
        assert talk.json()["model"] == "teller-1"
        return talk

    async def say(self, text: str) -> Talk:
        talk = await self.told()
        talk.reply(whole(text))
        return talk

    async def served(self) -> Routed:
        """The tier is asked and answers: what routing made of the request."""
        talk = await self.stage.asked()
        assert talk.json()["model"] == "small-1"
        talk.reply(whole())
        decision = await self.stage.sealed()
        self.stage.decisions.clear()
        assert decision.outcome == "served"
        assert decision.routed is not None
        return decision.routed


@asynccontextmanager
async def house(
    stage: Stage, task: Task = UNSURE, below: float = 0.8, timeout: float = PATIENCE, **router: Any
) -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory() as state:
        yield House(stage, Path(state), task, Settings("teller", timeout, below), router)


async def sent(stage: Stage, model: str = "auto", **fields: Any) -> None:
    client = await stage.client()
    await client.send(ask(model=model, **fields))


def seen(routed: Routed) -> tuple[str, str, list[str]]:
    return routed.task, routed.source, routed.notes


# -- what it says ----------------------------------------------------------------------------------------------------


@story(SMALL, TELLER)
async def test_where_the_built_in_classifier_is_not_sure_the_model_tells_the_class(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await sent(stage, messages=[{"role": "user", "content": "a text"}])
        document = (await it.say('{"class": "Review"}')).json()
        assert seen(await it.served()) == ("review", "model", ["model:review", "learned:chat", "sure:50%"])
        assert it.counts == {"answered": 1}
        assert (document["temperature"], document["max_tokens"] <= 64) == (0, True)
        rules, data = (str(one["content"]) for one in document["messages"])
        [nonce] = set(re.findall(r"<request ([0-9a-f]{32})>", data))
        assert f"<request {nonce}>\na text\n</request {nonce}>" in data
        assert data.startswith(f"The mark is {nonce}.\n")
        assert nonce not in rules
        assert it.companion.status() == {
            "serve": "teller", "on": True, "why": "", "below": 0.8, "timeout": PATIENCE, "asked": {"answered": 1},
        }  # fmt: skip


@story(SMALL, TELLER)
async def test_it_may_raise_a_request_to_high_risk_and_then_only_who_proved_it_may_serve(stage: Stage) -> None:
    async with house(stage, high_risk=("planning",)) as it:
        await it.load()
        client = await stage.client()
        await client.send(ask(model="auto"))
        await it.say('{"class": "planning"}')
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (403, "no_tier")
        assert "class 'planning'" in reply.json()["error"]["message"]


@pytest.mark.parametrize(("sure", "task"), [(0.7, "chat"), (0.95, "review")])
def test_from_high_risk_it_brings_a_request_down_only_where_the_built_in_one_is_not_sure(
    sure: float, task: str
) -> None:
    @story(SMALL, TELLER)
    async def tell(stage: Stage) -> None:
        built_in = Task("review", Source.LEARNED, (), sure=0.4, risk=sure)
        rows = {"high_risk": ("review",)}
        async with house(stage, built_in, below=1.0, **rows) as it:
            await it.load()
            client = await stage.client()
            await client.send(ask(model="auto"))
            await it.say('{"class": "chat"}')
            if task == "chat":
                assert (await it.served()).task == "chat"
            else:
                assert "class 'review'" in (await client.reply()).json()["error"]["message"]

    tell()


# -- what the built-in classifier says stands ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "below"),
    [
        (UNSURE._replace(sure=0.8), 0.8),
        (UNSURE._replace(sure=0.0), 0.0),
        (Task("json-extract", Source.RULES, ("wants_json",)), 1.0),
        (Task("chat", Source.DEFAULT), 1.0),
    ],
)
def test_nobody_is_asked_where_it_is_sure_or_the_text_did_not_decide(task: Task, below: float) -> None:
    @story(SMALL, TELLER)
    async def tell(stage: Stage) -> None:
        async with house(stage, task, below) as it:
            await it.load()
            await sent(stage)
            assert seen(await it.served()) == (task.name, task.source.value, list(task.notes))
            assert it.counts == {}

    tell()


@story(SMALL, TELLER)
async def test_nobody_is_asked_for_a_class_that_the_caller_declared(stage: Stage) -> None:
    async with house(stage, below=1.0) as it:
        await it.load()
        await sent(stage, "auto:creative")
        assert (await it.served()).source == "declared"
        assert it.counts == {}


@story(SMALL, TELLER)
async def test_with_below_1_it_is_asked_however_sure_the_built_in_one_is(stage: Stage) -> None:
    async with house(stage, UNSURE._replace(sure=1.0), below=1.0) as it:
        await it.load()
        await sent(stage)
        await it.say('{"class": "chat"}')
        assert (await it.served()).source == "model"


@story(SMALL, TELLER)
async def test_counting_tokens_asks_nobody_for_a_class(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        document = {"model": "auto", "messages": [{"role": "user", "content": "hi"}]}
        await client.send(compose("POST", "/v1/messages/count_tokens", document))
        (await stage.asked()).reply({"input_tokens": 12})
        assert (await client.reply()).json() == {"input_tokens": 12}
        assert it.counts == {}


@story(SMALL, TELLER)
async def test_a_model_that_takes_too_long_is_left_alone_and_the_request_goes_on(stage: Stage) -> None:
    async with house(stage, timeout=0.05) as it:
        await it.load()
        began = LoopClock().now()
        await sent(stage)
        talk = await it.told()
        assert seen(await it.served()) == ("chat", "learned", ["model_timed_out", "sure:50%"])
        assert LoopClock().now() - began < PATIENCE / 2
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert it.counts == {"timed_out": 1}


@story(SMALL, TELLER)
async def test_where_it_has_no_free_place_nobody_waits_for_one(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        lease = stage.conductor.acquire("teller")
        assert not isinstance(lease, asyncio.Future)
        await sent(stage)
        assert (await it.served()).notes[0] == "model_busy"
        lease.release()


@story(SMALL, TELLER)
async def test_nothing_is_loaded_to_tell_a_class(stage: Stage) -> None:
    async with house(stage) as it:
        await sent(stage)
        assert (await it.served()).notes[0] == "model_not_loaded"
        it.routing.live.clear()
        await sent(stage)
        assert (await it.served()).notes[0] == "model_not_loaded"
        assert not it.routing.is_up("teller")
        assert it.counts == {"not_loaded": 2}


Fails = Callable[[Talk], None]


@pytest.mark.parametrize(
    ("outcome", "fails"),
    [
        ("unclear", lambda talk: talk.reply(whole("It is planning, I think."))),
        ("unclear", lambda talk: talk.reply(whole('{"class": "gardening"}'))),
        ("unclear", lambda talk: talk.reply(whole('{"class": "vision"}'))),
        ("unclear", lambda talk: talk.reply(whole('{"class": "chat"} {"class": "review"}'))),
        ("busy", lambda talk: talk.reply({}, "429 Too Many Requests")),
        ("failed", lambda talk: talk.reply({}, "500 Internal Server Error")),
        ("failed", lambda talk: talk.reply(b"no JSON")),
        ("failed", lambda talk: talk.close()),
    ],
)
def test_what_is_no_class_counts_for_nothing(outcome: str, fails: Fails) -> None:
    @story(SMALL, TELLER)
    async def tell(stage: Stage) -> None:
        async with house(stage) as it:
            await it.load()
            await sent(stage)
            fails(await it.told())
            assert seen(await it.served()) == ("chat", "learned", [f"model_{outcome}", "sure:50%"])
            assert it.counts == {outcome: 1}

    tell()


@story(SMALL, TELLER)
async def test_settings_that_it_refuses_are_left_out_from_then_on(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await sent(stage)
        (await it.told()).reply({"error": {"message": "no temperature"}}, "400 Bad Request")
        assert "temperature" not in (await it.say('{"class": "review"}')).json()
        assert (await it.served()).task == "review"


@story(SMALL, TELLER)
async def test_one_that_fails_again_and_again_rests(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        for _ in range(2):
            await sent(stage)
            (await it.told()).reply({}, "500 Internal Server Error")
            await it.served()
        await sent(stage)
        assert (await it.served()).notes[0] == "model_resting"
        assert it.counts == {"failed": 2, "resting": 1}


@story(SMALL, TELLER)
async def test_a_client_that_leaves_takes_the_question_with_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        client = await stage.client()
        await client.send(ask(model="auto"))
        talk = await it.told()
        await client.close()
        await asyncio.wait_for(talk.gone.wait(), PATIENCE)
        assert (await stage.sealed()).outcome == "client_left"
        await stage.quiet()
        assert it.counts == {}


@pytest.mark.parametrize("router", [{"allow_cloud": False}, {"cloud_classes": ("review",)}])
def test_what_may_not_go_to_a_cloud_is_not_shown_to_a_model_in_one(router: dict[str, Any]) -> None:
    @story(SMALL, CLOUD)
    async def tell(stage: Stage) -> None:
        async with house(stage, **router) as it:
            it.prove(Fingerprint("teller-1"))
            await it.load()
            await sent(stage)
            assert (await it.served()).notes[0] == "model_not_permitted"

    tell()


@story(SMALL, CLOUD)
async def test_a_cloud_is_asked_where_it_may_be_and_is_known_by_the_name_of_its_model(stage: Stage) -> None:
    async with house(stage) as it:
        it.prove(Fingerprint("teller-1"))
        await it.load()
        await sent(stage)
        await it.say('{"class": "review"}')
        assert (await it.served()).task == "review"


# -- off -------------------------------------------------------------------------------------------------------------


async def is_off(it: House, why: str) -> None:
    assert it.companion.why == why
    assert f"{why}; `stoker eval classifier teller`" in it.companion.problem
    status = it.companion.status()
    assert status is not None
    assert (status["on"], status["why"]) == (False, why)
    await sent(it.stage)
    assert seen(await it.served()) == ("chat", "learned", ["sure:50%"])
    assert it.counts == {}


@story(SMALL, TELLER)
async def test_one_that_was_not_measured_is_off(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        proofs.path_of(it.state, "teller").unlink()
        it.begin()
        await is_off(it, "it was not measured")
        it.prove(MARK, rows=3)
        await is_off(it, f"it was measured with 3 of {len(held_out())} prompts")


@story(SMALL, TELLER)
async def test_one_that_lost_is_off(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.prove(MARK, word="chat")
        assert stage.flow.chooser.companion is None
        lost = proofs.weigh(proofs.load(proofs.path_of(it.state, "teller")).said, it.routing.router.classifier, ()).why  # type: ignore[arg-type]
        assert lost.startswith("its mistakes cost ")
        await is_off(it, lost)


@story(SMALL, TELLER)
async def test_another_model_than_was_measured_is_off_and_back_on_when_the_old_one_is_back(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.know(Fingerprint("another", "e"))
        await is_off(it, "it changed since it was measured")
        it.know(MARK)
        assert (it.companion.why, it.companion.problem) == ("", "")
        it.routing.live.clear()
        assert (it.companion.why, it.companion.problem) == ("it is not loaded, or was not looked at yet", "")


@story(SMALL, TELLER)
async def test_without_one_requests_know_nothing_of_it(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        it.routing.configure(Router(it.routing.router.tiers), stage.serves)
        it.begin()
        assert (stage.flow.chooser.companion, it.companion.status(), it.companion.problem) == (None, None, "")
        await sent(stage)
        assert (await it.served()).source == "learned"


@story(SMALL, TELLER)
async def test_a_question_under_way_when_it_is_taken_out_still_ends_in_order(stage: Stage) -> None:
    async with house(stage) as it:
        await it.load()
        await sent(stage)
        talk = await it.told()
        it.routing.configure(Router(it.routing.router.tiers), stage.serves)
        it.begin()
        talk.reply(whole(json.dumps({"class": "review"})))
        assert (await it.served()).task == "review"
