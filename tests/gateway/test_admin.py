"""What operators ask, through the front door: verbs, their scopes, and clear words when they are wrong."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.flow_stage import LoopClock, Stage, a_serve, ask

from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.errors import ConfigError
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret, Slot, SwapPolicy
from stoker.fleet.conversations.keeper import ConversationStatistics
from stoker.fleet.warm import pool as warm
from stoker.gateway.admin import Admin
from stoker.gateway.decisions import DecisionPages
from stoker.gateway.doctor import CHECKED_WITHIN, DoctorPages
from stoker.gateway.http_api import Endpoints
from stoker.gateway.models import ModelList
from stoker.gateway.operations import Operation, Page, PageRequest
from stoker.gateway.status import StatusReport, StatusSources
from stoker.gateway.web import files
from stoker.store.decisions import DecisionLog
from stoker.store.metrics import Metrics
from stoker_lab.testing.client import RawReply
from stoker_lab.testing.fleet import FakeFleet

API_JS = Path(files.__file__).with_name("static") / "api.js"

SLOTS = (Slot("gpu", swap=SwapPolicy(drain_timeout=0.05)),)
SERVES = (a_serve("a", slot="gpu", aliases=("al",)), a_serve("b", slot="gpu", served_name="other"))
KEYS = (Key("boss", Secret("k-boss", "env:A"), Scope.ADMIN), Key("eye", Secret("k-eye", "env:B"), Scope.OBSERVE),
        Key("user", Secret("k-user", "env:C")))  # fmt: skip


def settings() -> Settings:
    return Settings(ListenSettings(), Paths("/state", "/state/logs", "/vault"), (), ())


class Office(Stage):
    """A stage with the real admin; `reload` is what the next reload answers or raises."""

    reload: Callable[[bool], dict[str, Any]] = staticmethod(lambda dry_run: {"changed": ["a"], "dry_run": dry_run})
    saved: ConversationStatistics | None = None
    """Of conversations."""
    kept: warm.WarmStatistics | None = None
    """Of what is warm."""

    def __init__(self, store: DecisionLog, *parts: Any) -> None:
        super().__init__(*parts)
        self.store = store

    def pages(self) -> Iterator[Page]:
        """Those of an extension."""
        yield from ()

    async def _reload(self, dry_run: bool) -> dict[str, Any]:
        return self.reload(dry_run)

    def endpoints(self) -> Endpoints:
        clock = LoopClock()
        sources = StatusSources(conversations=lambda: self.saved, warm=lambda: self.kept)
        return Endpoints(
            Admin(
                self.conductor,
                self.flow,
                clock,
                DecisionPages(self.store),
                self._reload,
                doctor=DoctorPages(settings, None),
                pages={one.operation.place: one for one in self.pages()},
            ),
            StatusReport(self.conductor, self.flow, self.store, Metrics(), clock, sources),
            ModelList(self.conductor),
        )

    async def say(self, verb: str, document: object = None, method: str = "POST", **headers: str) -> RawReply:
        client = await self.client()
        return await client.ask(
            method, f"/admin/{verb}", {} if document is None and method == "POST" else document, **headers
        )


Story = Callable[[Office], Coroutine[Any, Any, None]]


def office(stage: type[Office] = Office, **front: Any) -> Callable[[Story], Callable[[Path], None]]:
    def decorate(tell: Story) -> Callable[[Path], None]:
        async def played(path: Path) -> None:
            store = DecisionLog(path / "decisions.db", 100)
            try:
                async with (
                    stage(store, front, SERVES, SLOTS, FakeFleet()) as office,
                    asyncio.timeout(40),
                ):
                    await tell(office)
            finally:
                store.close()

        def run(tmp_path: Path) -> None:
            asyncio.run(played(tmp_path))

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate


@office()
async def test_switch_blocks_until_the_serve_is_there_and_unload_until_it_is_gone(stage: Office) -> None:
    switched = await stage.say("switch", {"serve": "al"})
    assert switched.status == 200
    assert switched.json()["serve"] == "a"
    assert set(switched.json()) == {"serve", "seconds", "phases"}
    assert "ready a" in stage.fleet.journal
    assert (await stage.say("switch", {"serve": "b"})).json()["serve"] == "b"
    assert stage.fleet.journal[-1] == "ready b"
    assert (await stage.say("unload", {"serve": "b"})).status == 200
    assert stage.fleet.alive == {}


@office()
async def test_status_tells_what_is_saved_of_conversations_and_what_came_of_it(stage: Office) -> None:
    client = await stage.client()
    assert (await client.ask("GET", "/status")).json()["conversations"] is None
    stage.saved = ConversationStatistics(files=2, size=300, saved=5, not_saved=1, restored=3, not_restored=0)
    assert (await client.ask("GET", "/status")).json()["conversations"] == {
        "files": 2, "bytes": 300, "saved": 5, "not_saved": 1, "restored": 3, "not_restored": 0,
    }  # fmt: skip


@office()
async def test_a_switch_that_fails_says_why(stage: Office) -> None:
    stage.fleet.problems["a"] = ["the weights are missing"]
    reply = await stage.say("switch", {"serve": "a"})
    assert reply.status == 503
    assert "the weights are missing" in reply.json()["error"]["message"]
    assert stage.fleet.journal == []


@office()
async def test_a_paused_slot_ends_its_model_and_refuses_with_the_reason_until_it_is_resumed(stage: Office) -> None:
    await stage.say("switch", {"serve": "a"})
    paused = await stage.say("pause", {"slot": "gpu", "reason": "rendering"})
    assert paused.json() == {"slot": "gpu", "paused": ["gpu"]}
    client = await stage.client()
    await client.send(ask())
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"], reply.header("retry-after")) == (503, "slot_paused", "60")
    assert "rendering" in reply.json()["error"]["message"]
    client = await stage.client()
    status = (await client.ask("GET", "/status")).json()
    assert (status["slots"][0]["paused"], status["slots"][0]["paused_by"]) == ("rendering", ["operator"])
    assert (await stage.say("pause", {"slot": "nowhere"})).status == 404
    assert (await stage.say("resume")).json() == {"slot": None, "resumed": ["gpu"]}
    assert (await stage.say("resume")).json() == {"slot": None, "resumed": []}
    assert (await stage.say("switch", {"serve": "a"})).status == 200


@office()
async def test_drain_and_undrain_one_serve_or_all(stage: Office) -> None:
    client = await stage.client()
    assert (await stage.say("drain", {"serve": "a"})).json() == {"serve": "a", "draining": True}
    await client.send(ask())
    assert (await client.reply()).json()["error"]["code"] == "draining"
    assert (await stage.say("undrain", {"serve": "a"})).json() == {"serve": "a", "draining": False}
    assert (await stage.say("drain")).json() == {"serve": None, "draining": True}
    client = await stage.client()
    assert (await client.ask("GET", "/readyz")).status == 503
    await stage.say("undrain")
    assert (await client.ask("GET", "/readyz")).status == 200


@office()
async def test_cancel_ends_one_request_by_its_id(stage: Office) -> None:
    client = await stage.client()
    await client.send(ask(headers=(("x-request-id", "mine"),)))
    talk = await stage.asked()
    assert (await stage.say("cancel", {"request_id": "mine"})).json() == {"request_id": "mine", "cancelled": True}
    assert (await client.reply()).json()["error"]["code"] == "cut"
    await talk.gone.wait()
    again = await stage.say("cancel", {"request_id": "mine"})
    assert (again.status, again.json()["error"]["code"]) == (404, "no_request")


@office()
async def test_reload_answers_what_changed_or_every_problem(stage: Office) -> None:
    assert (await stage.say("reload")).json() == {"changed": ["a"], "dry_run": False}
    assert (await stage.say("reload", {"dry_run": True})).json()["dry_run"] is True

    def wrong(dry_run: bool) -> dict[str, Any]:
        raise ConfigError(["first problem", "second problem"])

    stage.reload = wrong
    reply = await stage.say("reload")
    assert (reply.status, reply.json()["error"]["code"]) == (400, "config_error")
    assert "second problem" in reply.json()["error"]["message"]


@office(keys=KEYS)
async def test_what_is_wrong_is_examined_beside_the_requests_for_administrators(stage: Office) -> None:
    assert (await stage.say("doctor", method="GET", x_api_key="k-eye")).status == 403
    refused = await stage.say("doctor", method="GET", x_api_key="k-boss")
    assert (refused.status, refused.json()["error"]["code"]) == (404, "not_offered")
    pages = DoctorPages(settings, lambda: {"main": threading.current_thread() is threading.main_thread()})
    found = await pages.document()
    assert (found["main"], found["state"]) == (False, "/state")
    given_up = re.search(r"LONGEST_SILENCE = ([\d_]+);", API_JS.read_text())
    assert given_up is not None
    assert int(given_up[1]) > CHECKED_WITHIN * 1000


@pytest.mark.parametrize(
    ("verb", "document", "status", "words"),
    [("fly", {}, 404, "switch"), ("switch/x", {}, 404, "switch"), ("switch", {}, 400, "'serve' is missing"),
     ("switch", {"serve": "zz"}, 404, "zz"), ("switch", {"serve": 7}, 400, "serve"),
     ("switch", {"sevre": "a"}, 400, "sevre"),
     ("switch", [1], 400, "object"), ("cancel", {}, 400, "'request_id' is missing")],
)  # fmt: skip
def test_a_wrong_question_gets_a_clear_answer(
    verb: str, document: Any, status: int, words: str, tmp_path: Path
) -> None:
    @office()
    async def tell(stage: Office) -> None:
        reply = await stage.say(verb, document)
        assert reply.status == status
        assert words in reply.json()["error"]["message"]

    tell(tmp_path)


@office(keys=KEYS)
async def test_each_verb_wants_its_scope(stage: Office) -> None:
    for verb in ("switch", "unload", "drain", "undrain", "reload", "cancel", "fly"):
        for key in ("k-user", "k-eye"):
            assert (await stage.say(verb, {"serve": "a"}, x_api_key=key)).status == 403
    assert stage.fleet.journal == []
    assert (await stage.say("decisions", method="GET", x_api_key="k-eye")).status == 200
    assert (await stage.say("decisions", method="GET", x_api_key="k-user")).status == 403
    assert (await stage.say("unload", {"serve": "a"}, x_api_key="k-boss")).status == 200


@office()
async def test_looking_at_decisions_models_and_status(stage: Office) -> None:
    assert (await stage.say("decisions?limit=x", method="GET")).status == 400
    assert (await stage.say("decisions?limit=5", method="GET")).json() == {"decisions": []}
    assert (await stage.say("decisions/req_0", method="GET")).status == 404
    client = await stage.client()
    status = (await client.ask("GET", "/status")).json()
    assert [(s["name"], s["state"]) for s in status["serves"]] == [("a", "stopped"), ("b", "stopped")]
    assert (status["frontdoor"]["auth"], status["frontdoor"]["in_flight"], status["draining"]) == ("none", 0, False)
    assert status["routing"] is None
    models = (await client.ask("GET", "/v1/models")).json()["data"]
    assert [m["id"] for m in models] == ["a", "engine", "al", "b", "other"]
    assert models[0]["stoker"]["state"] == "stopped"
    assert b"stoker" in (await client.ask("GET", "/metrics")).body


@office()
async def test_what_is_warm_says_why_it_is_kept(stage: Office) -> None:
    rows = (warm.WarmStatus("a", "pages", 5, 5, 5, False, why="rule"), warm.WarmStatus("b", "pages", 5, 5, 5, False))
    stage.kept = warm.WarmStatistics(10, 10, rows, None, 0, False, {})
    found = (await (await stage.client()).ask("GET", "/status")).json()
    assert [(one["name"], one["why"]) for one in found["warm"]["models"]] == [("a", "rule"), ("b", None)]
    assert [(one["name"], one["temperature"], one["expected"]) for one in found["serves"]] == [
        ("a", "warm", "rule"),
        ("b", "warm", None),
    ]


class Taking(Office):
    """An extension has a page for a verb of Stoker's own."""

    def pages(self) -> Iterator[Page]:
        async def answer(request: PageRequest) -> dict[str, object]:
            return {"taken": request.operation.verb}

        for verb in ("drain", "keys", "own"):
            yield Page(Operation("POST", f"/admin/{verb}", "Its own."), answer)


@office(Taking)
async def test_a_page_of_an_extension_takes_no_verb_of_stokers_own(stage: Office) -> None:
    assert (await stage.say("drain", {"serve": "a"})).json() == {"serve": "a", "draining": True}
    assert "taken" not in (await stage.say("keys", {})).json()
    assert (await stage.say("own", {})).json() == {"taken": "own"}


@pytest.mark.parametrize("body", [b'{"serve": "\xff"}', b'{"\xff": 1}'])
def test_a_body_that_is_no_text_is_refused(body: bytes, tmp_path: Path) -> None:
    @office()
    async def tell(stage: Office) -> None:
        client = await stage.client()
        head = b"POST /admin/drain HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        await client.send(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "bad_json")

    tell(tmp_path)
