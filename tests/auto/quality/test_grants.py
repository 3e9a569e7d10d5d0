"""Who asks a model for its own purposes keeps no lease: not even if it is cancelled in the moment of the grant."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.lease import Lease, PendingLease, Target
from stoker.domain.prompt import Prompt
from stoker.domain.routing import ClassifierModelSettings, RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver, Serve, Translation
from stoker.domain.task import ClassSource, Outline, Task
from stoker.domain.tier import Tier
from stoker.exchange.internal_client import InternalClient
from stoker.fleet.swapping.conductor import Conductor
from stoker.request.codec.usage import Usage
from stoker_auto.classifier import proof as proofs
from stoker_auto.classifier.labelled_prompts import held_out
from stoker_auto.quality.classifier_model import ClassifierModel
from stoker_auto.quality.judge import Judge
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_lab.artifacts import record_file
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.fleet import FakeFleet

FAR = Serve(
    "far", driver=Driver.EXTERNAL, translation=Translation(cloud=True), dialects=frozenset((Dialect.CHAT,)),
    max_active=1, queue_timeout=60.0,
)  # fmt: skip
"""A cloud that was not asked yet: only for such a one the judge and the classifier model wait."""
MARK = Fingerprint("far")
"""Of a cloud only the name is known."""


class CancelledAtGrant:
    """The leases of a conductor; `asker` is cancelled in the moment in which its lease is granted."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self.asker: asyncio.Task[Any] | None = None
        self.granted: list[str] = []

    def acquire(self, name: str, takes_place: bool = True, *share: object) -> Lease | PendingLease:
        pending = self._conductor.acquire(name, takes_place)
        assert isinstance(pending, asyncio.Future)
        pending.add_done_callback(self._cancel)
        return pending

    def _cancel(self, pending: asyncio.Future[Lease]) -> None:
        self.granted.append(pending.result().serve)
        assert self.asker is not None
        self.asker.cancel()

    def allow_preemption(self, lease: Lease) -> None:
        self._conductor.allow_preemption(lease)

    def target(self, name: str) -> Target | None:
        return self._conductor.target(name)

    def failure_code(self, name: str) -> str:
        return self._conductor.failure_code(name)


class NeverAsked(InternalClient):
    def __init__(self) -> None:
        """Needs nothing."""

    async def ask(
        self, serve: Serve, target: Target, question: Callable[[bool], Prompt], timeout: float
    ) -> tuple[Usage, str]:
        pytest.fail("it was cancelled before")


Asking = Callable[[CancelledAtGrant, TierRouter], Coroutine[Any, Any, object]]


def cancelled_at_its_grant(asking: Asking, settings: RouterSettings) -> None:
    async def story() -> None:
        conductor = Conductor([], [FAR], FakeFleet({"far": 1}), FakeClock())
        leases = CancelledAtGrant(conductor)
        router = TierRouter(settings, (FAR,), TierQuality({}), conductor.residency, lambda: 0.0)
        async with asyncio.timeout(5):
            leases.asker = asyncio.get_running_loop().create_task(asking(leases, router))
            with pytest.raises(asyncio.CancelledError):
                await leases.asker
        await asyncio.sleep(0)
        assert leases.granted == ["far"]
        assert conductor.statistics()["leases"] == conductor.statistics()["waiting"] == 0
        assert isinstance(conductor.acquire("far"), Lease), "its only place is free"

    asyncio.run(story())


def test_a_judge_that_is_cancelled_in_the_moment_of_its_grant_keeps_no_lease() -> None:
    judging = Tier("judge", "far", cloud=True)

    def asking(leases: CancelledAtGrant, router: TierRouter) -> Coroutine[Any, Any, object]:
        judge = Judge(leases, NeverAsked(), lambda: 0.0)
        return judge.ask(router, judging, "chat", "2+2?", "4", timeout=60.0)

    cancelled_at_its_grant(asking, RouterSettings((judging,)))


def test_a_classifier_model_that_is_cancelled_in_the_moment_of_its_grant_keeps_no_lease(tmp_path: Path) -> None:
    path = proofs.path_of(tmp_path, "far")
    path.parent.mkdir()
    lines = [proofs.ClassifierAnswer(row.digest, row.task_class, 0.01) for row in held_out()]
    path.write_bytes(b"".join([record_file.line(proofs.header_of(MARK)), *map(record_file.line, lines)]))
    unsure = Task("chat", ClassSource.LEARNED, ("sure:50%",), sure=0.5, risk=0.2)

    def asking(leases: CancelledAtGrant, router: TierRouter) -> Coroutine[Any, Any, object]:
        model = ClassifierModel(tmp_path, leases, NeverAsked(), Counter(), lambda: 0.0)
        assert model.use_router(router)
        return model.settle(unsure, Outline(text="a text"), may_use_cloud=True)

    tiers = (Tier("cheap", "far", cloud=True, classes=("*",)),)
    settings = RouterSettings(tiers, classifier=ClassifierModelSettings("far", 60.0, 0.8), high_risk=())
    cancelled_at_its_grant(asking, settings)
