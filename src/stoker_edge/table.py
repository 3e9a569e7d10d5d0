"""`[edge.NAME]`: a worker whose address may change, and the ingress that leads to it."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.paths import absolute
from stoker.config.sections import Section
from stoker.domain.access import Settings
from stoker.domain.definition import KeyPath
from stoker.domain.kinds import (
    ANY_TEXT,
    Command,
    FilePath,
    Form,
    PathPrefix,
    Port,
    ServedName,
    SlashPath,
    SomeDuration,
    Text,
    plain,
    setting,
    url,
)
from stoker.domain.serve import SecretSource
from stoker_edge.edge import (
    AddressKind,
    Discovery,
    DiscoveryCommand,
    DnsName,
    Ec2Instances,
    Edge,
    EdgeIngress,
    EdgeWorker,
    IngressKind,
    PublicRoutes,
    StaticAddress,
    address_kind,
)

DISCOVERIES = ("static", "dns", "command", "ec2")
MAIN_CONFIG = {IngressKind.NGINX: "/etc/nginx/nginx.conf", IngressKind.CADDY: "/etc/caddy/Caddyfile"}
VALIDATE = {
    IngressKind.NGINX: ("nginx", "-t", "-q", "-c", "{config}"),
    IngressKind.CADDY: ("caddy", "validate", "--adapter", "caddyfile", "--config", "{config}"),
}
RELOAD = {
    IngressKind.NGINX: ("nginx", "-s", "reload"),
    IngressKind.CADDY: ("caddy", "reload", "--adapter", "caddyfile", "--config", "{config}"),
}
RELOAD_NGINX_OF = ("nginx", "-s", "reload", "-c", "{config}")
"""That of another nginx than the machine's own: where its process is, its configuration says."""


def public_route(value: object) -> str:
    """`https://HOST/PREFIX/v1/*`, without its `/v1/*`."""
    text = plain(value)
    base = url(text.removesuffix("*").rstrip("/"))
    if not base.startswith("https://") or not base.endswith("/v1"):
        raise ValueError('is not a public route; write one like "https://llm.example.com/v1/*"')
    return base.removesuffix("/v1")


def ip_address_text(value: object) -> str:
    text = plain(value)
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError('is not an IP address; write one like "10.0.0.7" (a name goes into `dns`)') from None


IpAddress = Annotated[str, Form(ip_address_text, {"type": "string", "examples": ["10.0.0.7"]})]
PublicRoute = Annotated[
    str,
    Form(public_route, {"type": "string", "examples": ["https://llm.example.com/v1/*"]}, lambda base: f"{base}/v1/*"),
]


class Ec2Table(msgspec.Struct, frozen=True):
    """Running EC2 instances, by id or by tags. Needs the extra `aws`."""

    region: Annotated[Text | None, setting("Region. Left out: as the AWS environment or profile says.")] = None
    instance_id: Annotated[Text | None, setting("Id of the instance: `i-0123456789abcdef0`.")] = None
    tags: Annotated[
        dict[str, Text], setting('Tags that the instance has, all of them: `{ Role = "llm-worker" }`.')
    ] = {}


class EdgeTable(msgspec.Struct, frozen=True):
    """A worker whose address may change. `stoker route-sync` points an ingress at it."""

    static: Annotated[
        IpAddress | None, setting("The worker's address. Give exactly one of static, dns, command, ec2.")
    ] = None
    dns: Annotated[
        Text | None,
        setting("A name that resolves to the worker. Of several addresses, exactly one may prove to be the worker."),
    ] = None
    command: Annotated[
        Command | None,
        setting("A command that prints the worker's IP addresses, one a line; never through a shell, at most 10 s."),
    ] = None
    ec2: Annotated[Ec2Table | None, setting("EC2 instances, by id or tags: `[edge.NAME.ec2]`.")] = None
    port: Annotated[Port | None, setting("Required. The port at which the worker answers.")] = None
    model: Annotated[ServedName | None, setting("Required. The id that the worker has to show in `/v1/models`.")] = None
    path: Annotated[PathPrefix | None, setting("Path before `/v1` on the worker. Left out: none.")] = None
    health: Annotated[SlashPath, setting("Path that answers 200 when the worker is up. 404 and 405 are accepted.")] = (
        "/health"
    )
    key: Annotated[SecretSource | None, setting("The key for the worker: `env:NAME` or `file:PATH`.")] = None
    allow_public: Annotated[bool, setting("Whether the worker may have a public address.")] = False
    allow_loopback: Annotated[
        bool, setting("Whether a discovered address may be on this machine. A `static` one may be anyway.")
    ] = False
    ingress: Annotated[
        IngressKind | None,
        setting('The reverse proxy: `nginx` or `caddy`. Left out: the edge is only for `base_url = "edge:NAME"`.'),
    ] = None
    ingress_config: Annotated[
        FilePath | None,
        setting("Its main configuration file. Default: `/etc/nginx/nginx.conf` or `/etc/caddy/Caddyfile`."),
    ] = None
    upstream_file: Annotated[
        FilePath | None,
        setting("Required with an ingress. The file that is written; the main configuration has to include it."),
    ] = None
    template: Annotated[
        FilePath | None, setting("Template of the upstream file, with `@address@`. Left out: the one that ships.")
    ] = None
    validate_command: Annotated[
        Command | None,
        setting(
            "Command that validates the ingress's configuration. `{config}` is a copy of it that includes the "
            "candidate; without `{config}`, the candidate is written first and validated in place. Default: `nginx -t "
            "-q -c {config}` or `caddy validate --adapter caddyfile --config {config}`."
        ),
    ] = None
    reload_command: Annotated[
        Command | None,
        setting(
            "Command that reloads the ingress; `{config}` is its main configuration file. Default: `nginx -s reload`, "
            "with an `ingress_config` also `-c {config}`; or `caddy reload --adapter caddyfile --config {config}`."
        ),
    ] = None
    routes: Annotated[
        tuple[PublicRoute, ...],
        setting(
            "Required with an ingress. The public routes, each of which is verified: `https://llm.example.com/v1/*`.",
            quiet=True,
        ),
    ] = ()
    route_key: Annotated[
        SecretSource | None,
        setting("The key for requests through the public routes: `env:NAME` or `file:PATH`. Default: `key`."),
    ] = None
    resolve: Annotated[
        IpAddress | None, setting("Address of the ingress, to verify routes without looking up their host names.")
    ] = None
    ca: Annotated[
        FilePath | None,
        setting("File with the CA certificates to trust for the routes. Default: those of this machine."),
    ] = None
    verify_timeout: Annotated[
        SomeDuration | None, setting("Time within which the routes have to be verified after a reload.")
    ] = 15.0


def _completed(tables: Mapping[str, EdgeTable], directory: Path) -> dict[str, EdgeTable]:
    return {name: _with_defaults(table) for name, table in tables.items()}


def _with_defaults(table: EdgeTable) -> EdgeTable:
    kind = table.ingress
    if kind is None:
        return msgspec.structs.replace(table, verify_timeout=None)
    is_own_nginx = kind is IngressKind.NGINX and table.ingress_config is not None
    return msgspec.structs.replace(
        table,
        ingress_config=table.ingress_config or MAIN_CONFIG[kind],
        validate_command=VALIDATE[kind] if table.validate_command is None else table.validate_command,
        reload_command=table.reload_command or (RELOAD_NGINX_OF if is_own_nginx else RELOAD[kind]),
        routes=tuple(dict.fromkeys(table.routes)),
        route_key=table.route_key or table.key,
    )


_OF_AN_INGRESS = (
    "ingress_config", "upstream_file", "template", "validate_command", "reload_command", "routes", "route_key",
    "resolve", "ca", "verify_timeout",
)  # fmt: skip


def _check(doc: ConfigDocument, tables: Mapping[str, EdgeTable]) -> None:
    """1. exactly one discovery               4. an ingress has an upstream file and routes; nothing else has
    2. port and model are given            5. no two edges write the same file
    3. a static address may be used
    """
    written: dict[Path, KeyPath] = {}
    for name, table in tables.items():
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


EDGE = Section(
    EdgeTable,
    "Workers whose address may change, and the ingress that leads to them: `[edge.NAME]`.",
    _check,
    by_name=True,
    names=ANY_TEXT,
    complete=_completed,
    noun="edge",
)


def edges_of(settings: Settings) -> tuple[Edge, ...]:
    """Those that the file has. Discovery commands run in its folder."""
    tables = settings.extensions.get("edge")
    directory = Path(settings.source).parent
    return tuple(
        Edge(name, _worker(table, directory), _ingress(table), None if table.ingress is None else _routes(table))
        for name, table in (tables.items() if isinstance(tables, dict) else ())
    )


def _worker(table: EdgeTable, directory: Path) -> EdgeWorker:
    return EdgeWorker(
        discovery=_discovery(table, directory),
        port=table.port or 0,
        model=table.model or "",
        path=table.path or "",
        health=table.health,
        key=table.key,
        allow_public=table.allow_public,
        allow_loopback=table.allow_loopback,
    )


def _discovery(table: EdgeTable, directory: Path) -> Discovery:
    if table.dns is not None:
        return DnsName(table.dns)
    if table.command is not None:
        return DiscoveryCommand(tuple(table.command), str(directory))
    if table.ec2 is not None:
        return Ec2Instances(table.ec2.region or "", table.ec2.instance_id or "", dict(table.ec2.tags))
    return StaticAddress(table.static or "")


def _ingress(table: EdgeTable) -> EdgeIngress | None:
    if table.ingress is None:
        return None
    return EdgeIngress(
        kind=table.ingress,
        config=table.ingress_config or "",
        upstream_file=table.upstream_file or "",
        template=table.template or "",
        validate=tuple(table.validate_command or ()),
        reload=tuple(table.reload_command or ()),
    )


def _routes(table: EdgeTable) -> PublicRoutes:
    return PublicRoutes(
        urls=table.routes,
        key=table.route_key,
        connect_to=table.resolve or "",
        ca=table.ca or "",
        timeout=table.verify_timeout or 0.0,
    )
