"""All rules about several keys at once, and those about the front door."""

from __future__ import annotations

from pathlib import Path

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.local_address import is_loopback
from stoker.config.rules.also import check_also
from stoker.config.rules.clusters import check_clusters
from stoker.config.rules.gates import check_gates
from stoker.config.rules.keys import check_keys
from stoker.config.rules.names import check_names
from stoker.config.rules.routing import check_routing
from stoker.config.rules.serves import check_serves
from stoker.config.rules.slots import check_slots
from stoker.config.sections import WholeFile, section, table_names
from stoker.config.tables.file import File
from stoker.domain.kinds import EDGE_SCHEME
from stoker.request.accept.bodies import least_for


def check_rules(doc: ConfigDocument, file: File, entries: list[ServeEntry], directory: Path) -> None:
    """All rules. Raises nothing; what was already found wrong is not reported again. `directory`: that of the file."""
    _check_door(doc, file)
    check_keys(doc, file, entries)
    check_names(doc, entries, file.tier)
    check_serves(doc, entries)
    check_slots(doc, file, entries)
    check_clusters(doc, file, entries)
    check_also(doc, file, entries)
    check_gates(doc, file, entries)
    check_routing(doc, file, entries)
    for entry in entries:
        _check_edge(doc, file, entry)
    whole = WholeFile(file, entries, directory)
    for name, table in file.extensions.items():
        if (found := section(name)) is not None:
            if found.check is not None:
                found.check(doc, table)
            if found.check_with is not None:
                found.check_with(doc, table, whole)


def _check_edge(doc: ConfigDocument, file: File, entry: ServeEntry) -> None:
    """`base_url = "edge:NAME"` names an edge."""
    url, edges = entry.table.base_url, table_names(file, "edge")
    if url is None or not url.startswith(EDGE_SCHEME) or doc.is_spoiled(("edge",)):
        return
    name = url.removeprefix(EDGE_SCHEME)
    if name not in edges:
        hint = doc.did_you_mean(name, edges) or f"; add [edge.{name[:64]}]"
        doc.problem(entry.at("base_url"), f"there is no edge '{name[:64]}'{hint}")


def _check_door(doc: ConfigDocument, file: File) -> None:
    door, section = file.front_door, ("front_door",)
    if door.body_budget is not None and door.body_budget < least_for(door.body_limit):
        least = -(-least_for(door.body_limit) // 2**20)
        text = f"is too small for one body of `body_limit`: give at least {least}MiB, or lower `body_limit`"
        doc.problem((*section, "body_budget"), text)
    for index, network in enumerate(door.trusted_proxies):
        if (network == "*" or network.endswith("/0")) and not is_loopback(door.host):
            text = f"trusts everybody who reaches {door.host[:64]}; name the addresses of your proxies"
            doc.problem((*section, "trusted_proxies", index), text)
    if door.keys or doc.holds((*section, "auth")) or any(doc.is_spoiled((*section, key)) for key in ("keys", "auth")):
        return
    if not is_loopback(door.host):
        doc.problem(
            (*section, "host"),
            f"'{door.host[:64]}' can be reached from other machines, and there are no keys; "
            'give `keys`, or set auth = "keys" and make them with `stoker keys create`, or set auth = "none"',
        )
