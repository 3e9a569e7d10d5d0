"""Behind a real nginx and a real Caddy that leave the prefix in, everything is found below it: also the page, its
files and what it asks for.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.edge.ingresses import CADDY, NGINX
from tests.scenarios.plane import Plane, free_port, poll, running, serve
from tests.scenarios.web_page import browsing, needs_browser

from stoker_lab.testing.script.script import Script

PREFIX = "/team/llm"
READ = ("/", "/ui/", "/ui/app.js", "/status", "/healthz", "/health", "/readyz", "/metrics", "/openapi.json",
        "/v1/models", "/v1/models/a", "/api/tags", "/v1/usage", "/admin/decisions", "/upstream/a/health")  # fmt: skip


@pytest.fixture(scope="module")
def stoker() -> Iterator[Plane]:
    with running(serve("a", Script(tokens=3)), front_door=f'prefixes = ["{PREFIX}"]') as plane:
        yield plane


def nginx(folder: Path, port: int, stoker: int) -> list[str]:
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = " ".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{user} pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary} proxy_buffering off; server {{ listen 127.0.0.1:{port};\n"
        f"location {PREFIX} {{ proxy_pass http://127.0.0.1:{stoker}; proxy_set_header Host $http_host; }}\n"
        f"location / {{ return 404; }} }} }}\n"
    )
    return [str(NGINX), "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf",
            "-g", "daemon off;"]  # fmt: skip


def caddy(folder: Path, port: int, stoker: int) -> list[str]:
    site = f"http://127.0.0.1:{port} {{\n\thandle {PREFIX}* {{\n\t\treverse_proxy 127.0.0.1:{stoker}\n\t}}\n}}\n"
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site)
    return [str(CADDY), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@pytest.fixture(params=["nginx", "caddy"])
def public(request: pytest.FixtureRequest, stoker: Plane, tmp_path: Path) -> Iterator[str]:
    """The address of the proxy, without the prefix."""
    found, command = {"nginx": (NGINX, nginx), "caddy": (CADDY, caddy)}[request.param]
    if found is None:
        pytest.skip(f"{request.param} is not installed (Debian: apt-get install {request.param})")
    port = free_port()
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with (tmp_path / "out.txt").open("wb") as out:
        process = subprocess.Popen(command(tmp_path, port, stoker.port), env=env, stdout=out, stderr=out)
    address = f"http://127.0.0.1:{port}"

    def listens() -> bool:
        assert process.poll() is None, (tmp_path / "out.txt").read_text()
        try:
            get(address)
        except OSError:
            return False
        return True

    try:
        poll(listens, "the proxy listens")
        yield address
    finally:
        process.terminate()
        process.wait(20)


def get(address: str, **headers: str) -> tuple[int, str, str]:
    """Status, body, and the address at which redirections ended."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as reply:
            return reply.status, reply.read().decode(), reply.url
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.url


def test_every_path_is_found_below_the_prefix(public: str, stoker: Plane) -> None:
    assert stoker.admin("switch", serve="a")[0] == 200
    found = {path: get(public + PREFIX + path)[0] for path in READ}
    assert found == dict.fromkeys(READ, 200)
    assert json.loads(get(public + PREFIX)[1]) == {
        "name": "stoker", "models": f"{PREFIX}/v1/models", "status": f"{PREFIX}/status",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["", "/", "/ui"])
def test_a_browser_is_led_to_the_page_below_the_prefix(public: str, path: str) -> None:
    status, _, url = get(public + PREFIX + path, accept="text/html")
    assert (status, url) == (200, f"{public}{PREFIX}/ui/")


@needs_browser
def test_the_page_works_below_the_prefix(public: str, stoker: Plane) -> None:
    """Its files, what it asks for, live events, and its buttons, which call /admin."""
    with browsing() as browser:
        page = browser.new_page()
        refused: list[str] = []
        page.on("response", lambda reply: refused.append(reply.url) if reply.status >= 400 else None)
        page.goto(f"{public}{PREFIX}")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.goto(f"{public}{PREFIX}/ui/#/serves/a")
        expect(page.get_by_role("heading", name="a", exact=True)).to_be_visible()
        assert stoker.admin("switch", serve="a")[0] == 200
        page.get_by_role("button", name="Unload").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Unload").click()
        expect(page.get_by_role("dialog")).to_contain_text("a is unloaded")
        assert stoker.serve("a")["state"] == "stopped"
        assert not refused
