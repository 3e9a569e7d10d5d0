"""A cloud tier is an external serve that is written as a tier."""

from __future__ import annotations

from stoker.config.inherit import Entry
from stoker.config.router import TierTable
from stoker.config.schema import File, ServeTable

ACTIVE = 64
"""Requests in flight: a cloud runs many at once, and says itself when it has enough (429)."""


def cloud_entries(file: File) -> list[Entry]:
    """One entry per [[tier]] with a `base_url` and without a `serve`, in the file's order."""
    return [
        Entry(index, _table(tier), (index,), section="tier") for index, tier in enumerate(file.tier) if is_cloud(tier)
    ]


def is_cloud(tier: TierTable) -> bool:
    return tier.base_url is not None and tier.serve is None


def _table(tier: TierTable) -> ServeTable:
    active = tier.max_active or ACTIVE
    return ServeTable.model_validate(
        {
            "base_url": tier.base_url,
            "dialects": [tier.dialect or "chat"],
            "health": "/v1/models",  # which every cloud has, where `/health` may be anything
            "translation": {"cloud": True},
            "parallel": active,
            "max_active": active,
            **{key: value for key in ("name", "key") if (value := getattr(tier, key)) is not None},
            **({} if tier.model is None else {"served_name": tier.model}),
        }
    )
