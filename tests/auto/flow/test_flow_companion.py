"""A model that tells the class of a request where the built-in classifier is not sure: when it is asked, what counts of
what it says, and that no request waits for long or fails of it.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.auto.flow.routed import use_router
from tests.auto.flow.test_flow_routing import whole
from tests.gateway.flow_stage import PATIENCE, LoopClock, Stage, Talk, a_serve, ask, story

from stoker.domain.decision import Routed
from stoker.domain.dialect import Dialect
from stoker.domain.routing import BreakerLimits, ClassifierModelSettings, RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver, Translation
from stoker.domain.task import ClassSource, Outline, Task
from stoker.domain.tier import Tier
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker_auto.classifier import proof as proofs
from stoker_auto.classifier.labelled_prompts import held_out
from stoker_auto.quality.classifier_model import ClassifierModel
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.artifacts import record_file

CHAT = frozenset((Dialect.CHAT,))
SMALL = a_serve("small", served_name="small-1", dialects=CHAT)
TELLER = a_serve("teller", served_name="teller-1", dialects=CHAT, max_active=1)
CLOUD = replace(TELLER, driver=Driver.EXTERNAL, translation=Translation(cloud=True))
MARK = Fingerprint("i", "e")
UNSURE = Task("chat", ClassSource.LEARNED, ("sure:50%",), sure=0.5, risk=0.2)


class House:
    """`small` answers, `teller` tells classes and has proved it; the built-in classifier says `task`."""

    def __init__(
        self, stage: Stage, state: Path, task: Task, settings: ClassifierModelSettings, router: dict[str, Any]
    ) -> None:
        self.stage = stage
        self.state = state
        self.counts: Counter[str] = Counter()

        def classify(seen: Outline, declared: str | None, known: Collection[str]) -> Task:
            return task if declared is None else Task(declared, ClassSource.DECLARED)

        tiers = (Tier("cheap", "small", classes=("*",)),)
        sees = stage.conductor.residency
        router = {"high_risk": (), "breaker": BreakerLimits(2), **router}
        configured = RouterSettings(tiers, classifier=settings, **router)
        self.tier_quality = TierQuality({})
        self.router = TierRouter(configured, stage.serves, self.tier_quality, sees, LoopClock().now, classify)
        self.know(MARK)
        client = InternalClient(stage.pool, Formatter(ThinkingSigner((b"key" * 11,)), lambda: 1.0))
        self.companion = ClassifierModel(state, stage.conductor, client, self.counts, LoopClock().now)
        self.prove(MARK)

    def know(self, mark: Fingerprint) -> None:
        self.tier_quality.on_identified("teller", mark)

    def prove(self, mark: Fingerprint, rows: int | None = None, word: str = "") -> None:
        """As `stoker eval classifier` leaves it; `word`: it said this of each prompt, and not its label."""
        path = proofs.path_of(self.state, "teller")
        path.parent.mkdir(exist_ok=True)
        lines = [proofs.ClassifierAnswer(row.digest, word or row.task_class, 0.01) for row in held_out()[:rows]]
        path.write_bytes(b"".join([record_file.line(proofs.header_of(mark)), *map(record_file.line, lines)]))
        self.begin()

    def begin(self) -> None:
        self.is_on = self.companion.use_router(self.router)
        use_router(self.stage, self.router, second_opinion=self.companion if self.is_on else None)

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
        yield House(stage, Path(state), task, ClassifierModelSettings("teller", timeout, below), router)


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
        built_in = Task("review", ClassSource.LEARNED, (), sure=0.4, risk=sure)
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
