"""What models wrote down, through the front door."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.gateway.flow_stage import LoopClock
from tests.gateway.test_admin import KEYS, Office, office, settings

from stoker.app.server_parts import ServerContext
from stoker.gateway.operations import Page
from stoker.store.metrics import Metrics
from stoker_orchestrator.memory.scratchpad import RunHead
from stoker_orchestrator.operations import OPERATIONS
from stoker_orchestrator.server import OrchestratorPart


class OrchestratorOffice(Office):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.files = tempfile.TemporaryDirectory()
        context = ServerContext(settings, Path(self.files.name), LoopClock(), lambda event: None, Metrics())
        self.part = OrchestratorPart(context)

    def pages(self) -> Iterator[Page]:
        return (Page(operation, self.part.answer) for operation in OPERATIONS)


@office(OrchestratorOffice, keys=KEYS)
async def test_what_models_wrote_is_for_administrators(stage: Office) -> None:
    assert isinstance(stage, OrchestratorOffice)
    with stage.files:
        stage.part.pads.begin(RunHead("run_1", "pair", "a"))
        path = "orchestrator/run_1?offset=0"
        for key in ("k-user", "k-eye"):
            assert (await stage.say(path, method="GET", x_api_key=key)).status == 403
        found = (await stage.say(path, method="GET", x_api_key="k-boss")).json()
        assert [(one["kind"], one["worker"]) for one in found["records"]] == [("head", "a")]
        path = f"orchestrator/run_1?offset={found['next']}"
        assert (await stage.say(path, method="GET", x_api_key="k-boss")).json()["records"] == []
