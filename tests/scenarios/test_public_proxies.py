"""Real nginx and real Caddy in front of Stoker, with the configuration that the guide shows."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.edge.ingresses import CADDY, NGINX, make_certificate
from tests.scenarios.plane import Plane, free_port, poll, running, serve

from stoker_lab.testing.script.script import Script

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "reverse-proxy.md"
HOST = "llm.example"
UNKNOWN = "unknown.example"
"""A host that the proxy serves and that is not in `allowed_hosts`."""
GAP, TOKENS = 0.15, 6
KEY, FEW = "sk-public-proxies-0001", "sk-public-proxies-0002"
CLIENT = "127.0.0.3"
"""The clients' own address: another one than the proxy's."""


def block(heading: str, language: str) -> str:
    """The first block of code below a heading of the guide."""
    return blocks(heading, language)[0]


def blocks(heading: str, language: str) -> list[str]:
    section = GUIDE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, f"the guide has no {language} below '{heading}'"
    return list(found)


def put(text: str, *changes: tuple[str, str]) -> str:
    """`text` with the places of a test instead of those of the guide; each has to be there."""
    for old, new in changes:
        assert old in text, f"the guide no longer has {old!r}"
        text = text.replace(old, new)
    return text


class PublicHost:
    """The proxy's address."""

    def __init__(self, port: int, folder: Path, plane: Plane, pid: int) -> None:
        self.port, self.plane, self.pid = port, plane, pid
        self._context = ssl.create_default_context(cafile=str(folder / "cert.pem"))

    def connect(self) -> http.client.HTTPConnection:
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(CLIENT, 0))
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        connection.sock = self._context.wrap_socket(raw, server_hostname=HOST)
        return connection

    def ask(
        self, method: str, path: str, document: object = None, key: str = KEY, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, None if document is None else json.dumps(document), heads(key, **headers))
            reply = connection.getresponse()
            return reply.status, reply.msg, reply.read()
        finally:
            connection.close()


def heads(key: str, **headers: str) -> dict[str, str]:
    given = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    return {**given, **{name.replace("_", "-"): value for name, value in headers.items()}}


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "a", "messages": [{"role": "user", "content": "hello"}], **fields}


def arrivals(connection: http.client.HTTPConnection) -> list[float]:
    """When each token of a stream came."""
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True)), heads(KEY))
        reply = connection.getresponse()
        assert reply.status == 200
        return [time.monotonic() for line in iter(reply.readline, b"") if re.search(rb'"content": ?" ?tok', line)]
    finally:
        connection.close()


def nginx(folder: Path, port: int, stoker: int) -> list[str]:
    user = "user root;" if os.geteuid() == 0 else ""
    recipe = put(
        block("Behind nginx", "nginx"),
        ("127.0.0.1:8000", f"127.0.0.1:{stoker}"), ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/ssl/llm.example.crt", "cert.pem"), ("/etc/ssl/llm.example.key", "key.pem"),
    )  # fmt: skip
    temporary = " ".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{user} pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{recipe}}}\n"
    )
    return [
        str(NGINX),
        "-p",
        str(folder),
        "-e",
        f"{folder}/error.log",
        "-c",
        f"{folder}/nginx.conf",
        "-g",
        "daemon off;",
    ]


def caddy(folder: Path, port: int, stoker: int) -> list[str]:
    site = f"https://{HOST}:{port}, https://{UNKNOWN}:{port} {{\n\tbind 127.0.0.1"
    recipe = put(
        block("Behind Caddy", "caddy"),
        ("127.0.0.1:8000", f"127.0.0.1:{stoker}"), ("llm.example {", site),
        ("/etc/ssl/llm.example.crt /etc/ssl/llm.example.key", f"{folder}/cert.pem {folder}/key.pem"),
    )  # fmt: skip
    own = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n"
    (folder / "Caddyfile").write_text(own + recipe)
    return [str(CADDY), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@pytest.fixture(scope="module")
def stoker() -> Iterator[Plane]:
    shown = tomllib.loads(block("Settings in Stoker", "toml"))["front_door"]
    kept = "\n".join(f"{name} = {json.dumps(shown[name])}" for name in ("auth", "allowed_hosts", "trusted_proxies"))
    keys = (
        'keys = [{ name = "team", value = "env:TEAM_KEY" }, '
        '{ name = "few", value = "env:FEW_KEY", requests_per_minute = 1 }]'
    )
    serves = (
        serve("a", Script(tokens=TOKENS, gap=GAP), slot=None),
        serve("broken", Script(exit_code=3), slot=None),
    )
    with running(*serves, front_door=f"{kept}\n{keys}", environment={"TEAM_KEY": KEY, "FEW_KEY": FEW}) as plane:
        yield plane


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def public(
    request: pytest.FixtureRequest, stoker: Plane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PublicHost]:
    found, command = {"nginx": (NGINX, nginx), "caddy": (CADDY, caddy)}[request.param]
    if found is None:
        pytest.skip(f"{request.param} is not installed (Debian: apt-get install {request.param})")
    folder = tmp_path_factory.mktemp(request.param)
    make_certificate(folder)
    port = free_port()
    env = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "out.txt").open("wb") as out:
        process = subprocess.Popen(command(folder, port, stoker.port), env=env, stdout=out, stderr=out)
    host = PublicHost(port, folder, stoker, process.pid)

    def listens() -> bool:
        assert process.poll() is None, (folder / "out.txt").read_text()
        try:
            host.connect().close()
        except OSError:
            return False
        return True

    try:
        poll(listens, "the proxy listens")
        yield host
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_tokens_come_through_one_by_one_as_they_do_directly(public: PublicHost) -> None:
    direct = arrivals(http.client.HTTPConnection("127.0.0.1", public.plane.port, timeout=30))
    routed = arrivals(public.connect())
    assert len(direct) == len(routed) == TOKENS
    for times in (direct, routed):
        together = [later - earlier for earlier, later in pairwise(times) if later - earlier <= GAP / 3]
        assert len(together) <= 1, times  # a busy machine may be late for one


def test_a_body_of_30_mebibytes_passes(public: PublicHost) -> None:
    document = chat(messages=[{"role": "user", "content": "x" * (30 << 20)}])
    status, _, body = public.ask("POST", "/v1/chat/completions", document)
    assert status == 200, body[:300]


def test_a_body_goes_on_before_it_is_complete(public: PublicHost) -> None:
    """So a wrong key is refused while 19 of 20 MB were not sent, and the proxy, which is still sending then, gets to
    read that.
    """
    assert [refused_early(public) for _ in range(8)] == [401] * 8


def refused_early(public: PublicHost) -> int:
    """The status of a request with a wrong key, whose body is never sent to its end."""
    connection = public.connect()
    try:
        connection.putrequest("POST", "/v1/chat/completions")
        for name, value in {**heads("sk-wrong-wrong"), "content-length": "20000000"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answered = threading.Event()

        def send() -> None:
            with contextlib.suppress(OSError):  # the connection may be closed behind the refusal
                for _ in range(100):  # Caddy passes a refusal on when it has read a further piece
                    if not answered.wait(0.02):
                        connection.send(b" " * 10_000)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            return connection.getresponse().status
        finally:
            answered.set()
            sender.join()
    finally:
        connection.close()


def test_limits_and_pauses_reach_the_client(public: PublicHost) -> None:
    public.ask("POST", "/v1/chat/completions", chat(), FEW)
    status, headers, _ = public.ask("POST", "/v1/chat/completions", chat(), FEW)
    assert status == 429
    assert int(headers["retry-after"]) > 0
    assert headers["x-ratelimit-remaining-requests"] == "0"
    status, headers, body = public.ask("POST", "/v1/chat/completions", chat(model="broken"))
    assert (status, bool(headers["retry-after"])) == (503, True), body


def test_the_api_is_there_with_and_without_a_prefix_and_nothing_else_is(public: PublicHost) -> None:
    assert [public.ask("GET", path)[0] for path in ("/v1/models", "/llm/v1/models", "/healthz")] == [200] * 3
    for path in ("/admin/switch", "/status", "/metrics", "/llm/status", "/llm/admin/switch"):
        assert public.ask("GET", path)[0] == 404


def test_what_a_client_invents_about_itself_is_not_believed(public: PublicHost) -> None:
    lies = {"x_forwarded_for": "192.0.2.99", "x_forwarded_host": "evil.example", "x_forwarded_prefix": "/v1/x"}
    assert public.ask("GET", "/v1/models", **lies)[0] == 200
    assert public.ask("GET", "/v1/x/v1/models", **lies)[0] == 404
    assert public.ask("GET", "/v1/models", key="sk-wrong-wrong", **lies)[0] == 401
    log = (public.plane.state / "logs" / "stoker.log").read_text()
    assert f"refused: {CLIENT} came with a wrong key" in log
    assert "192.0.2.99" not in log


def test_a_host_that_is_not_allowed_is_named_with_the_setting(public: PublicHost) -> None:
    status, _, body = public.ask("GET", "/v1/models", host=UNKNOWN)
    error = json.loads(body)["error"]
    assert (status, error["code"]) == (403, "foreign_host")
    assert error["message"] == f"Host '{UNKNOWN}' is not allowed: add it to front_door.allowed_hosts"


def test_connections_to_stoker_are_kept_open(public: PublicHost) -> None:
    for _ in range(10):
        assert public.ask("GET", "/v1/models")[0] == 200
    found = psutil.Process(public.pid).children(recursive=True) or [psutil.Process(public.pid)]
    kept = [c for one in found for c in one.net_connections() if c.raddr and c.raddr.port == public.plane.port]
    assert 0 < len([c for c in kept if c.status == psutil.CONN_ESTABLISHED]) <= 3, kept
    assert not [c for c in kept if c.status == psutil.CONN_TIME_WAIT]


def test_the_recipe_for_traefik_says_the_same() -> None:
    """Nothing here runs Traefik: its recipe is read, not tried."""
    yaml: Any = pytest.importorskip("yaml")
    static, dynamic = (yaml.safe_load(text) for text in blocks("Behind Traefik", "yaml"))
    assert static["entryPoints"]["websecure"]["transport"]["respondingTimeouts"] == {"readTimeout": "10m"}
    [service] = dynamic["http"]["services"].values()
    assert service["loadBalancer"]["servers"] == [{"url": "http://127.0.0.1:8000"}]
    assert service["loadBalancer"]["serversTransport"] in dynamic["http"]["serversTransports"]
    [router] = dynamic["http"]["routers"].values()
    assert router["service"] in dynamic["http"]["services"]
    assert f"Host(`{HOST}`)" in router["rule"]
