"""A drift alarm has the preflight run beside the requests of a serve, and only its failure demotes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from stoker.domain.decision import Attempt, Routed
from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker.domain.routing import RouterSettings
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, RunKind, Subject
from stoker.domain.serve import Serve, ServeIdentity, Translation
from stoker.domain.tier import Demotion, ProfileRow, Tier, Verdict
from stoker_auto.decide.demotion import TRIES
from stoker_auto.quality.demotion import Demoter, Reports
from stoker_auto.quality.demotions_file import Demotions, path_of
from stoker_auto.quality.fingerprints import FingerprintStore
from stoker_auto.quality.monitor import QualityMonitor
from stoker_auto.quality.recheck import LEFT_OUT, RECHECK_COOLDOWN, Prove, Rounds, prove
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.artifacts import result_file
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

MARK = Fingerprint("identity", "execution")
FAILED: Rounds = [
    [Finding("model", Outcome.PASSED), Finding("stop", Outcome.FAILED)],
    [Finding("stop", Outcome.FAILED)],
]
PASSED: Rounds = [[Finding("model", Outcome.PASSED)]]
BROKEN: Rounds = [[Finding("model", Outcome.INTERRUPTED)]]


class Nobody:
    def is_loaded(self, name: str) -> bool:
        return True

    def displaces(self, name: str) -> bool:
        return False

    def unavailable_reason(self, name: str, now: float) -> str:
        return ""


def row(name: str, task: str = "tool-use", at: float = 1.0) -> ProfileRow:
    return ProfileRow(name, task, MARK.identity, MARK.execution, 27, 27, Verdict.ALLOW, at=at)


class Clock:
    """The time of a story."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def now(self) -> float:
        return self._story.now

    def wall(self) -> float:
        return 9.0


class Story:
    """Tiers `a` and `b`, each a serve of its own, that run and were measured; the preflight is what a test says."""

    def __init__(self, state: Path, serves: tuple[Serve, ...] = (Serve("a"), Serve("b"))) -> None:
        self.state = state
        self.ports = {"a": 1, "b": 2}
        self.notes: list[tuple[str, str, str]] = []
        self.asked: list[str] = []
        self.counted: list[tuple[str, str]] = []
        self.under_way = 0
        self.begun = asyncio.Event()
        self.results: list[Rounds] = []
        """What preflights say, in turn; none left: they wait."""
        self.now = 0.0
        rows = {(name, task): row(name, task) for name in "ab" for task in ("tool-use", "chat")}
        tiers = tuple(Tier(one.name, one.name, one.translation.cloud) for one in serves)
        self.tier_quality = TierQuality(rows)
        self.router = TierRouter(RouterSettings(tiers), serves, self.tier_quality, Nobody(), lambda: 0.0)
        self.prove: Prove = self._prove
        self.measured = self._measured()

    def _measured(self) -> QualityMonitor:
        def note(*told: str) -> None:
            self.notes.append((told[0], told[1], told[2]))

        self.demoter = Demoter(
            self.tier_quality, self.state, self._target, Clock(self), Reports(note, self._count), self._run_preflight
        )
        known = FingerprintStore(self.state, lambda serve: "same")
        made = QualityMonitor(self.tier_quality, self.demoter, known, self._target, note)
        made.use_router(self.router)
        for name in ("a", "b"):
            self.tier_quality.on_identified(name, MARK)
        return made

    async def _run_preflight(self, serve: Serve, target: Target) -> Rounds:
        return await self.prove(serve, target)

    def _count(self, tier: str, task: str) -> None:
        self.counted.append((tier, task))

    def _target(self, name: str) -> Target | None:
        return Target("127.0.0.1", self.ports[name], "", name) if name in self.ports else None

    async def _prove(self, serve: Serve, target: Target) -> Rounds:
        self.asked.append(serve.name)
        self.under_way += 1
        assert self.under_way == 1, "one at a time"
        try:
            self.begun.set()
            return self.results.pop(0) if self.results else await asyncio.Future()
        finally:
            self.under_way -= 1

    def restart(self) -> None:
        """Another Stoker on the same directory."""
        self.tier_quality = TierQuality(self.tier_quality.rows)
        serves = [Serve("a"), Serve("b")]
        self.router = TierRouter(self.router.settings, serves, self.tier_quality, Nobody(), lambda: 0.0)
        self.measured = self._measured()

    def fails(self, tier: str = "a", task: str = "tool-use") -> None:
        """Live answers that were found wrong, until the alarm."""
        for _ in range(3):
            attempt = Attempt(tier, "served", checked=True, findings=["schema"])
            self.measured.observe(Routed(task, "declared", attempts=[attempt]))

    async def settled(self) -> None:
        """Every preflight came to its end, those that followed too."""
        while tasks := [task for task in asyncio.all_tasks() if task.get_name().startswith("preflight-")]:
            await asyncio.gather(*tasks, return_exceptions=True)

    def stands(self, tier: str = "a", task: str = "tool-use") -> tuple[Verdict, str]:
        found = self.router.standing(self.router.settings.tiers["ab".index(tier)], task)
        return found.verdict, found.why

    def told(self, kind: str) -> list[str]:
        return [text for what, _, text in self.notes if what == kind]


def story(test: Callable[[Story], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def told(tmp_path: Path) -> None:
        async def go() -> None:
            one = Story(tmp_path)
            await test(one)
            await one.measured.close()
            assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("preflight-")]

        asyncio.run(go())

    told.__doc__ = test.__doc__
    return told


@story
async def test_a_tier_that_fails_the_preflight_after_an_alarm_is_denied_where_the_alarm_was(one: Story) -> None:
    one.results = [FAILED]
    one.fails()
    assert one.stands()[0] is Verdict.VERIFY, "the alarm alone only brings the checks back"
    await one.settled()
    assert one.stands() == (Verdict.DENY, "demoted: its answers became worse, and the preflight failed at stop")
    assert (one.stands("a", "chat")[0], one.stands("b")[0]) == (Verdict.ALLOW, Verdict.ALLOW)
    [told] = one.told("demoted")
    assert told.startswith("tier a at tool-use: demoted: ")
    assert "failed at stop" in told
    assert ("a", "tool-use", one.stands()[1]) in one.router.stale()
    assert one.counted == [("a", "tool-use")]


@story
async def test_a_tier_that_passes_stays_suspect_and_is_told_how_to_settle_it(one: Story) -> None:
    one.results = [PASSED]
    one.fails()
    await one.settled()
    assert one.stands()[0] is Verdict.VERIFY
    assert one.told("drift")[-1] == "tier a at tool-use: the preflight passes: `stoker eval calibrate a` settles it"
    assert not path_of(one.state).exists()
    assert one.counted == []


@pytest.mark.parametrize(("mark", "verdict"), [(MARK, Verdict.VERIFY), (Fingerprint("other", "e"), Verdict.DENY)])
def test_a_gate_that_the_same_model_failed_when_it_was_well_is_no_news(
    tmp_path: Path, mark: Fingerprint, verdict: Verdict
) -> None:
    async def go() -> None:
        one = Story(tmp_path)
        subject = Subject("a", "a", "", fingerprint=mark)
        kept = Run("x-preflight-a-1", RunKind.PREFLIGHT, 1.0, 1.0, subject, Outcome.FAILED, list(FAILED[0]))
        result_file.save(kept, result_file.results_of(tmp_path))
        (result_file.results_of(tmp_path) / "y-preflight-a-2.json").write_text("{")
        one.results = [FAILED]
        one.fails()
        await one.settled()
        assert one.stands()[0] is verdict

    asyncio.run(go())


@story
async def test_a_demotion_outlives_the_stoker_that_made_it_and_ends_with_a_new_measurement(one: Story) -> None:
    one.results = [FAILED]
    one.fails()
    await one.settled()
    await one.measured.close()
    one.restart()
    assert one.stands()[0] is Verdict.DENY
    assert one.counted == [("a", "tool-use")], "what was read from the disk is counted once, when it came"
    one.tier_quality.on_identified("a", Fingerprint("another", "execution"))
    assert one.stands()[0] is Verdict.VERIFY, "another one was not found to be bad, nor was it measured"
    one.tier_quality.on_identified("a", MARK)
    assert one.stands()[0] is Verdict.DENY, "and back again nothing is proved"
    one.tier_quality.on_measured({**one.tier_quality.rows, ("a", "tool-use"): row("a", at=2.0)})
    assert one.stands()[0] is Verdict.ALLOW


@story
async def test_one_preflight_runs_at_a_time_and_each_alarm_has_its_own(one: Story) -> None:
    one.results = [FAILED, PASSED]
    one.fails("a")
    one.fails("b")
    await one.settled()
    assert one.asked == ["a", "b"]
    assert (one.stands("a")[0], one.stands("b")[0]) == (Verdict.DENY, Verdict.VERIFY)


@story
async def test_a_serve_that_is_not_loaded_is_asked_when_it_is_ready_and_was_looked_at(one: Story) -> None:
    one.results = [FAILED]
    one.tier_quality.on_stopped("a")
    one.fails()
    await one.settled()
    assert one.asked == []
    one.tier_quality.on_identified("a", MARK)
    one.demoter.on_identified("a")
    await one.settled()
    assert one.stands()[0] is Verdict.DENY


@story
async def test_a_stop_breaks_it_off_and_it_is_asked_again_when_it_is_back(one: Story) -> None:
    one.fails()
    await one.begun.wait()
    assert one.under_way == 1
    one.measured.on_stopped("a")
    await one.settled()
    assert (one.stands()[0], one.told("demoted")) == (Verdict.VERIFY, [])
    one.results = [FAILED]
    one.tier_quality.on_identified("a", MARK)
    one.demoter.on_identified("a")
    await one.settled()
    assert one.asked == ["a", "a"]
    assert one.stands()[0] is Verdict.DENY


@story
async def test_a_serve_that_dies_of_it_each_time_is_left_alone_and_stays_suspect(one: Story) -> None:
    one.results = [BROKEN, BROKEN, BROKEN]
    one.fails()
    await one.settled()
    assert len(one.asked) == TRIES
    assert one.stands()[0] is Verdict.VERIFY
    assert "interrupted each time" in one.told("drift")[-1]


@story
async def test_the_end_of_stoker_ends_it_and_demotes_nobody(one: Story) -> None:
    one.fails()
    await one.begun.wait()
    await one.measured.close()
    assert (one.under_way, one.told("demoted"), one.asked) == (0, [], ["a"])


@story
async def test_what_was_measured_meanwhile_is_not_demoted(one: Story) -> None:
    gate: asyncio.Future[Rounds] = asyncio.get_running_loop().create_future()

    async def slow(serve: Serve, target: Target) -> Rounds:
        one.begun.set()
        return await gate

    one.prove = slow
    one.fails()
    await one.begun.wait()
    one.tier_quality.on_measured({**one.tier_quality.rows, ("a", "tool-use"): row("a", at=2.0)})
    one.measured.use_router(one.router)
    one.tier_quality.on_identified("a", MARK)
    gate.set_result(FAILED)
    await one.settled()
    assert one.told("demoted") == []


@story
async def test_a_suspect_that_goes_on_to_fail_is_not_asked_all_the_time(one: Story) -> None:
    one.results = [PASSED, FAILED]
    one.fails()
    await one.settled()
    one.fails()
    await one.settled()
    assert one.asked == ["a"]
    one.now = RECHECK_COOLDOWN
    one.fails()
    await one.settled()
    assert (one.asked, one.stands()[0]) == (["a", "a"], Verdict.DENY)


@story
async def test_an_alarm_that_comes_while_it_is_asked_already_asks_no_second_time(one: Story) -> None:
    gate: asyncio.Future[Rounds] = asyncio.get_running_loop().create_future()

    async def slow(serve: Serve, target: Target) -> Rounds:
        one.asked.append(serve.name)
        one.begun.set()
        return await gate

    one.prove = slow
    one.fails()
    await one.begun.wait()
    one.fails()
    gate.set_result(PASSED)
    await one.settled()
    assert one.asked == ["a"]


@story
async def test_a_tier_that_was_measured_again_has_its_next_alarm_looked_into_at_once(one: Story) -> None:
    one.results = [PASSED, FAILED]
    one.fails()
    await one.settled()
    one.tier_quality.on_measured({**one.tier_quality.rows, ("a", "tool-use"): row("a", at=2.0)})
    one.measured.use_router(one.router)
    one.tier_quality.on_identified("a", MARK)
    one.tier_quality.on_identified("a", MARK)
    one.fails()
    await one.settled()
    assert (one.asked, one.stands()[0]) == (["a", "a"], Verdict.DENY)


@story
async def test_a_preflight_that_breaks_inside_stoker_is_broken_off_and_the_next_alarm_has_one(one: Story) -> None:
    async def bug(serve: Serve, target: Target) -> Rounds:
        raise RuntimeError("a bug")

    right, one.prove = one.prove, bug
    one.fails()
    await one.settled()
    assert one.told("demoted") == []
    one.prove = right
    one.results = [FAILED]
    one.fails("b")
    await one.settled()
    assert one.stands("b")[0] is Verdict.DENY


@pytest.mark.parametrize(
    ("serve", "why"),
    [
        (Serve("a", translation=Translation(cloud=True)), "no preflight of a cloud"),
        (Serve("a", dialects=frozenset((Dialect.MESSAGES,))), "speaks no chat"),
    ],
)
def test_what_cannot_be_asked_stays_suspect_and_says_why(tmp_path: Path, serve: Serve, why: str) -> None:
    async def go() -> None:
        one = Story(tmp_path, (serve, Serve("b")))
        one.fails()
        await one.settled()
        assert one.asked == []
        assert why in one.told("drift")[-1]

    asyncio.run(go())


def test_a_disk_that_takes_nothing_leaves_the_demotion_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        one = Story(tmp_path / "gone")
        one.results = [FAILED]
        one.fails()
        await one.settled()
        assert one.stands()[0] is Verdict.DENY
        assert "the demotion holds until Stoker ends" in caplog.text

    asyncio.run(go())


def test_a_file_that_is_none_demotes_nobody_and_stops_no_start(tmp_path: Path) -> None:
    kept = Demotions(path_of(tmp_path))
    one = Demotion("a", "chat", "i", "e", 1.0, ("stop",), 2.0)
    kept.write([one])
    assert kept.read() == {("a", "chat"): one}
    for body in (b"{", b"[3]", b'["\xff"]'):
        kept.path.write_bytes(body)
        assert kept.read() == {}


def test_a_real_preflight_asks_what_fails_twice_and_leaves_out_what_wants_the_serve_alone() -> None:
    async def go() -> Rounds:
        async with ScriptedServer(Script(id="m")) as server:
            return await prove(Serve("m", context=4096), Target("127.0.0.1", server.port, "", "m"))

    first, again = asyncio.run(go())
    assert {one.name for one in first}.isdisjoint(LEFT_OUT)
    assert "tool-single" in {one.name for one in again}
    assert [one.name for one in first if one.outcome is Outcome.FAILED] == [one.name for one in again]


@pytest.mark.parametrize(
    ("identity", "outcome"),
    [(ServeIdentity.MODELS, Outcome.FAILED), (ServeIdentity.NONE, Outcome.NOT_APPLICABLE)],
)
def test_only_an_engine_with_a_list_of_models_is_asked_for_its_identity(
    identity: ServeIdentity, outcome: Outcome
) -> None:
    async def go() -> Rounds:
        async with ScriptedServer(Script(id="m", absent="/v1/models")) as server:
            serve = Serve("m", context=4096, identity=identity, health="/health")
            return await prove(serve, Target("127.0.0.1", server.port, "", "m"))

    [model] = [one for one in asyncio.run(go())[0] if one.name == "model"]
    assert model.outcome is outcome


def test_a_cancel_breaks_the_real_one_off_at_once_and_leaves_no_verdict() -> None:
    async def go() -> Rounds:
        async with ScriptedServer(Script(id="m", first_event_after=600.0)) as server:
            work = prove(Serve("m", context=4096), Target("127.0.0.1", server.port, "", "m"))
            task = asyncio.get_running_loop().create_task(work)
            await server.until(lambda seen: bool(server.requests))
            task.cancel()
            return await asyncio.wait_for(task, 5)

    [findings] = asyncio.run(go())
    assert {one.outcome for one in findings} == {Outcome.INTERRUPTED}


def test_a_server_that_is_gone_is_broken_off_and_not_judged() -> None:
    [findings] = asyncio.run(prove(Serve("m"), Target("127.0.0.1", 9, "", "m")))
    assert {one.outcome for one in findings} <= {Outcome.INTERRUPTED, Outcome.NOT_APPLICABLE}


def test_stoker_starts_without_reading_the_gates() -> None:
    code = "import sys, stoker.app.run; sys.exit('stoker_lab.preflight.run' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0
