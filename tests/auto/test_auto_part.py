"""The part of the server: promotions reach the next request, and tiers come and go with the configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.app.program import Assembly, assembled

from stoker.app.reload import Reloader
from stoker.domain.events import PromotionWatchEnded
from stoker.domain.gate import Override
from stoker.domain.routing import ClassifierModelSettings, RouterSettings
from stoker.domain.run import Finding, Outcome, RunKind
from stoker.domain.tier import Tier
from stoker_auto.server import AutoPart


def auto_of(program: Assembly) -> AutoPart:
    part = program.parts.extensions.by_name["auto"]
    assert isinstance(part, AutoPart)
    return part


def reloader(program: Assembly) -> Reloader:
    return Reloader(program.active, program.read, program.parts)


@assembled()
async def test_the_next_request_sees_an_alias_that_moved(program: Assembly) -> None:
    flow, promotions = program.parts.gateway.flow, auto_of(program).promotions
    await promotions.promote("coder", "clever", "", "faster", force=True)
    assert flow.settings.names.resolve("coder", lambda serve: True).name == "clever"
    await promotions.reset("coder")
    assert flow.settings.names.resolve("coder", lambda serve: True).name == "fast"
    assert program.notes == [
        ("promoted", "clever", "alias coder points to it now; before, it pointed to fast: faster"),
        ("reset", "fast", "alias coder points to it again; before, it pointed to clever"),
    ]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.PASSED])
def test_the_end_of_a_watch_is_a_stored_result(outcome: Outcome, tmp_path: Path) -> None:
    finding = Finding("canary", outcome, "3 of 4 differ")

    @assembled()
    async def story(program: Assembly) -> None:
        override = Override("coder", "clever", "fast", 100.0)
        auto = auto_of(program)
        auto.on_event(PromotionWatchEnded(override, finding, rolled_back=outcome is Outcome.FAILED))
        await auto.close()  # it is written
        (path,) = (Path(program.settings.paths.state) / "results").glob("*.json")
        run = auto.results.find(path.stem)
        assert run is not None
        assert (run.kind, run.outcome, run.at, run.findings) == (RunKind.PROMOTION, outcome, 100.0, [finding])
        assert (run.subject.serve, run.setting("previous")) == ("clever", "fast")

    story(tmp_path)


@pytest.mark.parametrize("name", ["fingerprints.json", "overrides.json"])
def test_a_file_of_the_state_that_is_no_text_does_not_turn_routing_off(name: str, tmp_path: Path) -> None:
    @assembled(router=RouterSettings((Tier("cheap", "fast"),)))
    async def story(program: Assembly) -> None:
        assert program.parts.extensions.problems == {}
        assert program.parts.gateway.flow.settings.planner_of("auto") is auto_of(program).dispatcher

    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / name).write_bytes(b'[{"alias":"\xff"}]' if name == "overrides.json" else b'{"\xff":{}}')
    story(tmp_path)


@assembled()
async def test_a_reload_has_its_effect_though_nobody_reads_what_is_announced(program: Assembly) -> None:
    program.nobody_reads = True
    router = RouterSettings((Tier("cheap", "fast"),), classifier=ClassifierModelSettings("fast"))
    program.next_settings = replace(program.settings, router=router)
    await reloader(program).reload()
    assert program.parts.gateway.flow.settings.planner_of("auto") is auto_of(program).dispatcher
    assert auto_of(program).classifier_model.problem, "it is not measured, and that was to be announced"


@assembled()
async def test_only_ids_of_results_are_looked_for(program: Assembly) -> None:
    results = auto_of(program).results
    assert [results.find(name) for name in ("", "missing", "../overrides", "a/b")] == [None] * 4


@assembled()
async def test_tiers_come_and_go_with_the_configuration(program: Assembly) -> None:
    flow = program.parts.gateway.flow
    auto = auto_of(program)
    assert flow.settings.planners == ()
    router = RouterSettings((Tier("cheap", "fast"), Tier("dear", "clever")))
    program.next_settings = replace(program.settings, router=router)
    assert (await reloader(program).reload())["routing"] is True
    (dispatcher,) = flow.settings.planners
    assert dispatcher is auto.dispatcher
    kept = auto.router
    assert flow.settings.names.resolve("dear", lambda serve: True).name == "clever"
    await reloader(program).reload()
    (following,) = flow.settings.planners
    assert following is not dispatcher
    assert auto.dispatcher is not None
    assert auto.dispatcher.router is kept
    program.next_settings = program.settings
    await reloader(program).reload()
    assert flow.settings.planners == ()
