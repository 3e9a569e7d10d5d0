"""What requests that name a task say of the model that will be wanted next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.auto.flow.test_flow_routing import LARGE, SMALL, route, whole
from tests.gateway.flow_stage import Stage, ask, story

from stoker.domain.routing import RouterSettings, TaskClass
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.domain.task import ClassSource, Outline, Task
from stoker.domain.tier import Cost, ProfileRow, Tier, Verdict
from stoker_auto.routing.prewarm import PAUSE, Prewarmer
from stoker_auto.routing.router import RoutingConstraints, TierRouter
from stoker_auto.routing.tier_quality import TierQuality

TIERS = (
    Tier("quick", "small", cost=Cost(0.1, 0.1)),
    Tier("coder", "code", cost=Cost(0.2, 0.2)),
    Tier("thinker", "think", cost=Cost(0.3, 0.3)),
    Tier("sky", "far", cloud=True, cost=Cost(1.0, 1.0)),
)
GOOD = (("quick", "chat"), ("coder", "code-write"), ("thinker", "planning"), ("sky", "creative"))


class Room:
    """One slot, by name: what is loaded is in it, and everybody else would displace it."""

    def __init__(self) -> None:
        self.holds = "small"

    def is_loaded(self, name: str) -> bool:
        return name in (self.holds, "far")

    def displaces(self, name: str) -> bool:
        return not self.is_loaded(name)

    def unavailable_reason(self, name: str, now: float) -> str:
        return ""


@dataclass
class Timer:
    at: float
    call: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class World:
    """Requests by class, one a minute, and what the warm pool is told."""

    def __init__(self, **router: object) -> None:
        self.now = 100.0
        self.room = Room()
        self.told: list[dict[str, str]] = []
        self.timers: list[Timer] = []
        serves = [Serve(tier.serve) for tier in TIERS]
        self.settings = RouterSettings(TIERS, high_risk=(), **router)  # type: ignore[arg-type]
        self.tier_quality = TierQuality({})
        self.router = TierRouter(self.settings, serves, self.tier_quality, self.room, lambda: self.now)
        self.tier_quality.on_configured({tier.serve: Fingerprint("i", "e") for tier in TIERS})
        for tier, task_class in GOOD:
            self.measured(tier, task_class, Verdict.ALLOW)
        self.prewarmer = Prewarmer(self._tell, lambda: self.now, self._after)
        self.prewarmer.use_router(self.router)

    def _tell(self) -> None:
        self.told.append(self.wanted())

    def _after(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + seconds, call))
        return self.timers[-1]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [one for one in self.timers if one.at <= self.now]
        self.timers = [one for one in self.timers if one.at > self.now]
        for one in due:
            if not one.is_cancelled:
                one.call()

    def wanted(self) -> dict[str, str]:
        return {serve: why.value for serve, why in self.prewarmer.predictions()}

    def ask(self, task_class: str, later: float = 60.0, starts: bool = False) -> None:
        self.wait(later)
        for tier in TIERS:
            self.tier_quality.on_stopped(tier.serve)
        for serve in (self.room.holds, "far"):
            self.tier_quality.on_identified(serve, Fingerprint("i", "e"))
        plan = self.router.plan(Task(task_class, ClassSource.DECLARED), Outline(), RoutingConstraints())
        self.prewarmer.on_plan(plan)
        if starts:
            self.room.holds = plan.steps[0].tier.serve

    def measured(self, tier: str, task_class: str, verdict: Verdict) -> None:
        row = ProfileRow(tier, task_class, "i", "e", 40, 40, verdict)
        self.tier_quality.on_measured({**self.tier_quality.rows, (tier, task_class): row})


def test_what_was_passed_over_for_a_place_is_told_once() -> None:
    world = World()
    for _ in range(3):
        world.ask("code-write")
    assert world.told == [{"code": "rule"}]


def test_what_is_started_now_is_told_by_nobody_but_the_start() -> None:
    world = World(classes=(TaskClass("planning", tier="thinker"),))
    world.ask("planning", starts=True)
    world.ask("planning")
    assert world.told == []
    assert world.wanted() == {}, "it is there"


def test_a_class_that_comes_next_has_its_specialist_ready() -> None:
    world = World(classes=(TaskClass("planning", tier="thinker"), TaskClass("code-write", tier="coder")))
    for name in ("planning", "code-write", "planning"):
        world.ask(name, starts=True)
    assert world.wanted() == {"code": "pattern"}, "after planning comes code"
    world.ask("code-write", starts=True)
    assert world.wanted() == {"think": "pattern"}


def test_a_denied_tier_is_never_foreseen_not_even_one_that_was_liked_before() -> None:
    world = World()
    world.ask("code-write")
    assert world.wanted() == {"code": "rule"}
    world.measured("coder", "code-write", Verdict.DENY)
    assert world.wanted() == {}
    world.ask("code-write")
    assert "code" not in world.wanted()


def test_a_tier_that_is_configured_no_more_is_not_foreseen() -> None:
    world = World()
    world.ask("code-write")
    world.router.configure(RouterSettings(TIERS[:1]), [Serve("small")])
    world.prewarmer.use_router(world.router)
    assert world.wanted() == {}
    world.prewarmer.use_router(None)
    assert world.wanted() == {}


def test_a_cloud_is_not_foreseen() -> None:
    world = World()
    for name in ("chat", "creative", "chat"):
        world.ask(name)
    assert "far" not in world.wanted()


def test_many_classes_at_once_are_told_once_a_second_and_the_last_word_is_not_lost() -> None:
    world = World()
    world.ask("chat")
    for _ in range(20):
        for name in ("code-write", "planning"):
            world.ask(name, later=0.001)
    assert len(world.told) == 1
    world.wait(PAUSE)
    assert len(world.told) == 2, "though nobody asked again"
    assert world.told[-1] == {"think": "rule", "code": "pattern"}
    world.wait(60)
    assert len(world.told) == 2


def test_a_start_takes_the_word_that_was_still_to_be_told() -> None:
    """Told in the middle of the start, it would replace what the start is measured by."""
    world = World(classes=(TaskClass("planning", tier="thinker"),))
    world.ask("chat")
    world.ask("code-write", later=0.1)
    world.ask("planning", later=0.1, starts=True)
    world.wait(60)
    assert len(world.told) == 1


def test_after_the_end_nothing_is_told() -> None:
    world = World()
    world.ask("chat")
    world.ask("code-write", later=0.1)
    world.prewarmer.use_router(None)
    world.wait(60)
    assert len(world.told) == 1


def test_nobody_may_serve_so_nothing_is_foreseen() -> None:
    world = World()
    world.router.configure(RouterSettings((Tier("coder", "code", classes=("code-write",)),)), [Serve("code")])
    world.ask("chat")
    assert world.told == []
    assert world.wanted() == {}


@story(SMALL, LARGE)
async def test_only_requests_that_name_a_task_are_heard(stage: Stage) -> None:
    heard: list[str] = []

    class Hears:
        def on_plan(self, plan: object) -> None:
            heard.append(plan.task.name)  # type: ignore[attr-defined]

    route(stage)
    stage.work_with(observer=Hears())
    client = await stage.client()
    for model in ("small", "auto:creative", "auto"):
        await client.send(ask(model=model))
        (await stage.asked()).reply(whole())
        await client.reply()
    assert heard == ["creative", "chat"]
