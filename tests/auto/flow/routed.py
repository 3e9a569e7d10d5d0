"""Lets a stage of the flow stories route."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.gateway.flow_stage import Stage

from stoker_auto.routing.collaborators import Collaborators
from stoker_auto.routing.dispatch import Dispatcher
from stoker_auto.routing.router import TierRouter


def use_router(stage: Stage, router: TierRouter | None, **collaborators: Any) -> None:
    """Requests may name a task from here on; None: no longer."""
    parts = Collaborators(**collaborators)
    planners = () if router is None else (Dispatcher(stage.upstream_client, router, parts),)
    stage.flow.configure(replace(stage.flow.settings, planners=planners))


def work_with(stage: Stage, **collaborators: Any) -> None:
    """As `use_router`, with the same router."""
    (dispatcher,) = stage.flow.settings.planners
    assert isinstance(dispatcher, Dispatcher)
    use_router(stage, dispatcher.router, **collaborators)
