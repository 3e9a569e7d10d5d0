"""Rules about edges.

1. exactly one discovery               4. an ingress has an upstream file and routes; nothing else has
2. port and model are given            5. no two edges write the same file
3. a static address may be used        6. `base_url = "edge:NAME"` names an edge
"""

from __future__ import annotations

from pathlib import Path

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.line_numbers import KeyPath
from stoker.config.paths import absolute
from stoker.config.tables.edge import DISCOVERIES, EdgeTable
from stoker.config.tables.file import File
from stoker.domain.edge import AddressKind, address_kind
from stoker.domain.kinds import EDGE_SCHEME

_OF_AN_INGRESS = (
    "ingress_config", "upstream_file", "template", "validate_command", "reload_command", "routes", "route_key",
    "resolve", "ca", "verify_timeout",
)  # fmt: skip


def check_edges(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """All of them."""
    written: dict[Path, KeyPath] = {}
    for name, table in file.edge.items():
        path: KeyPath = ("edge", name)
        _check_discovery(doc, path, table)  # 1
        for key in ("port", "model"):  # 2
            if getattr(table, key) is None and not doc.is_spoiled((*path, key)):
                doc.problem(path, f"`{key}` is missing")
        _check_static(doc, path, table)  # 3
        _check_ingress(doc, path, table)  # 4
        if table.upstream_file is not None:  # 5
            first = written.setdefault(absolute(table.upstream_file, Path("/")), path)
            if first != path:
                text = f"line {doc.line((*first, 'upstream_file'))} already writes this file; give each edge its own"
                doc.problem((*path, "upstream_file"), text)
    for entry in entries:  # 6
        _check_serve(doc, file, entry)


def _check_discovery(doc: ConfigDocument, path: KeyPath, table: EdgeTable) -> None:
    given = [key for key in DISCOVERIES if getattr(table, key) is not None]
    if any(doc.is_spoiled((*path, key)) for key in DISCOVERIES):
        return
    if not given:
        doc.problem(path, "nothing says how the worker is found: give `static`, `dns`, `command` or `ec2`")
    for extra in given[1:]:
        doc.problem((*path, extra), f"the worker is already found by `{given[0]}`; remove one of the two")
    if table.ec2 is not None and not table.ec2.instance_id and not table.ec2.tags:
        doc.problem((*path, "ec2"), "every instance of the account would match: give `instance_id` or `tags`")


def _check_static(doc: ConfigDocument, path: KeyPath, table: EdgeTable) -> None:
    if table.static is None:
        return
    kind = address_kind(table.static)
    if kind is AddressKind.UNUSABLE:
        doc.problem((*path, "static"), f"{table.static} cannot be a worker's address; give its private address")
    elif kind is AddressKind.PUBLIC and not table.allow_public:
        doc.problem(
            (*path, "static"),
            f"{table.static} is a public address, and what is sent there can be read on the way; give the worker's "
            "private address, or set allow_public = true",
        )


def _check_ingress(doc: ConfigDocument, path: KeyPath, table: EdgeTable) -> None:
    if doc.is_spoiled((*path, "ingress")):
        return
    if table.ingress is None:
        for key in _OF_AN_INGRESS:
            if doc.holds((*path, key)):
                doc.problem((*path, key), 'has no effect without an ingress; set `ingress = "nginx"` or "caddy"')
        return
    if table.upstream_file is None and not doc.is_spoiled((*path, "upstream_file")):
        doc.problem(path, f"`upstream_file` is missing: the file that {table.ingress} includes and route-sync writes")
    if not table.routes and not doc.is_spoiled((*path, "routes")):
        text = '`routes` is missing: without a public route nothing can be verified; write ["https://HOST/v1/*"]'
        doc.problem(path, text)


def _check_serve(doc: ConfigDocument, file: File, entry: ServeEntry) -> None:
    url = entry.table.base_url
    if url is None or not url.startswith(EDGE_SCHEME) or doc.is_spoiled(("edge",)):
        return
    name = url.removeprefix(EDGE_SCHEME)
    if name not in file.edge:
        hint = doc.did_you_mean(name, file.edge) or f"; add [edge.{name[:64]}]"
        doc.problem(entry.at("base_url"), f"there is no edge '{name[:64]}'{hint}")
