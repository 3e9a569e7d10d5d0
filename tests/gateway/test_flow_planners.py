"""Names that mean no serve: planners answer to them, and a request that names a serve asks none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.app.program import settings_in
from tests.gateway.flow_stage import Stage, a_serve, ask, story

from stoker import extensions
from stoker.access.caller import Caller
from stoker.app.missing_extensions import planners_of_missing
from stoker.domain.key import Key, RequestDefaults
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Secret
from stoker.domain.tier import Tier
from stoker.exchange.planner import Answer, Candidates, PlannedRequest, Planner, Renamed, Route
from stoker.extensions import Extension, InstalledExtension
from stoker.request.decide.plan import PlanCandidate

TWO = a_serve("a"), a_serve("b")


class Recorded(Planner):
    """Answers to `own` and to names that begin with `own:`, as it is told."""

    def __init__(self, planned: Any = None) -> None:
        self.names = ("own",)
        self.planned = planned
        self.asked: list[str] = []

    def means(self, model: str) -> bool:
        self.asked.append(f"means {model}")
        return model.startswith("own:")

    def describe(self, model: str, caller: Caller) -> Mapping[str, Any] | None:
        return {"state": "planned"} if model == "own" else None

    def listed(self, caller: Caller, aliases: bool) -> list[str]:
        return ["own"]

    async def plan(self, request: PlannedRequest) -> Candidates | Answer | Renamed | None:
        self.asked.append(request.model)
        if callable(self.planned):
            return self.planned(request)  # type: ignore[no-any-return]
        return self.planned  # type: ignore[no-any-return]

    async def route(self, request: PlannedRequest) -> Route | None:
        return None


def plan_with(stage: Stage, *planners: Planner) -> None:
    stage.flow.configure(replace(stage.flow.settings, planners=planners))


async def said(stage: Stage, model: str) -> tuple[int, str]:
    """Status, and the message of the error or the serve that was asked."""
    client = await stage.client()
    await client.send(ask(model))
    reply = await client.reply()
    return reply.status, reply.json()["error"]["message"]


@story(*TWO)
async def test_a_request_that_names_a_serve_asks_no_planner(stage: Stage) -> None:
    planner = Recorded()
    plan_with(stage, planner)
    client = await stage.client()
    await client.send(ask("a"))
    (await stage.asked()).reply({})
    assert (await client.reply()).header("x-stoker-serve") == "a"
    assert planner.asked == []


@story(*TWO)
async def test_a_planner_says_who_is_asked_in_which_order(stage: Stage) -> None:
    plan_with(stage, Recorded(lambda request: Candidates(tuple(PlanCandidate(serve) for serve in reversed(TWO)))))
    client = await stage.client()
    await client.send(ask("own"))
    (await stage.asked()).reply({})
    assert (await client.reply()).header("x-stoker-serve") == "b"


@story(*TWO)
async def test_a_planner_may_write_the_answer_itself(stage: Stage) -> None:
    def planned(request: PlannedRequest) -> Answer:
        async def write() -> None:
            request.call.reply.send_whole(200, [(b"content-type", b"text/plain")], b"its own")

        return Answer(write)

    planner = Recorded(planned)
    plan_with(stage, planner)
    client = await stage.client()
    await client.send(ask("own:x"))
    assert (await client.reply()).body == b"its own"
    assert planner.asked == ["means own:x", "own:x"]


@story(*TWO)
async def test_a_name_may_stand_for_another_one(stage: Stage) -> None:
    plan_with(stage, Recorded(Renamed("b")))
    client = await stage.client()
    await client.send(ask("own"))
    (await stage.asked()).reply({})
    assert (await client.reply()).header("x-stoker-serve") == "b"


@story(*TWO)
async def test_a_name_that_stands_for_itself_is_no_endless_circle(stage: Stage) -> None:
    plan_with(stage, Recorded(Renamed("own")))
    assert (await said(stage, "own"))[0] == 404


@story(*TWO)
async def test_a_name_that_its_caller_may_not_use_is_unknown_and_near_ones_are_suggested(stage: Stage) -> None:
    plan_with(stage, Recorded(None))
    assert (await said(stage, "own"))[0] == 404
    status, message = await said(stage, "owm")
    assert (status, "did you mean 'own'?" in message) == (404, True)


def without(stage: Stage, monkeypatch: pytest.MonkeyPatch, *installed: InstalledExtension) -> None:
    """The tables of auto and orchestrator are there, and none of these two answers."""
    monkeypatch.setattr(extensions, "installed_extensions", lambda: installed)
    router = RouterSettings((Tier("cheap", "a"),))
    settings = replace(settings_in(Path("/nowhere")), router=router, unread={"orchestrator": {"pair": {}}})
    plan_with(stage, *planners_of_missing(settings, ()))


@pytest.mark.parametrize(
    ("installed", "reason"),
    [((), "which is not installed"),
     ((InstalledExtension("auto", "s 1", None, "ImportError: x"),), "which cannot be used (ImportError: x)"),
     ((InstalledExtension("auto", "s 1", Extension(""), ""),), "which failed: see LOGS/stoker.log")],
)  # fmt: skip
def test_names_of_an_extension_that_does_not_answer_say_which_and_why(
    installed: tuple[InstalledExtension, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @story(*TWO)
    async def tell(stage: Stage) -> None:
        without(stage, monkeypatch, *installed)
        for model in ("auto", "auto:chat", "auto:nonsense", "AUTO", " Auto : chat"):
            status, message = await said(stage, model)
            assert (status, f"the extension auto, {reason}" in message) == (503, True), message
        status, message = await said(stage, "pair")
        assert (status, "the extension orchestrator, which is not installed" in message) == (503, True)

    tell()


@pytest.mark.parametrize(
    ("models", "model", "status"),
    [(("auto", "a"), "auto", 503), (("auto", "a"), "AUTO", 503), (("auto:chat", "a"), "auto: chat", 503),
     (("pair", "a"), "pair", 503), (("a",), "auto", 200), (("auto", "a"), "pair", 200), (("a",), "nonsense", 200)],
)  # fmt: skip
def test_the_default_model_of_a_key_does_not_answer_for_an_extension_that_is_missing(
    models: tuple[str, ...], model: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key("narrow", Secret("k", "env:K"), models=models, defaults=RequestDefaults(model="a"))

    @story(*TWO, keys=(key,))
    async def tell(stage: Stage) -> None:
        without(stage, monkeypatch)
        client = await stage.client()
        await client.send(ask(model, headers=(("authorization", "Bearer k"),)))
        if status == 200:
            (await stage.asked()).reply({})
        assert (await client.reply()).status == status

    tell()


def test_nothing_is_missing_where_no_table_needs_it() -> None:
    assert planners_of_missing(settings_in(Path("/nowhere")), ()) == []


@story(*TWO)
async def test_planners_that_rename_to_each_other_end_the_request(stage: Stage) -> None:
    other = Recorded(Renamed("own"))
    other.names = ("other",)
    plan_with(stage, Recorded(Renamed("other")), other)
    status, message = await said(stage, "own")
    assert (status, message) == (500, "model 'own' has no end: 'own' stands for 'other', which stands for 'own'")


class Torn(Planner):
    """Fails at everything."""

    names = ("torn",)

    def means(self, model: str) -> bool:
        raise RuntimeError("means")

    def describe(self, model: str, caller: Caller) -> Mapping[str, Any] | None:
        raise RuntimeError("describe")

    def listed(self, caller: Caller, aliases: bool) -> list[str]:
        raise RuntimeError("listed")

    async def plan(self, request: PlannedRequest) -> Candidates | None:
        raise SystemExit("plan")


def test_a_planner_that_fails_costs_only_its_own_names() -> None:
    @story(*TWO)
    async def tell(stage: Stage) -> None:
        plan_with(stage, Torn(), Recorded(Renamed("b")))
        settings, caller = stage.flow.settings, Caller(Key("anybody", Secret("k", "env:K")))
        assert settings.listed(caller, aliases=True) == ["own"]
        assert settings.describe("torn", caller) is None
        client = await stage.client()
        await client.send(ask("own:x"))
        (await stage.asked()).reply({})
        assert (await client.reply()).header("x-stoker-serve") == "b"
        assert (await said(stage, "nonsense"))[0] == 404
        status, message = await said(stage, "torn")
        assert (status, "its log has the details" in message) == (500, True)
        stage.complaints.clear()

    tell()
