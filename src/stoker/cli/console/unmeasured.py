"""Tiers of which nothing was measured: `up` and `doctor` say whom `auto` asks then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.domain.access import Settings


def unmeasured_warnings(settings: Settings) -> list[str]:
    """One sentence if there are local tiers and none of them was measured at any class."""
    from stoker.domain.errors import ConfigError
    from stoker.domain.routing import Unmeasured
    from stoker.extensions import is_usable
    from stoker.store.profile import configured_rows

    router = settings.router
    local = [] if router is None else router.local_tiers
    if router is None or not local or not is_usable("auto"):
        return []
    try:
        measured = {tier for tier, _ in configured_rows(router, settings.paths.state)}
    except ConfigError:
        return []  # the start says it
    if measured.intersection(tier.name for tier in local):
        return []
    clouds = [tier for tier in router.tiers if tier.cloud and tier.classes]
    trusted = clouds if router.allow_cloud and router.cloud_classes else []
    first = "a trusted cloud" if trusted and router.unmeasured is Unmeasured.TRUSTED else "the cheapest local tier"
    return [
        f"nothing is measured yet, so `auto` asks {first} first; high-risk work goes to no local tier; "
        "measure them: stoker eval bootstrap"
    ]
