"""Real nginx and real Caddy, each with its own configuration, ports and certificate; and edges that point them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_edge.edge import (
    Discovery,
    DiscoveryCommand,
    Edge,
    EdgeIngress,
    EdgeWorker,
    IngressKind,
    PublicRoutes,
)
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
CADDY = shutil.which("caddy")
HOST = "llm.example"
MODEL = "qwen"

_NGINX = """\
worker_processes 2;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_buffer_size 1m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  include conf.d/*.conf;  # relative, and by a pattern
  server {{
    listen 127.0.0.1:{port} ssl;
    server_name llm.example app.example;
    ssl_certificate cert.pem;
    ssl_certificate_key key.pem;
    {header}
    location /v1/ {{ {proxy} proxy_pass http://stoker_gpu; }}
    location /llm/v1/ {{ {proxy} proxy_pass http://stoker_gpu/v1/; }}
  }}
}}
"""
_PROXY = (
    'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; '
    "proxy_buffering off; proxy_connect_timeout 2s;"
)
_CADDY = """\
{{
	admin 127.0.0.1:{admin}
	auto_https disable_redirects
	grace_period 5s
	storage file_system {folder}/storage
	skip_install_trust
}}
import upstream.caddy
https://llm.example:{port}, https://app.example:{port} {{
	bind 127.0.0.1
	tls {folder}/cert.pem {folder}/key.pem
	handle_path /llm/* {{
		import stoker_gpu
	}}
	handle {{
		import stoker_gpu
	}}
}}
"""


def free_port(*hosts: str) -> int:
    """A port that is free on all of these hosts."""
    while True:
        with socket.socket() as first:
            first.bind((hosts[0] if hosts else "127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                for host in hosts[1:]:
                    with socket.socket() as other:
                        other.bind((host, port))
            except OSError:
                continue
            return port


def make_certificate(folder: Path) -> None:
    """A self-signed certificate for the public names, which is its own CA."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=llm.example",
         "-addext", "subjectAltName=DNS:llm.example,DNS:app.example"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


@dataclass
class Ingress:
    """One running ingress. `worker_port` is the port of every worker, whatever its address."""

    kind: IngressKind
    folder: Path
    port: int
    worker_port: int
    is_marked: bool = True
    process: subprocess.Popen[bytes] | None = None
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / ("nginx.conf" if self.kind is IngressKind.NGINX else "Caddyfile")

    @property
    def upstream(self) -> Path:
        is_nginx = self.kind is IngressKind.NGINX
        return self.folder / "conf.d" / "gpu.conf" if is_nginx else self.folder / "upstream.caddy"

    def edge(self, discovery: Discovery | None = None, template: str = "", timeout: float = 3.0) -> Edge:
        found = discovery or DiscoveryCommand(("cat", str(self.folder / "address")), str(self.folder))
        url = f"https://{HOST}:{self.port}"
        return Edge(
            "gpu",
            EdgeWorker(found, self.worker_port, MODEL, allow_loopback=True),
            EdgeIngress(
                self.kind, str(self.config), str(self.upstream), template,
                self.commands["validate"], self.commands["reload"],
            ),
            PublicRoutes(
                (url, f"https://app.example:{self.port}/llm"), None, "127.0.0.1", str(self.folder / "cert.pem"), timeout
            ),
        )  # fmt: skip

    def move_worker(self, *addresses: str) -> None:
        """From now on, discovery finds these."""
        (self.folder / "address").write_text("".join(f"{one}\n" for one in addresses))


@contextmanager
def running(kind: IngressKind, folder: Path, *, is_marked: bool = True) -> Iterator[Ingress]:
    """An ingress whose upstream is not routed anywhere yet."""
    folder.chmod(0o755)
    make_certificate(folder)
    hosts = [f"127.0.0.{number}" for number in range(1, 6)]
    ingress = Ingress(kind, folder, free_port(), free_port(*hosts), is_marked)
    start = _nginx if kind is IngressKind.NGINX else _caddy
    process = start(ingress)
    ingress.process = process
    try:
        until(lambda: _listens(ingress.port), process)
        yield ingress
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@asynccontextmanager
async def worker(ingress: Ingress, host: str, **script: Any) -> AsyncIterator[ScriptedServer]:
    """A worker at this address, until the block ends."""
    server = ScriptedServer(Script(id=MODEL).amended(script), host=host, port=ingress.worker_port)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def configuration(ingress: Ingress, **changes: str) -> str:
    """`stoker.toml` of the edge. `changes`: TOML values of its keys."""
    keys = {
        "command": json.dumps(["cat", str(ingress.folder / "address")]),
        "port": str(ingress.worker_port),
        "model": json.dumps(MODEL),
        "allow_loopback": "true",
        "ingress": json.dumps(ingress.kind.value),
        "ingress_config": json.dumps(str(ingress.config)),
        "upstream_file": json.dumps(str(ingress.upstream)),
        "validate_command": json.dumps(ingress.commands["validate"]),
        "reload_command": json.dumps(ingress.commands["reload"]),
        "routes": json.dumps([f"https://{HOST}:{ingress.port}/v1/*", f"https://app.example:{ingress.port}/llm/v1/*"]),
        "resolve": '"127.0.0.1"',
        "ca": json.dumps(str(ingress.folder / "cert.pem")),
        "verify_timeout": '"3s"',
        **changes,
    }
    return "[edge.gpu]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


def _nginx(ingress: Ingress) -> subprocess.Popen[bytes]:
    assert NGINX is not None
    folder = ingress.folder
    (folder / "conf.d").mkdir()
    ingress.upstream.write_text(
        'upstream stoker_gpu { server 127.0.0.9:9; }\nmap "" $stoker_edge_gpu { default "none"; }\n'
    )
    text = _NGINX.format(
        folder=folder,
        port=ingress.port,
        proxy=_PROXY,
        user="user root;" if os.geteuid() == 0 else "",
        header="add_header X-Stoker-Edge $stoker_edge_gpu always;" if ingress.is_marked else "",
    )
    ingress.config.write_text(text)
    base = (NGINX, "-p", str(folder), "-e", str(folder / "error.log"))
    ingress.commands = {
        "validate": (*base, "-t", "-q", "-c", "{config}"),
        "reload": (*base, "-s", "reload", "-c", "{config}"),
    }
    return subprocess.Popen([*base, "-c", str(ingress.config), "-g", "daemon off;"])


def _caddy(ingress: Ingress) -> subprocess.Popen[bytes]:
    assert CADDY is not None
    folder = ingress.folder
    ingress.upstream.write_text("(stoker_gpu) {\n\treverse_proxy 127.0.0.9:9\n}\n")
    ingress.config.write_text(_CADDY.format(folder=folder, port=ingress.port, admin=free_port()))
    common = ("--adapter", "caddyfile", "--config", "{config}")
    ingress.commands = {"validate": (CADDY, "validate", *common), "reload": (CADDY, "reload", *common)}
    env = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "caddy.log").open("wb") as log:
        return subprocess.Popen(
            [CADDY, "run", "--adapter", "caddyfile", "--config", str(ingress.config)], env=env, stdout=log, stderr=log
        )


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes] | None = None, timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert process is None or process.poll() is None, "the ingress ended"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
