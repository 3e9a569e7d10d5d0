"""`[router]`, `[router.class.NAME]` and `[[tier]]`: requests that name a task instead of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from stoker.config.cache_prices import FRESH, CacheRate, cache_rate, cost_with_cache
from stoker.config.definition import show
from stoker.domain.kinds import (
    BaseUrl,
    CloudDialectWord,
    Count,
    Duration,
    Name,
    ServedName,
    SomeDuration,
    Text,
    setting,
)
from stoker.domain.routing import (
    BreakerLimits,
    ClassifierModelSettings,
    RouterSettings,
    ShadowSettings,
    TaskClass,
    Unmeasured,
)
from stoker.domain.serve import Serve
from stoker.domain.task import HIGH_RISK, LONG
from stoker.domain.tier import Cost, Tier, Verify

Price = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Tokens = Annotated[int, msgspec.Meta(ge=1)]
Chance = Annotated[float, msgspec.Meta(ge=0, le=1)]
Few = Annotated[float, msgspec.Meta(ge=0, le=0.1)]
Concurrency = Annotated[int, msgspec.Meta(ge=1, le=4096)]


class ClassTable(msgspec.Struct, frozen=True):
    """A new task class, or changes to a built-in one."""

    words: Annotated[
        tuple[Text, ...],
        setting(
            "Words and phrases that indicate the class, in upper or lower case. A built-in class keeps its own signs."
        ),
    ] = ()
    tier: Annotated[Name | None, setting("The tier that is preferred for this class, if it may serve it.")] = None
    orchestrator: Annotated[Name | None, setting("The orchestrator that answers `auto` requests of this class.")] = None


class ShadowTable(msgspec.Struct, frozen=True):
    """Grades a share of the answers with another model, after the client has them."""

    rate: Annotated[Chance, setting("Share of routed requests whose answers are graded. 0: none.")] = 0.0
    judge: Annotated[
        Name | None,
        setting(
            "The tier that grades. Required if `rate` is above 0. Its grades count only for classes that neither it "
            "nor another tier with its model may answer, and about which it was measured (`stoker eval validator`)."
        ),
    ] = None
    cost_cap: Annotated[Price, setting("Most that grading may cost in a day (UTC), in the currency of the tiers.")] = (
        1.0
    )
    queue: Annotated[Count, setting("Most answers that may wait to be graded. Further ones are not graded.")] = 16
    timeout: Annotated[SomeDuration, setting("How long grading one answer may take.")] = 60.0


class ClassifierTable(msgspec.Struct, frozen=True):
    """A model that classifies requests if the built-in classifier is not sure."""

    serve: Annotated[Name | None, setting("Required. A serve of this file, or a tier at a `base_url`.")] = None
    timeout: Annotated[SomeDuration, setting("How long it may take. After that, the built-in classifier decides.")] = (
        0.5
    )
    below: Annotated[
        Chance, setting("It is asked if the built-in classifier is less sure than this. 1: whenever the text decides.")
    ] = 0.8


class RouterTable(msgspec.Struct, frozen=True):
    """How requests for `auto` are routed."""

    profile_path: Annotated[
        Text | None,
        setting("File of the quality profile. Default: `STATE/profile.json`; if there is none, the cautious profile."),
    ] = None
    high_risk: Annotated[
        tuple[Text, ...], setting("Classes that a local tier may serve only if it was measured to be good enough.")
    ] = HIGH_RISK
    long_context: Annotated[
        Tokens,
        setting(
            "Prompt length in tokens from which the class is `long-context`, except for work on code and high-risk "
            "classes."
        ),
    ] = LONG
    allow_cloud: Annotated[bool, setting("Whether cloud tiers may be used at all.")] = True
    cloud_classes: Annotated[tuple[Text, ...], setting('Classes for which cloud tiers may be used. `"*"`: all.')] = (
        "*",
    )
    breaker_failures: Annotated[
        Count, setting("Failures in a row within `breaker_window` that open a tier's circuit.")
    ] = 5
    breaker_window: Annotated[SomeDuration, setting("See `breaker_failures`.")] = 30.0
    breaker_cool_down: Annotated[
        SomeDuration, setting("How long an open circuit gets no requests before one tries it again.")
    ] = 20.0
    unmeasured: Annotated[
        Unmeasured,
        setting(
            "Which tier is asked first for a class at which no local tier was measured: `trusted`, a cloud that may be "
            "used; or `cheapest`, whatever it is worth. Without a cloud both are the same."
        ),
    ] = Unmeasured.TRUSTED
    explore: Annotated[
        Few,
        setting(
            "Share of requests that go to another tier first, to learn about it: one that was measured to be good "
            "enough, is loaded and displaces nothing. At most 0.1."
        ),
    ] = 0.0
    shadow: Annotated[ShadowTable, setting("Grading of live answers: `[router.shadow]`.")] = ShadowTable()
    classifier: Annotated[
        ClassifierTable | None,
        setting(
            "A model that classifies requests, if it has proved better than the built-in classifier: "
            "`[router.classifier]`."
        ),
    ] = None
    class_: Annotated[
        dict[str, ClassTable],
        setting("New classes, and changes to built-in ones: `[router.class.NAME]`.", name="class"),
    ] = {}


class CostTable(msgspec.Struct, frozen=True):
    """Price per million tokens, in one currency for all tiers."""

    input: Annotated[Price | None, setting("Required. Price of a million prompt tokens.")] = None
    output: Annotated[Price | None, setting("Required. Price of a million answer tokens.")] = None
    cached_input: Annotated[
        Price | None,
        setting(
            "Price of a million prompt tokens that came from the cloud's cache. By default Stoker's own table of "
            "November 2026 for known models, else `input`; compare it with your vendor's prices."
        ),
    ] = None
    cache_write: Annotated[
        Price | None,
        setting(
            "Price of a million prompt tokens that were written to the cloud's cache. By default Stoker's own table of "
            "November 2026 for known models (Anthropic: for five minutes; an hour costs twice `input`), else `input`."
        ),
    ] = None


class TierTable(msgspec.Struct, frozen=True):
    """What routing may choose: a serve of this file, or a cloud model."""

    name: Annotated[Name | None, setting("Required. The name of the tier. It may be the name of its serve.")] = None
    serve: Annotated[Name | None, setting("The serve that answers. Left out: the cloud at `base_url` answers.")] = None
    base_url: Annotated[BaseUrl | None, setting('Address of the cloud: `"https://api.example.com/v1"`.')] = None
    dialect: Annotated[
        CloudDialectWord | None, setting("Dialect of the cloud: `chat`, `messages` or `responses`. Default: `chat`.")
    ] = None
    cloud: Annotated[
        bool | None,
        setting(
            "Whether `base_url` is a cloud, which is trusted without being measured, and used only where clouds are "
            "allowed. Default: true, but false on this machine and in private networks."
        ),
    ] = None
    key: Annotated[Text | None, setting("The key for the cloud: `env:NAME` or `file:PATH`.")] = None
    model: Annotated[ServedName | None, setting("Required for a cloud. Its name of the model.")] = None
    max_active: Annotated[Concurrency | None, setting("Most requests in flight at the cloud. Default: 64.")] = None
    cost: Annotated[
        CostTable | None,
        setting(
            "What it costs: `{ input = 3.0, output = 15.0 }`. Required for a cloud. Default for a local tier: free."
        ),
    ] = None
    verify: Annotated[
        Verify | None,
        setting(
            "How answers are verified before the client gets them: `off`, `observe`, `hold-tools` or `hold-all`. "
            "Default: `hold-tools`; for a cloud `off`."
        ),
    ] = None
    verify_class: Annotated[
        dict[str, Verify], setting('Another `verify` for single classes: `{ planning = "hold-all" }`.')
    ] = {}
    classes: Annotated[
        tuple[Text, ...], setting('The classes that it may serve. `"*"`: all. `[]`: none; it only judges.')
    ] = ("*",)
    first_byte_timeout: Annotated[
        Duration | None,
        setting(
            "As [`first_byte_timeout` of its serve](#serve), while another tier could answer. Default: that of its "
            "serve, if the file has it; else five times the usual time, at least 30 s, plus time for the prompt. The "
            "serve that a cloud tier makes has the same limit when no other tier is left, but never less than 60 s."
        ),
    ] = None


def build_router(
    table: RouterTable,
    rows: Iterable[TierTable],
    clouds: Mapping[str, str],
    profile_path: str | None,
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> RouterSettings | None:
    """The settings; None without a tier. `clouds`: serves that somebody else runs, and their models' names
    there. `aliases`: as in `RouterSettings`.
    """
    tiers = tuple(_tier(row, clouds.get(row.serve or str(row.name))) for row in rows)
    if not tiers:
        return None
    return RouterSettings(
        tiers=tiers,
        high_risk=tuple(dict.fromkeys(table.high_risk)),
        classes=tuple(
            TaskClass(name, tuple(one.words), one.tier, one.orchestrator) for name, one in table.class_.items()
        ),
        allow_cloud=table.allow_cloud,
        cloud_classes=tuple(dict.fromkeys(table.cloud_classes)),
        breaker=BreakerLimits(table.breaker_failures, table.breaker_window, table.breaker_cool_down),
        long_context=table.long_context,
        unmeasured=table.unmeasured,
        explore=table.explore,
        shadow=_shadow(table.shadow),
        classifier=_classifier(table.classifier),
        profile_path=profile_path,
        aliases=dict(aliases),
    )


def _shadow(table: ShadowTable) -> ShadowSettings:
    return ShadowSettings(table.rate, table.judge or "", table.cost_cap, table.queue, table.timeout)


def _classifier(table: ClassifierTable | None) -> ClassifierModelSettings | None:
    return None if table is None else ClassifierModelSettings(table.serve or "", table.timeout, table.below)


def _tier(row: TierTable, model: str | None) -> Tier:
    """`model`: the cloud's name of it; None: it is no cloud."""
    name, cost, cloud = str(row.name), row.cost, model is not None
    return Tier(
        name=name,
        serve=row.serve or name,
        cloud=cloud,
        cost=Cost() if cost is None else _cost(cost, FRESH if model is None else cache_rate(model)),
        verify=Verify(row.verify) if row.verify is not None else Verify.OFF if cloud else Verify.HOLD_TOOLS,
        verify_class={name: Verify(mode) for name, mode in row.verify_class.items()},
        classes=tuple(dict.fromkeys(row.classes)),
        first_byte_timeout=row.first_byte_timeout,
        is_assumed_local=row.serve is None and row.cloud is None and not cloud,
    )


def _cost(table: CostTable, rate: CacheRate) -> Cost:
    return cost_with_cache(table.input or 0.0, table.output or 0.0, table.cached_input, table.cache_write, rate)


def show_router(router: RouterSettings) -> dict[str, Any]:
    """`[router]` with these settings."""
    shadow, classifier, breaker = router.shadow, router.classifier, router.breaker
    return show(
        RouterTable,
        router,
        breaker_failures=breaker.failures,
        breaker_window=breaker.window,
        breaker_cool_down=breaker.cool_down,
        shadow=None if shadow == ShadowSettings() else show(ShadowTable, shadow, judge=shadow.judge or None),
        classifier=None if classifier is None else show(ClassifierTable, classifier),
        class_={one.name: show(ClassTable, one) for one in router.classes} or None,
    )


def show_tier(tier: Tier, serves: Mapping[str, Serve]) -> dict[str, Any]:
    """`[[tier]]` with these settings. The serve of a cloud tier is shown here, and nowhere else."""
    serve = serves[tier.serve]
    is_cloud = serve.from_tier
    return show(
        TierTable,
        tier,
        serve=None if is_cloud else tier.serve,
        base_url=serve.base_url if is_cloud else None,
        dialect=next(iter(serve.dialects)) if is_cloud else None,
        cloud=tier.cloud if is_cloud and not tier.is_assumed_local else None,
        key=serve.key.source if is_cloud and serve.key else None,
        model=serve.served_name if is_cloud else None,
        max_active=serve.max_active if is_cloud else None,
        cost=show(CostTable, tier.cost),
    )
