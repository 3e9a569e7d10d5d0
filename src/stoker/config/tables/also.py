"""`[[serve]] also`: endpoints elsewhere that serve the same model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from stoker.config.local_address import is_local
from stoker.domain.kinds import BaseUrl, Count, KeyHeaderWord, Name, ServedName, Text, setting
from stoker.domain.serve import AlsoServed, Secret


class AlsoTable(msgspec.Struct, frozen=True):
    """An endpoint elsewhere that serves the same model: another Stoker, or any with a compatible API."""

    base_url: Annotated[BaseUrl | None, setting('Required. Where it answers: `"http://box2:8000/v1"`.')] = None
    name: Annotated[
        Name | None, setting("What its replica is called after the `@`. Default: the host of `base_url`.")
    ] = None
    model: Annotated[ServedName | None, setting("The model's name there. Default: the serve's `served_name`.")] = None
    key: Annotated[Text | None, setting("The key for it: `env:NAME` or `file:PATH`.")] = None
    key_header: Annotated[
        KeyHeaderWord | None,
        setting("The header for `key`: `authorization` (as a bearer) or `x-api-key`. Default: `authorization`."),
    ] = None
    max_active: Annotated[
        Count | None, setting("Most requests that Stoker sends there at the same time. Default: as the serve.")
    ] = None


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
