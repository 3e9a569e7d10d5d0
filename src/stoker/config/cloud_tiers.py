"""A tier with a `base_url` becomes an external serve, usually a cloud."""

from __future__ import annotations

from stoker.config.inheritance import ServeEntry
from stoker.config.local_address import is_local
from stoker.config.tables.file import File
from stoker.config.tables.router import TierTable
from stoker.domain.dialect import Dialect
from stoker.domain.serve import ServeRow, Translation

LEAST = 60.0
"""Seconds that the first byte of its answer may take, at least, when no other tier is left."""
ACTIVE = 64
"""Requests in flight: a cloud runs many at once, and says itself when it has enough (429)."""


def cloud_entries(file: File) -> list[ServeEntry]:
    """One entry per [[tier]] with a `base_url` and without a `serve`, in the file's order."""
    return [_entry(index, tier) for index, tier in enumerate(file.tier) if is_cloud(tier)]


def is_cloud(tier: TierTable) -> bool:
    """Whether it is written with a `base_url` of its own."""
    return tier.base_url is not None and tier.serve is None


def is_trusted(tier: TierTable) -> bool:
    """Whether it is a cloud: as `cloud` says, else by its address. A tier on this machine or in a private
    network is measured like any local tier.
    """
    return not is_local(tier.base_url or "") if tier.cloud is None else tier.cloud


def _entry(index: int, tier: TierTable) -> ServeEntry:
    active, first_byte = tier.max_active or ACTIVE, tier.first_byte_timeout
    row = ServeRow(
        name=tier.name or "",
        served_name=tier.model or "",
        base_url=tier.base_url,
        key=tier.key,
        dialects=frozenset((tier.dialect or Dialect.CHAT,)),
        health="/v1/models",  # which every cloud has, where `/health` may be anything
        translation=Translation(cloud=is_trusted(tier)),
        parallel=active,
        max_active=active,
        first_byte_timeout=None if first_byte is None else max(first_byte, LEAST) if first_byte else 0.0,
    )
    given = {"dialects": [tier.dialect], "health": row.health, "translation": {"cloud": row.translation.cloud}}
    return ServeEntry(index, row, given, section="tier")
