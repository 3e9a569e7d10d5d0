"""What a configuration says of edges that is allowed but probably not meant."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.access import Settings


def warnings(settings: Settings) -> list[str]:
    """Of each edge that nothing uses: one sentence. A configuration without edges imports nothing for it."""
    tables = settings.extensions.get("edge")
    used = {serve.edge for serve in settings.serves}
    return [
        f"edge '{name}' has no effect: give it an `ingress`, or a serve with base_url = \"edge:{name}\""
        for name, table in (tables.items() if isinstance(tables, Mapping) else ())
        if table.ingress is None and name not in used
    ]
