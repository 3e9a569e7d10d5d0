"""What a running Stoker says of itself, as settings: where its configuration cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stoker.cli.console.answers import StatusAnswer
from stoker.domain.access import ListenSettings, Paths, ResponseStorage, Settings, TlsSettings
from stoker.domain.dialect import Dialect
from stoker.domain.serve import Serve, Status


def settings_of(status: StatusAnswer, models: Iterable[Mapping[str, Any]]) -> tuple[Settings, tuple[str, ...]]:
    """The address and the serves, with every name that clients may ask for; and the names that ask for a choice.

    `models`: the entries of GET /v1/models. Secrets, prefixes and sampling are not known.
    """
    serves: dict[str, Serve] = {}
    for one in status.serves:
        name, dialects = one.replica_of or one.name, frozenset(Dialect(d) for d in one.dialects if d in list(Dialect))
        serves.setdefault(
            name,
            Serve(
                name, one.engine, one.model, one.served_name, tuple(one.aliases), context=one.context, slot=one.slot,
                status=Status(one.status) if one.status in list(Status) else Status.PRODUCTION,
                auto_context=one.auto_context, dialects=dialects,
            ),
        )  # fmt: skip
    tasks = []
    for entry in models:
        about, name = entry.get("stoker") or {}, str(entry.get("id"))
        serve = serves.get(str(about.get("serve")))
        if serve is None:
            tasks += [name] if about.get("state") == "routed" else []
            continue
        more = () if name in serve.names() else (name,)
        taken = tuple(about.get("modalities") or serve.modalities)
        serves[serve.name] = replace(serve, aliases=(*serve.aliases, *more), modalities=taken)
    door, responses = status.frontdoor, ResponseStorage(store=status.responses is not None)
    tls = TlsSettings("", "") if door.base_url.startswith("https:") else None
    front_door = ListenSettings(host=door.host or "127.0.0.1", port=door.port, tls=tls)
    return Settings(front_door, Paths("", "", ""), (), tuple(serves.values()), responses=responses), tuple(tasks)
