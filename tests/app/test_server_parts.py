"""Parts of extensions in the server: what they get, and that one which fails costs a line and nothing else."""

from __future__ import annotations

import asyncio
import logging
import sys
import tomllib
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.app.program import Assembly, settings_in
from tests.docs.commands import BLOCK

from stoker import extensions
from stoker.app import server_parts
from stoker.app.configuration import Configuration
from stoker.app.decision_observer import DecisionObserver
from stoker.app.reload import Reloader
from stoker.app.server_parts import RunningServer, ServerAccess, ServerPart, ServerParts
from stoker.domain.access import Settings
from stoker.domain.decision import Decision
from stoker.domain.events import Event, ServeExited
from stoker.domain.gate import MovedAlias, Override
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.domain.trace import RequestTrace
from stoker.exchange.planner import Planner
from stoker.extensions import Extension, InstalledExtension, load
from stoker.gateway.operations import Operation, PageRequest
from stoker.store.decisions import DecisionLog
from stoker.store.exposition import expose
from stoker.store.metrics import Metrics

DECISION = Decision(id="req_1", at=1.7e9, endpoint="/v1/chat/completions", key="alice")
PAGE = Path(__file__).parents[2] / "docs" / "how-it-works" / "extensions.md"


class Recorder(ServerPart):
    def __init__(self) -> None:
        self.seen: list[object] = []

    def configure(self, settings: Settings) -> None:
        self.seen.append(settings)

    def on_event(self, event: Event) -> None:
        self.seen.append(event)

    def on_decision(self, decision: Decision) -> None:
        self.seen.append(decision)

    def status(self) -> Mapping[str, object]:
        return {"seen": len(self.seen)}

    async def run(self, server: RunningServer) -> None:
        await server.worker_proved("east", Target("10.0.0.1", 8000))

    async def close(self) -> None:
        self.seen.append("closed")


class Faulty(ServerPart):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.tracer = self

    def _fail(self, name: str) -> Any:
        self.calls.append(name)
        raise RuntimeError(name)

    def configure(self, settings: Settings) -> None:
        self._fail("configure")

    def on_event(self, event: Event) -> None:
        self._fail("on_event")

    def on_decision(self, decision: Decision) -> None:
        self._fail("on_decision")

    def status(self) -> Mapping[str, object]:
        return self._fail("status")  # type: ignore[no-any-return]

    def metrics(self) -> Any:
        return self._fail("metrics")

    def begin(self, *_: object) -> RequestTrace:
        self.calls.append("begin")
        raise RuntimeError("begin")

    def finish(self, trace: RequestTrace, decision: Decision) -> None:
        raise RuntimeError("finish")

    async def run(self, server: RunningServer) -> None:
        raise RuntimeError("run")

    async def close(self) -> None:
        raise RuntimeError("close")


async def nowhere(edge: str, target: Target) -> None:
    """A server without edges."""


@pytest.mark.parametrize(
    "call",
    [lambda parts: parts.on_event(ServeExited("a", "")), lambda parts: parts.on_decision(DECISION),
     lambda parts: parts.configure(settings_in(Path())), lambda parts: parts.status(), lambda parts: parts.metrics()],
)  # fmt: skip
def test_a_method_that_raises_is_named_once_and_the_other_parts_go_on(
    call: Callable[[ServerParts], object], caplog: pytest.LogCaptureFixture
) -> None:
    faulty, recorder = Faulty(), Recorder()
    parts = ServerParts({"broken": faulty, "good": recorder})
    call(parts)
    call(parts)
    assert len(faulty.calls) == 2, "the next call may go well"
    assert [record.message for record in caplog.records] == [f"extension broken: {faulty.calls[0]} failed"]
    assert parts.status() == {"extensions": {}, "seen": len(recorder.seen)}


def test_a_tracer_that_raises_costs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    faulty = Faulty()
    tracer = ServerParts({"broken": faulty}).tracer
    assert tracer is not None
    for _ in range(2):
        tracer.finish(tracer.begin("POST", "http", {}, 0.0), DECISION)
    assert faulty.calls == ["begin"]
    assert len(caplog.records) == 1


def test_the_first_part_that_has_a_tracer_or_knows_edges_counts() -> None:
    assert ServerParts({}).tracer is None
    assert ServerParts({"a": ServerPart(), "b": Recorder()}).edge_targets is None


def test_a_part_runs_beside_the_others_and_is_closed_whatever_they_do() -> None:
    async def main() -> None:
        proved = []

        async def worker_proved(edge: str, target: Target) -> None:
            proved.append((edge, target.host))

        recorder = Recorder()
        parts = ServerParts({"broken": Faulty(), "good": recorder})
        await parts.run(RunningServer(worker_proved))
        await parts.close()
        assert proved == [("east", "10.0.0.1")]
        assert recorder.seen == ["closed"]

    asyncio.run(main())


class Odd(ServerPart):
    """Answers with what cannot be used, and does not end."""

    def __init__(self, status: object = None, metrics: object = None) -> None:
        self._status, self._metrics = status, metrics

    def status(self) -> Any:
        return self._status

    def metrics(self) -> Any:
        return self._metrics

    async def run(self) -> None:  # type: ignore[override]
        """The server that it is given was forgotten."""

    async def close(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("status", [None, {"a": object()}, 3])
@pytest.mark.parametrize("metrics", [None, [3]])
def test_an_answer_that_cannot_be_used_is_a_failure_too(
    status: object, metrics: object, caplog: pytest.LogCaptureFixture
) -> None:
    parts = ServerParts({"odd": Odd(status, metrics), "good": Recorder()})
    for _ in range(2):
        assert parts.status() == {"extensions": {}, "seen": 0}
        assert parts.metrics() == []
    assert [record.message for record in caplog.records] == [
        "extension odd: status failed",
        "extension odd: metrics failed",
    ]


def test_a_part_that_is_called_wrongly_or_does_not_end_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_parts, "CLOSE_WITHIN", 0.0)

    async def main() -> None:
        recorder = Recorder()
        parts = ServerParts({"odd": Odd(), "good": recorder})
        await parts.run(RunningServer(nowhere))
        await parts.close()
        assert recorder.seen == ["closed"]

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [
        "extension odd: run failed",
        "extension odd: close failed",
    ]


class Planning(Recorder):
    """Answers to a name, has a page, and says what a reload changed."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem

    def connect(self, server: ServerAccess) -> None:
        if self.problem:
            raise RuntimeError(self.problem)
        self.server = server

    def plan(self, configuration: Configuration, before: Collection[Serve]) -> Planner | None:
        assert self.server.conductor.running is not None
        planner = Planner()
        planner.names = ("own",)
        return planner

    async def reloaded(self, settings: Settings, dry_run: bool) -> Mapping[str, object]:
        return {"planned": dry_run}

    def moved_aliases(self) -> Mapping[str, MovedAlias]:
        return {"coder": MovedAlias(Override("coder", "clever", "fast", 7.0, reason="faster"), 5.0)}

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        return {"rest": page.rest}


def test_a_part_plans_answers_pages_moves_aliases_and_is_told_of_reloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("planning_extension")
    module.build = lambda context: Planning()  # type: ignore[attr-defined]
    module.PAGES = PLANS  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planning_extension", module)
    extension = Extension("", server="planning_extension:build", pages="planning_extension:PAGES")
    monkeypatch.setattr(server_parts, "installed_extensions", lambda: (InstalledExtension("p", "p 1", extension, ""),))

    async def main() -> None:
        async with Assembly(tmp_path) as program:
            flow, extensions = program.parts.gateway.flow, program.parts.extensions
            assert flow.settings.planner_of("own") is not None
            assert flow.settings.names.resolve("coder", lambda serve: True).name == "clever"
            (alias,) = program.parts.gateway.setup.aliases(program.settings)
            assert (alias["serve"], alias["configured"], alias["promoted_at"]) == ("clever", "fast", 7.0)
            assert (alias["reason"], alias["watched_for"]) == ("faster", 5.0)
            reloader = Reloader(program.active, program.read, program.parts)
            assert (await reloader.reload(dry_run=True))["planned"] is True
            page = extensions.pages["GET", "plans", True]
            assert await page.answer(PageRequest(page.operation, "x", {}, None)) == {"rest": "x"}

    asyncio.run(main())


class Observing(Planning):
    """Says whether it observes by what `connect` has made."""

    @property
    def is_observing(self) -> bool:  # type: ignore[override]
        return self.server is not None


PLANS = (Operation("GET", "/admin/plans/{name}", "One plan."),)


def test_a_part_that_cannot_be_connected_is_asked_nothing_any_more(caplog: pytest.LogCaptureFixture) -> None:
    part, recorder, metrics = Observing("no card"), Recorder(), Metrics()
    parts = ServerParts({"good": recorder, "torn": part}, {"torn": PLANS})
    parts.connect(cast(ServerAccess, None))
    assert parts.planners(cast(Configuration, None), ()) == ()
    problems = {"torn": "connect failed: RuntimeError: no card"}
    assert (parts.status(), parts.moved_aliases(), parts.pages) == ({"extensions": problems, "seen": 0}, {}, {})
    DecisionObserver(cast(DecisionLog, Kept()), metrics, parts).on_decision(DECISION)
    asyncio.run(parts.close())
    assert (part.seen, recorder.seen) == ([], [DECISION, "closed"])
    assert [record.message for record in caplog.records] == ["extension torn: connect failed, so it is not used"]


def test_a_part_that_cannot_say_whether_it_observes_costs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    parts = ServerParts({"broken": Observing(), "good": recorder})  # `connect` was not called
    DecisionObserver(cast(DecisionLog, Kept()), Metrics(), parts).on_decision(DECISION)
    assert recorder.seen == [DECISION]
    assert [record.message for record in caplog.records] == ["extension broken: on_decision failed"]


def test_a_part_that_does_not_observe_gets_no_decision() -> None:
    asleep, recorder = Recorder(), Recorder()
    asleep.is_observing = False
    DecisionObserver(cast(DecisionLog, Kept()), Metrics(), ServerParts({"a": asleep, "b": recorder})).on_decision(
        DECISION
    )
    assert (asleep.seen, recorder.seen) == ([], [DECISION])


class Kept:
    """A decision log that keeps nothing."""

    def record(self, decision: Decision) -> None: ...


class PlanningOnce(Planning):
    """Cannot plan with another configuration than the first."""

    first: Configuration | None = None

    def plan(self, configuration: Configuration, before: Collection[Serve]) -> Planner | None:
        self.first = self.first or configuration
        if configuration is not self.first:
            raise BrokenPipeError("nobody reads")
        return super().plan(configuration, before)


def test_a_reload_with_which_a_part_cannot_plan_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("planning_once")
    module.build = lambda context: PlanningOnce()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planning_once", module)
    extension = Extension("", server="planning_once:build")
    monkeypatch.setattr(server_parts, "installed_extensions", lambda: (InstalledExtension("p", "p 1", extension, ""),))

    async def main() -> None:
        async with Assembly(tmp_path) as program:
            before = program.active.current
            program.next_settings = replace(program.settings, aliases=())
            for _ in range(2):
                with pytest.raises(BrokenPipeError):
                    await Reloader(program.active, program.read, program.parts).reload()
                assert program.active.current is before
                assert program.parts.gateway.flow.settings.planner_of("own") is not None

    asyncio.run(main())


def test_what_cannot_be_used_is_left_out_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def build(context: server_parts.ServerContext) -> ServerPart:
        assert context.settings().serves
        raise OSError("no card")

    module = types.ModuleType("torn_extension")
    module.build = build  # type: ignore[attr-defined]
    module.nothing = lambda context: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torn_extension", module)
    installed = (
        InstalledExtension("gone", "gone 1.0", None, "ImportError: gone"),
        InstalledExtension("torn", "torn 2.0", Extension("", server="torn_extension:build"), ""),
        InstalledExtension("empty", "empty 2.0", Extension("", server="torn_extension:nothing"), ""),
        InstalledExtension("commands", "commands 3.0", Extension(""), ""),
    )
    monkeypatch.setattr(server_parts, "installed_extensions", lambda: installed)

    async def main() -> None:
        async with Assembly(tmp_path) as program:
            assert program.front is not None

    asyncio.run(main())
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "extension gone (gone 1.0) is not used: ImportError: gone",
        "extension torn (torn 2.0) is not used: OSError: no card",
        "extension empty (empty 2.0) is not used: TypeError: torn_extension:nothing gave no ServerPart",
    ]


@pytest.mark.parametrize("installed", [(), (InstalledExtension("auto", "s 1", None, "ImportError: x"),)])
def test_without_routing_the_status_says_so_and_which_promotions_have_no_effect(
    installed: tuple[InstalledExtension, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (server_parts, extensions):
        monkeypatch.setattr(module, "installed_extensions", lambda: installed)
    (tmp_path / "state").mkdir(mode=0o700)
    promoted = [Override(name, "clever", "fast", 7.0) for name in ("coder", "gone")]
    (tmp_path / "state" / "overrides.json").write_bytes(msgspec.json.encode(promoted))
    reason = "cannot be used (ImportError: x): see" if installed else "is not installed:"

    async def main() -> None:
        async with Assembly(tmp_path) as program:
            assert program.parts.extensions.status() == {"extensions": {one.name: one.problem for one in installed}}
            ((kind, serve, text),) = program.notes
            assert (kind, serve) == ("warned", "clever")
            begin = (
                "alias coder was promoted to clever and points to fast, as configured: promotions need the extension"
            )
            assert text.startswith(f"{begin} auto, which {reason}")
            assert program.announced == [f"warning: {text}"]

    asyncio.run(main())


def test_the_example_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = {match[3]: match[4] for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    (tmp_path / "stoker_tally.py").write_text(blocks["python"])
    monkeypatch.syspath_prepend(tmp_path)
    name, place = next(iter(tomllib.loads(blocks["toml"])["project"]["entry-points"]["stoker.extensions"].items()))
    installed = InstalledExtension(name, "stoker-tally 1.0", load(place), "")
    monkeypatch.setattr(server_parts, "installed_extensions", lambda: (installed,))

    async def main() -> None:
        async with Assembly(tmp_path) as program:
            extensions = program.parts.extensions
            extensions.on_decision(DECISION)
            assert extensions.status()["tally"] == {"alice": 1}
            text = expose(Metrics(), {}, extensions.metrics()).decode()
            assert 'stoker_tally_total{key="alice"} 1.0' in text

    asyncio.run(main())
