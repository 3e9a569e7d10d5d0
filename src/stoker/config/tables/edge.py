"""`[edge.NAME]`: a worker whose address may change, and the ingress that leads to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from stoker.config.definition import keys_of, show
from stoker.domain.edge import (
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
)
from stoker.domain.kinds import (
    Command,
    FilePath,
    Form,
    PathPrefix,
    Port,
    ServedName,
    SlashPath,
    SomeDuration,
    Text,
    ip_address_text,
    public_route,
    setting,
)
from stoker.domain.serve import SecretSource

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
IpAddress = Annotated[str, Form(ip_address_text, {"type": "string", "examples": ["10.0.0.7"]})]
PublicRoute = Annotated[
    str,
    Form(public_route, {"type": "string", "examples": ["https://llm.example.com/v1/*"]}),
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
            "Required with an ingress. The public routes, each of which is verified: `https://llm.example.com/v1/*`."
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
        SomeDuration, setting("Time within which the routes have to be verified after a reload.")
    ] = 15.0


def build_edges(tables: Mapping[str, EdgeTable], directory: Path) -> tuple[Edge, ...]:
    """`directory`: where discovery commands run."""
    return tuple(
        Edge(name, _worker(table, directory), _ingress(table), None if table.ingress is None else _routes(table))
        for name, table in tables.items()
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
    kind = table.ingress
    is_own_nginx = kind is IngressKind.NGINX and table.ingress_config is not None
    return EdgeIngress(
        kind=kind,
        config=table.ingress_config or MAIN_CONFIG[kind],
        upstream_file=table.upstream_file or "",
        template=table.template or "",
        validate=VALIDATE[kind] if table.validate_command is None else tuple(table.validate_command),
        reload=tuple(table.reload_command or (RELOAD_NGINX_OF if is_own_nginx else RELOAD[kind])),
    )


def _routes(table: EdgeTable) -> PublicRoutes:
    return PublicRoutes(
        urls=tuple(dict.fromkeys(table.routes)),
        key=table.route_key or table.key,
        connect_to=table.resolve or "",
        ca=table.ca or "",
        timeout=table.verify_timeout,
    )


def show_edge(edge: Edge) -> dict[str, Any]:
    """One `[edge.NAME]` in the form of the file."""
    worker = edge.worker
    shown: dict[str, Any] = dict.fromkeys(keys_of(EdgeTable))
    shown["verify_timeout"] = 0.0  # replaced, or removed
    shown |= _show_discovery(worker.discovery)
    shown |= {
        "port": worker.port,
        "model": worker.model,
        "path": worker.path or None,
        "health": worker.health,
        "key": worker.key,
        "allow_public": worker.allow_public,
        "allow_loopback": worker.allow_loopback,
    }
    if edge.ingress is not None and edge.routes is not None:
        shown |= _show_ingress(edge.ingress, edge.routes)
    table = show(edge, EdgeTable, **shown)
    if edge.ingress is None:
        del table["verify_timeout"]
    return table


def _show_discovery(found: Discovery) -> dict[str, Any]:
    match found:
        case StaticAddress(address):
            return {"static": address}
        case DnsName(name):
            return {"dns": name}
        case DiscoveryCommand(argv):
            return {"command": list(argv)}
        case Ec2Instances(region, instance_id):
            return {"ec2": show(found, Ec2Table, region=region or None, instance_id=instance_id or None)}


def _show_ingress(ingress: EdgeIngress, routes: PublicRoutes) -> dict[str, Any]:
    return {
        "ingress": ingress.kind,
        "ingress_config": ingress.config,
        "upstream_file": ingress.upstream_file,
        "template": ingress.template or None,
        "validate_command": list(ingress.validate),
        "reload_command": list(ingress.reload),
        "routes": [f"{url}/v1/*" for url in routes.urls],
        "route_key": routes.key,
        "resolve": routes.connect_to or None,
        "ca": routes.ca or None,
        "verify_timeout": routes.timeout,
    }
