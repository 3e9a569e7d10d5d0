"""`[media]`: images that requests give by their address."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import HostPattern, Size, SomeDuration
from stoker.domain.access import Media


class MediaTable(Section):
    """Whether Stoker fetches the images that requests give by their address, for models that cannot, and which."""

    fetch: bool = setting(False, "Fetch them, from public addresses only; otherwise such a request is refused.")
    hosts: list[HostPattern] = setting(
        [], "Hosts that they may come from: `img.example.com`, `*.example.com` (all below it). Empty: any public one."
    )
    max_bytes: Size = setting("20MiB", "Size of one image at most.")
    timeout: SomeDuration = setting("10s", "How long fetching one may take, redirects included.")
    most: Annotated[int, Field(ge=1, le=64)] = setting(8, "Different images that one request may name.")


def build_media(table: MediaTable) -> Media:
    """What the program runs by."""
    return Media(table.fetch, tuple(dict.fromkeys(table.hosts)), table.max_bytes, table.timeout, table.most)
