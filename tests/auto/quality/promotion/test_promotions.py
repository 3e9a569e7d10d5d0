"""Aliases that move by evidence: refused without it, kept over a restart, watched, and taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.domain.decision import Candidate, Decision
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.events import AliasMoved, Event, MoveCause, PromotionWatchEnded, RollbackNotSaved
from stoker.domain.gate import Alias, Gate, IfUndecided, Override, condition
from stoker.domain.lease import Lease, Target
from stoker.domain.protocols import Leases
from stoker.domain.run import Finding, Outcome, Run, RunKind, Subject
from stoker.domain.serve import Serve, Status
from stoker.exchange.leasing import leased
from stoker.fleet.swapping.conductor import Conductor
from stoker_auto.promotion.overrides import Overrides
from stoker_auto.promotion.promotions import Promotions
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.fleet import FakeFleet
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

ALIAS = Alias("coder", "fast", "default", watch=30.0, check_every=0.02)
CONDITIONS = ("preflight", "canary", "ttft_p95 < 2s")
GATE = Gate("default", tuple(map(condition, CONDITIONS)))
SERVES = (Serve("fast"), Serve("clever"), Serve("odd", status=Status.REJECTED, reason="too slow"))


class Clock:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def now(self) -> float:
        return self.loop.time()

    def wall(self) -> float:
        return 1000.0


class Books:
    """Everything that a Promotions needs, and what it did."""

    def __init__(self, path: Path, ports: dict[str, int] | None = None) -> None:
        self.path = path
        self.ports = ports or {}
        self.results: dict[str, Run] = {}
        self.seen: list[tuple[str, ...]] = []
        """The aliases of each serve, each time that names changed."""
        self.events: list[Event] = []
        self.leased = 0
        self.ended = asyncio.Event()

    def promotions(
        self, *aliases: Alias, leases: Leases | None = None, gates: tuple[Gate, ...] = (GATE,)
    ) -> Promotions:
        def notify(event: Event) -> None:
            self.events.append(event)
            if isinstance(event, AliasMoved):
                meant = [f"{alias}={serve.name}" for serve in found.serves for alias in serve.aliases]
                self.seen.append(tuple(meant))
            if isinstance(event, PromotionWatchEnded):
                self.ended.set()

        found = Promotions(Overrides(self.path), leases or self, Clock(), notify, self.results.get)
        found.configure(aliases or (ALIAS,), SERVES, gates)
        return found

    @property
    def moves(self) -> list[AliasMoved]:
        return [event for event in self.events if isinstance(event, AliasMoved)]

    @property
    def closed(self) -> list[tuple[str, Outcome, bool]]:
        """Watches that came to their end: serve, what was found, whether the promotion was rolled back."""
        ended = [event for event in self.events if isinstance(event, PromotionWatchEnded)]
        return [(event.override.serve, event.finding.outcome, event.rolled_back) for event in ended]

    def acquire(self, name: str, takes_place: bool = True, *share: object) -> Lease:
        self.leased += 1
        target = self.target(name)
        assert target is not None
        return Lease(1, name, target, 0.0, 0.0, self._released)

    def allow_preemption(self, lease: Lease) -> None: ...

    def failure_code(self, name: str) -> str:
        return ""

    def _released(self, lease: Lease) -> None:
        self.leased -= 1

    def target(self, name: str) -> Target | None:
        port = self.ports.get(name)
        return None if port is None else Target("127.0.0.1", port, "", "scripted")

    def gate(
        self, id: str = "g1", serve: str = "clever", outcome: Outcome = Outcome.PASSED, kind: RunKind = RunKind.GATE,
        gate: str = "default",
    ) -> str:  # fmt: skip
        findings = [
            Finding("preflight", Outcome.PASSED),
            Finding("canary", Outcome.PASSED),
            Finding("ttft_p95 < 2s", outcome),
        ]
        values = {"gate": gate, "conditions": CONDITIONS, "max_age": None}
        settings = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in values.items()}
        self.results[id] = Run(id, kind, 1.0, 1.0, Subject(serve, serve, ""), outcome, findings, settings=settings)
        return id


def story(tell: Callable[[Books], Awaitable[None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def played() -> None:
            async with asyncio.timeout(20):
                await tell(Books(tmp_path / "overrides.json"))

        asyncio.run(played())

    run.__doc__ = tell.__doc__
    return run


async def refused(asked: Awaitable[Any]) -> StokerError:
    with pytest.raises(StokerError) as caught:
        await asked
    return caught.value


@story
async def test_with_evidence_the_alias_means_the_new_serve_at_once_and_after_a_restart(books: Books) -> None:
    promotions = books.promotions()
    assert promotions.serve_by_alias() == {"coder": "fast"}
    done = await promotions.promote("coder", "clever", books.gate(), "faster", force=False)
    assert done == {"alias": "coder", "serve": "clever", "previous": "fast", "watch": 30.0}
    assert books.seen == [("coder=clever",)]
    assert books.events == [AliasMoved("coder", "clever", "fast", MoveCause.PROMOTED, "faster")]
    promotions.close()
    (shown,) = books.promotions().status()
    assert (shown["serve"], shown["configured"], shown["evidence"], shown["reason"]) == (
        "clever",
        "fast",
        "g1",
        "faster",
    )


@story
async def test_no_evidence_no_promotion(books: Books) -> None:
    """Behaviour 58: what failed is named, and the previous serve stays."""
    promotions = books.promotions()
    books.gate("failed", outcome=Outcome.FAILED)
    books.gate("other", serve="fast")
    books.gate("bench", kind=RunKind.BENCHMARK)
    books.gate("lax", gate="lax")
    for evidence, said in (
        ("", "no result was named"), ("gone", "no result 'gone'"), ("failed", "failed: ttft_p95 < 2s"),
        ("other", "a gate of serve 'fast'"), ("bench", "a benchmark of serve 'clever'"),
        ("lax", "belongs to gate 'lax'"),
    ):  # fmt: skip
        error = await refused(promotions.promote("coder", "clever", evidence, "", force=False))
        assert (error.status, error.code) == (409, "no_evidence")
        assert said in error.message
        assert "stoker gate clever --for coder" in error.message
    assert promotions.serve_by_alias() == {"coder": "fast"}
    assert books.seen == []


@story
async def test_a_gate_that_changed_since_it_was_run_has_to_be_run_again(books: Books) -> None:
    texts = ("preflight", "canary", "ttft_p95 < 1s")
    for changed in (
        Gate("default", tuple(map(condition, texts))), Gate("default", GATE.conditions[:2]),
        Gate("default", (*GATE.conditions, condition("soak"))), Gate("default", GATE.conditions, max_age=60.0),
    ):  # fmt: skip
        promotions = books.promotions(gates=(changed,))
        error = await refused(promotions.promote("coder", "clever", books.gate(), "", force=False))
        assert (error.status, error.code) == (409, "no_evidence")
        said = "the gate changed since it was run: run it again: `stoker gate clever --for coder`"
        assert error.message.endswith(said)
        assert promotions.serve_by_alias() == {"coder": "fast"}


@story
async def test_conditions_in_another_order_and_spelling_are_the_same_gate(books: Books) -> None:
    same = Gate("default", tuple(map(condition, ("ttft_p95<2000ms", "canary", "preflight", "canary"))))
    promotions = books.promotions(gates=(same,))
    assert (await promotions.promote("coder", "clever", books.gate(), "", force=False))["serve"] == "clever"
    promotions.close()


@story
async def test_evidence_that_does_not_say_its_conditions_does_not_count(books: Books) -> None:
    promotions = books.promotions()
    del books.results[books.gate()].settings["conditions"]
    error = await refused(promotions.promote("coder", "clever", "g1", "", force=False))
    assert "the gate changed since it was run" in error.message


@story
async def test_force_needs_a_reason_which_is_kept(books: Books) -> None:
    promotions = books.promotions()
    assert (await refused(promotions.promote("coder", "odd", "", "", force=True))).code == "reason_missing"
    assert (
        await refused(promotions.promote("coder", "odd", books.gate(serve="odd"), "", force=False))
    ).code == "needs_force"
    await promotions.promote("coder", "odd", "", "for a demo", force=True)
    assert Overrides(books.path).read()["coder"] == Override("coder", "odd", "fast", 1000.0, "", "for a demo")
    promotions.close()


@story
async def test_what_is_not_there_is_named_with_its_nearest(books: Books) -> None:
    promotions = books.promotions()
    assert "did you mean 'coder'" in (await refused(promotions.promote("codr", "clever", "", "", False))).message
    assert "did you mean 'clever'" in (await refused(promotions.promote("coder", "cleverr", "", "", False))).message
    assert (await refused(promotions.promote("coder", "fast", "", "", False))).code == "no_change"
    assert (await refused(promotions.reset("coder"))).code == "no_change"
    assert "known: coder" in (await refused(promotions.reset("zzz"))).message
    without = books.promotions(Alias("free", "fast"))
    without.configure((), (), ())
    assert "none is configured: add [alias.NAME]" in (await refused(without.reset("zzz"))).message
    without = books.promotions(Alias("free", "fast"))
    assert (await refused(without.promote("free", "clever", "", "", False))).code == "no_gate"


@story
async def test_reset_goes_back_to_the_file(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    assert await promotions.reset("coder") == {"alias": "coder", "serve": "fast", "previous": "clever"}
    assert books.seen[-1] == ("coder=fast",)
    assert Overrides(books.path).read() == {}


@story
async def test_what_cannot_be_kept_does_not_move(books: Books) -> None:
    promotions = books.promotions()
    books.path.mkdir()
    error = await refused(promotions.promote("coder", "clever", books.gate(), "", force=False))
    assert error.code == "state_unusable"
    assert promotions.serve_by_alias() == {"coder": "fast"}


@story
async def test_an_override_whose_serve_is_gone_counts_no_more(books: Books) -> None:
    Overrides(books.path).write({"coder": Override("coder", "gone", "fast", 1.0)})
    promotions = books.promotions()
    assert promotions.serve_by_alias() == {"coder": "fast"}
    (shown,) = promotions.status()
    assert shown["promoted_at"] is None


# -- the watch ---------------------------------------------------------------------------------------------------------


async def watched(books: Books, server: ScriptedServer, alias: Alias = ALIAS) -> Promotions:
    books.ports["clever"] = server.port
    promotions = books.promotions(alias)
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    return promotions


async def until(holds: Callable[[], object]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


@story
async def test_a_model_that_answers_otherwise_later_is_taken_back(books: Books) -> None:
    async with ScriptedServer(Script(text="one")) as server:
        promotions = await watched(books, server)
        await until(lambda: server.counters.started >= 8)
        server.script = server.script.amended({"text": "two"})
        await books.ended.wait()
    assert promotions.serve_by_alias() == {"coder": "fast"}
    assert books.closed == [("clever", Outcome.FAILED, True)]
    move = books.moves[-1]
    assert (move.serve, move.previous, move.cause) == ("fast", "clever", MoveCause.ROLLED_BACK)
    assert move.reason.startswith("canary: ")
    assert Overrides(books.path).read() == {}
    assert books.leased == 0


@story
async def test_live_failures_take_it_back_too(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    for outcome in ("served", "refused", "client_left", "upstream_failed", "stalled"):
        promotions.observe(Decision("r", 1.0, "/v1/messages", model="coder", serve="clever", outcome=outcome))
    await books.ended.wait()
    assert promotions.serve_by_alias() == {"coder": "fast"}
    assert books.moves[-1].reason.startswith("live requests: ")


@story
async def test_a_rollback_that_cannot_be_saved_is_in_effect_all_the_same_and_is_reported(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    books.path.unlink()
    books.path.mkdir()
    for _ in range(2):
        promotions.observe(Decision("r", 1.0, "/p", model="coder", serve="clever", outcome="upstream_failed"))
    await books.ended.wait()
    assert promotions.serve_by_alias() == {"coder": "fast"}
    assert [type(event) for event in books.events[1:]] == [RollbackNotSaved, AliasMoved, PromotionWatchEnded]


@story
async def test_failures_of_others_are_not_its_own(books: Books) -> None:
    promotions = books.promotions(Alias("coder", "fast", "default", watch=0.2, check_every=0.05))
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    for model, serve in (("other", "clever"), ("coder", "fast")):
        for _ in range(20):
            promotions.observe(Decision("r", 1.0, "/p", model=model, serve=serve, outcome="upstream_failed"))
    await books.ended.wait()
    assert [outcome for _, outcome, _ in books.closed] == [Outcome.UNDECIDED]  # not failed
    (shown,) = promotions.status()
    assert shown["watched_for"] is None


SHORT = Alias("coder", "fast", "default", watch=0.3, check_every=0.02)


@story
async def test_a_watch_that_saw_canaries_and_answers_passes_and_says_what_it_saw(books: Books) -> None:
    async with ScriptedServer(Script(text="one")) as server:
        promotions = await watched(books, server, SHORT)
        promotions.observe(Decision("r", 1.0, "/p", model="coder", serve="clever", outcome="served"))
        await books.ended.wait()
    assert books.closed == [("clever", Outcome.PASSED, False)]
    assert promotions.serve_by_alias() == {"coder": "clever"}
    (ended,) = (event for event in books.events if isinstance(event, PromotionWatchEnded))
    assert "live requests: 1 answered, 0 not" in ended.finding.observed


@story
async def test_a_watch_without_a_canary_proves_nothing_and_goes_back(books: Books) -> None:
    promotions = books.promotions(SHORT)
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    await books.ended.wait()
    assert books.closed == [("clever", Outcome.UNDECIDED, True)]
    assert promotions.serve_by_alias() == {"coder": "fast"}
    assert "0 answered" in books.moves[-1].reason


@story
async def test_a_promotion_may_stay_though_nothing_was_proved(books: Books) -> None:
    promotions = books.promotions(msgspec.structs.replace(SHORT, if_undecided=IfUndecided.STAY))
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    await books.ended.wait()
    assert books.closed == [("clever", Outcome.UNDECIDED, False)]
    assert promotions.serve_by_alias() == {"coder": "clever"}


LEFT = {"serve": "clever", "outcome": "client_left"}
FULL = {"serve": "clever", "outcome": "refused", "status": 503}


@pytest.mark.parametrize("unanswered", [LEFT, FULL], ids=["clients left without a token", "no place"])
def test_requests_that_got_no_answer_are_no_evidence(tmp_path: Path, unanswered: dict[str, Any]) -> None:
    @story
    async def tell(books: Books) -> None:
        async with ScriptedServer(Script(text="one")) as server:
            promotions = await watched(books, server, SHORT)
            for _ in range(4):
                promotions.observe(Decision("r", 1.0, "/p", model="coder", **unanswered))
            await books.ended.wait()
        assert books.closed == [("clever", Outcome.UNDECIDED, True)]

    tell(tmp_path)


@story
async def test_requests_that_its_fallback_answered_are_its_failures(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    answered_by_fallback = [Candidate("clever", "upstream_unreachable"), Candidate("fast")]
    for _ in range(2):
        promotions.observe(
            Decision("r", 1.0, "/p", model="coder", serve="fast", candidates=answered_by_fallback, outcome="served")
        )
    await books.ended.wait()
    assert books.moves[-1].reason.startswith("live requests: ")


@pytest.mark.parametrize(
    "decision",
    [
        {"serve": "clever", "candidates": [Candidate("clever", "would_lose")], "outcome": "refused", "status": 400},
        {"serve": "fast", "candidates": [Candidate("clever", "queue_full"), Candidate("fast")], "outcome": "served"},
    ],
    ids=["a wrong request", "no place, and a fallback"],
)
def test_what_says_nothing_against_the_model_takes_nothing_back(tmp_path: Path, decision: dict[str, Any]) -> None:
    @story
    async def tell(books: Books) -> None:
        async with ScriptedServer(Script(text="one")) as server:
            promotions = await watched(books, server, SHORT)
            for _ in range(4):
                promotions.observe(Decision("r", 1.0, "/p", model="coder", **decision))
                promotions.observe(Decision("r", 1.0, "/p", model="coder", serve="clever", outcome="served"))
            promotions.observe(Decision("r", 1.0, "/p", model="coder", serve="clever", outcome="served"))
            await books.ended.wait()
        assert books.closed == [("clever", Outcome.PASSED, False)]

    tell(tmp_path)


@story
async def test_a_canary_that_hangs_asks_one_question_only(books: Books) -> None:
    async with ScriptedServer(Script(error_status=500)) as server:
        await watched(books, server)
        await books.ended.wait()
        assert server.counters.started == 1
    assert books.closed == [("clever", Outcome.FAILED, True)]


@story
async def test_another_promotion_ends_the_watch_of_the_one_before(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "clever", books.gate(), "", force=False)
    await promotions.promote("coder", "odd", "", "next", force=True)
    promotions.configure((), SERVES, ())
    await asyncio.sleep(0)
    assert books.closed == []
    assert promotions.status() == []


@story
async def test_a_watch_that_is_closed_in_the_moment_of_its_grant_keeps_no_lease(books: Books) -> None:
    serve = Serve("clever", parallel=1, max_active=1, queue_timeout=60.0)
    conductor = Conductor([], [serve], FakeFleet({"clever": 1}), FakeClock())
    async with leased(conductor, "clever"):
        promotions = books.promotions(leases=conductor)
        await promotions.promote("coder", "clever", books.gate(), "", force=False)
        await until(lambda: conductor.statistics()["waiting"] == 1)
    promotions.configure((), SERVES, ())
    for _ in range(3):
        await asyncio.sleep(0)
    assert conductor.statistics()["leases"] == conductor.statistics()["waiting"] == 0


def test_a_file_that_is_none_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "overrides.json"
    path.write_text("{")
    assert Overrides(path).read() == {}
    assert (tmp_path / "overrides.json.unreadable").exists()
    assert isinstance(ClientError("x"), StokerError)


@story
async def test_a_promotion_ends_when_its_serve_is_removed_and_does_not_come_back_with_it(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "clever", books.gate(), "faster", force=False)
    assert promotions.lost((ALIAS,), SERVES) == []
    lost = [Override("coder", "clever", "fast", 1000.0, "g1", "faster")]
    assert promotions.lost((ALIAS,), SERVES[:1]) == lost
    promotions.configure((ALIAS,), SERVES[:1], (GATE,))
    assert await promotions.end_lost() == lost
    assert books.moves[-1] == AliasMoved("coder", "fast", "clever", MoveCause.ENDED)
    (shown,) = promotions.status()
    assert (shown["serve"], shown["promoted_at"], shown["evidence"], shown["watched_for"]) == ("fast", None, None, None)
    promotions.close()
    assert books.promotions().serve_by_alias() == {"coder": "fast"}


@story
async def test_a_promotion_ends_with_its_alias(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "clever", books.gate(), "faster", force=False)
    promotions.configure((), SERVES, (GATE,))
    assert [one.alias for one in await promotions.end_lost()] == ["coder"]
    assert books.moves[1:] == []
    assert books.promotions().serve_by_alias() == {"coder": "fast"}
    promotions.close()


@story
async def test_a_rollback_to_a_serve_that_was_removed_goes_to_the_configured_one(books: Books) -> None:
    promotions = books.promotions()
    await promotions.promote("coder", "odd", "", "try", force=True)
    await promotions.promote("coder", "clever", books.gate(), "faster", force=False)
    promotions.configure((ALIAS,), SERVES[:2], (GATE,))
    assert await promotions.end_lost() == []
    for _ in range(3):
        promotions.observe(Decision("r", 0.0, "/v1/messages", model="coder", serve="clever", outcome="upstream_failed"))
    await books.ended.wait()
    assert (books.moves[-1].serve, promotions.serve_by_alias()) == ("fast", {"coder": "fast"})
