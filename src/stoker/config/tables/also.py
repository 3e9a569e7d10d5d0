"""`[[serve]] also`: endpoints elsewhere that serve the same model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from stoker.config.local_address import is_local
from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import BaseUrl, Count, KeyHeaderWord, Name, ServedName, Text
from stoker.domain.serve import AlsoServed, Secret


class AlsoTable(Section):
    """An endpoint elsewhere that serves the same model: another Stoker, or any with a compatible API."""

    base_url: BaseUrl | None = setting(None, 'Required. Where it answers: `"http://box2:8000/v1"`.')
    name: Name | None = setting(None, "What its replica is called after the `@`. Default: the host of `base_url`.")
    model: ServedName | None = setting(None, "The model's name there. Default: the serve's `served_name`.")
    key: Text | None = setting(None, "The key for it: `env:NAME` or `file:PATH`.")
    key_header: KeyHeaderWord | None = setting(
        None, "The header for `key`: `authorization` (as a bearer) or `x-api-key`. Default: `authorization`."
    )
    max_active: Count | None = setting(
        None, "Most requests that Stoker sends there at the same time. Default: as the serve."
    )


def name_of(table: AlsoTable) -> str:
    """What its replica is called after the `@`."""
    return table.name or re.sub(r"[^A-Za-z0-9._-]", "-", urlsplit(table.base_url or "").hostname or "").strip("-.")


def build_also(tables: Iterable[AlsoTable], keys: Mapping[int, Secret]) -> tuple[AlsoServed, ...]:
    """`keys`: by position."""
    return tuple(
        AlsoServed(
            base_url=table.base_url or "",
            name=name_of(table),
            model=table.model or "",
            key=keys.get(position),
            key_header=table.key_header or "authorization",
            max_active=table.max_active,
            is_cloud=(table.base_url or "").startswith("https://") and not is_local(table.base_url or ""),
        )
        for position, table in enumerate(tables)
    )


def show_also(one: AlsoServed) -> dict[str, object]:
    """As the table would say it, without what is not given."""
    shown = {
        "base_url": one.base_url,
        "name": one.name,
        "model": one.model or None,
        "key": one.key.source if one.key else None,
        "key_header": one.key_header,
        "max_active": one.max_active,
    }
    return {key: value for key, value in shown.items() if value is not None}
