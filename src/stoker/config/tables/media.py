"""`[media]`: images that requests give by their address."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.domain.access import Media
from stoker.domain.kinds import HostPattern, Size, SomeDuration, setting


class MediaTable(msgspec.Struct, frozen=True):
    """Whether Stoker fetches images that requests give by URL, for engines that cannot, and which."""

    fetch: Annotated[
        bool, setting("Whether to fetch them, from public addresses only. Otherwise such a request is refused.")
    ] = False
    hosts: Annotated[
        tuple[HostPattern, ...],
        setting(
            "Hosts that they may come from: `img.example.com`, or `*.example.com` for all subdomains. Empty: any "
            "public host."
        ),
    ] = ()
    max_bytes: Annotated[Size, setting("Largest image.")] = 20 * 2**20
    timeout: Annotated[SomeDuration, setting("How long fetching one image may take, redirects included.")] = 10.0
    max_images: Annotated[int, setting("Most different images in one request.", ge=1, le=64)] = 8


def build_media(table: MediaTable) -> Media:
    """The settings for the program."""
    return Media(table.fetch, tuple(dict.fromkeys(table.hosts)), table.max_bytes, table.timeout, table.max_images)
