"""The whole file. Every key is optional here; the rules name the line where a required one is missing.

Most tables are records of the domain, whose fields are the keys. Those of this folder are written otherwise than they
are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from stoker.config.tables.gates import AliasRow
from stoker.config.tables.router import TierTable
from stoker.domain.access import (
    CompatPaths,
    Conversations,
    ListenSettings,
    Media,
    Paths,
    ResponseStorage,
    WarmPool,
    Watchdog,
)
from stoker.domain.cluster import Cluster
from stoker.domain.gate import Gate
from stoker.domain.key import App
from stoker.domain.kinds import setting
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import ServeRow, Slot, SwapPolicy


class File(msgspec.Struct, frozen=True):
    """The whole file."""

    front_door: Annotated[ListenSettings, setting("Address, limits and keys of the one endpoint.")] = ListenSettings()
    paths: Annotated[Paths, setting("Where state, logs and models lie.")] = Paths("", "", "")
    slots: Annotated[dict[str, Slot], setting("Sets of devices that serves share: `[slots.NAME]`.")] = {}
    swap: Annotated[SwapPolicy, setting("How slots swap their residents.")] = SwapPolicy()
    serve: Annotated[tuple[ServeRow, ...], setting("The model servers: one `[[serve]]` each.")] = ()
    warm: Annotated[WarmPool, setting("Host memory for the weights of models that were swapped out.")] = WarmPool()
    watchdog: Annotated[Watchdog, setting("When a serve counts as hung, and how often it is restarted.")] = Watchdog()
    conversations: Annotated[Conversations, setting("Saved KV caches.")] = Conversations()
    app: Annotated[dict[str, App], setting("Applications, with settings and limits for their keys: `[app.NAME]`.")] = {}
    gate: Annotated[dict[str, Gate], setting("Conditions for promotions: `[gate.NAME]`.")] = {}
    alias: Annotated[
        dict[str, AliasRow],
        setting(
            'Names that a promotion can move to another serve: `[alias.NAME]`; or names for routing: `fast = "auto"`.'
        ),
    ] = {}
    clusters: Annotated[dict[str, Cluster], setting("Ray clusters whose GPUs slots may name: `[clusters.NAME]`.")] = {}
    compat: Annotated[CompatPaths, setting("Paths of other programs that are answered.")] = CompatPaths()
    media: Annotated[Media, setting("Images that requests give by URL.")] = Media()
    responses: Annotated[
        ResponseStorage, setting("Responses and conversations that clients of the Responses API store.")
    ] = ResponseStorage()
    router: Annotated[RouterSettings, setting("How requests for `auto` are routed.")] = RouterSettings(())
    tier: Annotated[
        tuple[TierTable, ...], setting("What routing may choose among, the cheapest first: one `[[tier]]` each.")
    ] = ()
    extensions: Mapping[str, Any] = {}
    """By name, the tables that extensions brought (`config.sections`)."""
    unread: Mapping[str, Any] = {}
    """By name, as written, the tables whose extension comes with Stoker and is missing."""
