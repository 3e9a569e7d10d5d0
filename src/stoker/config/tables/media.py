"""`[media]`: images that requests give by their address."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import HostPattern, Size, SomeDuration
from stoker.domain.access import Media


class MediaTable(Section):
    """Whether Stoker fetches images that requests give by URL, for engines that cannot, and which."""

    fetch: bool = setting(
        False, "Whether to fetch them, from public addresses only. Otherwise such a request is refused."
    )
    hosts: list[HostPattern] = setting(
        [],
        "Hosts that they may come from: `img.example.com`, or `*.example.com` for all subdomains. Empty: any public "
        "host.",
    )
    max_bytes: Size = setting("20MiB", "Largest image.")
    timeout: SomeDuration = setting("10s", "How long fetching one image may take, redirects included.")
    max_images: Annotated[int, Field(ge=1, le=64)] = setting(8, "Most different images in one request.")


def build_media(table: MediaTable) -> Media:
    """The settings for the program."""
    return Media(table.fetch, tuple(dict.fromkeys(table.hosts)), table.max_bytes, table.timeout, table.max_images)
