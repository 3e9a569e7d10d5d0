"""An orchestrator whose worker is `auto`, where the extension that routes is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.app.program import settings_in
from tests.gateway.flow_stage import Stage, a_serve, ask, story

from stoker import extensions
from stoker.app.missing_extensions import planners_of_missing
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import Tier
from stoker_orchestrator.orchestrator import Orchestrator, Policy
from stoker_orchestrator.orchestrators import Orchestrators
from stoker_orchestrator.request import OrchestratorContext


def test_its_requests_say_which_extension_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "installed_extensions", tuple)
    pair = Orchestrator(name="pair", worker="auto", policy=Policy.BLOCK_BY_BLOCK)

    @story(a_serve("a"))
    async def tell(stage: Stage) -> None:
        own = Orchestrators((pair,), cast(OrchestratorContext, None))  # it gets no further
        settings = replace(
            settings_in(Path("/nowhere")),
            router=RouterSettings((Tier("cheap", "a"),)),
            extensions={"orchestrator": {"pair": pair}},
        )
        planners = (own, *planners_of_missing(settings, (own,)))
        stage.flow.configure(replace(stage.flow.settings, planners=planners))
        client = await stage.client()
        await client.send(ask("pair"))
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (503, "not_installed")
        assert "the extension auto, which is not installed" in reply.json()["error"]["message"]

    tell()
