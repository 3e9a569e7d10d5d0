"""`[router]`, `[router.class.NAME]` and `[[tier]]`: requests that name a task instead of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from stoker.config.cache_prices import FRESH, CacheRate, cache_rate, cost_with_cache
from stoker.domain.definition import show
from stoker.domain.kinds import (
    BaseUrl,
    CloudDialectWord,
    Duration,
    Name,
    ServedName,
    Text,
    setting,
)
from stoker.domain.routing import (
    RouterSettings,
)
from stoker.domain.serve import SecretSource, Serve
from stoker.domain.tier import Cost, Tier, Verify

Concurrency = Annotated[int, msgspec.Meta(ge=1, le=4096)]


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
    key: Annotated[SecretSource | None, setting("The key for the cloud: `env:NAME` or `file:PATH`.")] = None
    model: Annotated[ServedName | None, setting("Required for a cloud. Its name of the model.")] = None
    max_active: Annotated[Concurrency | None, setting("Most requests in flight at the cloud. Default: 64.")] = None
    cost: Annotated[
        Cost | None,
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
    router: RouterSettings, rows: Iterable[TierTable], clouds: Mapping[str, str], aliases: Mapping[str, str]
) -> RouterSettings | None:
    """With its tiers; None without one. `clouds`: serves that somebody else runs, and their models' names there.
    `aliases`: as in `RouterSettings`.
    """
    tiers = tuple(_tier(row, clouds.get(row.serve or str(row.name))) for row in rows)
    if not tiers:
        return None
    return msgspec.structs.replace(
        router,
        tiers=tiers,
        high_risk=tuple(dict.fromkeys(router.high_risk)),
        cloud_classes=tuple(dict.fromkeys(router.cloud_classes)),
        aliases=dict(aliases),
    )


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


def _cost(cost: Cost, rate: CacheRate) -> Cost:
    return cost_with_cache(cost.input, cost.output, cost.cached_input, cost.cache_write, rate)


def show_tier(tier: Tier, serves: Mapping[str, Serve]) -> dict[str, Any]:
    """`[[tier]]` with these settings. The serve of a cloud tier is shown here, and nowhere else."""
    serve = serves[tier.serve]
    is_cloud = serve.from_tier
    return show(
        tier,
        TierTable,
        serve=None if is_cloud else tier.serve,
        base_url=serve.base_url if is_cloud else None,
        dialect=next(iter(serve.dialects)) if is_cloud else None,
        cloud=tier.cloud if is_cloud and not tier.is_assumed_local else None,
        key=serve.key if is_cloud else None,
        model=serve.served_name if is_cloud else None,
        max_active=serve.max_active if is_cloud else None,
        cost=show(tier.cost),
    )
